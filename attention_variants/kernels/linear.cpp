#include "attention_variants/kernels/linear.h"

#include <cmath>

#include "attention_variants/kernels/cpu/linear_head.h"
#include "attention_variants/kernels/heads.h"

namespace lra {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

cpu::LinearShape shape_of(int64_t length, int64_t depth, const LinearKernelOptions& options) {
  return {.length = length,
          .depth = depth,
          .normalise = options.normalise,
          .share = options.normalise ? 1.0F : 1 / std::sqrt(static_cast<float>(length)),
          .least = static_cast<float>(options.least)};
}

cpu::LinearInputs inputs_of(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                            const torch::Tensor& mask, int64_t b, int64_t h) {
  return {.q = head_rows(q, b, h),
          .k = head_rows(k, b, h),
          .v = head_rows(v, b, h),
          .mask = mask.const_data_ptr<bool>() + b * mask.size(1)};
}

class LinearKernel : public torch::autograd::Function<LinearKernel> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& q_given,
                               const torch::Tensor& k_given, const torch::Tensor& v_given,
                               const torch::Tensor& mask_given, LinearKernelOptions options) {
    const torch::Tensor q = with_unit_rows(q_given), k = with_unit_rows(k_given),
                        v = with_unit_rows(v_given), mask = mask_given.contiguous();
    const cpu::LinearShape shape = shape_of(q.size(2), q.size(3), options);
    const int64_t heads = q.size(1), saved = cpu::linear_saved(shape);
    const torch::Tensor out = heads_like(q),
                        sums = torch::empty({q.size(0), heads, saved}, q.options());
    for_each_item(
        q.size(0) * heads, cpu::linear_scratch(shape), q.options(), [&](int64_t i, float* scratch) {
          const int64_t b = i / heads, h = i % heads;
          cpu::linear_forward(shape, inputs_of(q, k, v, mask, b, h), mutable_head_rows(out, b, h),
                              sums.mutable_data_ptr<float>() + i * saved, scratch);
        });
    context->save_for_backward({q, k, v, mask, sums});
    context->saved_data["normalise"] = options.normalise;
    context->saved_data["least"] = options.least;
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list kept = context->get_saved_variables();
    const torch::Tensor &q = kept[0], &k = kept[1], &v = kept[2], &mask = kept[3], &sums = kept[4];
    const cpu::LinearShape shape = shape_of(q.size(2), q.size(3),
                                            {.normalise = context->saved_data["normalise"].toBool(),
                                             .least = context->saved_data["least"].toDouble()});
    const torch::Tensor grad_out = with_unit_rows(gradients[0]), grad_q = heads_like(q),
                        grad_k = heads_like(q), grad_v = heads_like(q);
    const int64_t heads = q.size(1), saved = cpu::linear_saved(shape);
    for_each_item(
        q.size(0) * heads, cpu::linear_scratch(shape), q.options(), [&](int64_t i, float* scratch) {
          const int64_t b = i / heads, h = i % heads;
          cpu::linear_backward(shape, inputs_of(q, k, v, mask, b, h),
                               sums.const_data_ptr<float>() + i * saved, head_rows(grad_out, b, h),
                               {.q = mutable_head_rows(grad_q, b, h),
                                .k = mutable_head_rows(grad_k, b, h),
                                .v = mutable_head_rows(grad_v, b, h)},
                               scratch);
        });
    return {grad_q, grad_k, grad_v, {}, {}};
  }
};

}  // namespace

torch::Tensor linear_kernel(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                            const torch::Tensor& mask, const LinearKernelOptions& options) {
  return LinearKernel::apply(q, k, v, mask, options);
}

int64_t linear_kernel_bytes(int64_t batch, int64_t heads, int64_t length, int64_t head_dim,
                            const LinearKernelOptions& options) {
  const cpu::LinearShape shape = shape_of(length, head_dim, options);
  const int64_t items = batch * heads;
  return (items * (length * head_dim + cpu::linear_saved(shape)) +
          threads_for(items) * cpu::linear_scratch(shape)) *
         static_cast<int64_t>(sizeof(float));
}

}  // namespace lra
