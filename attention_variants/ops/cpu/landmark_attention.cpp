#include "attention_variants/ops/landmark_attention.h"

#include "attention_variants/ops/autograd_state.h"
#include "attention_variants/ops/cpu/heads.h"
#include "attention_variants/ops/cpu/kernels/landmark_attention.h"
#include "attention_variants/ops/cpu/parallel.h"
#include "attention_variants/ops/dispatch.h"

namespace lra::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

cpu::NystromShape shape_of(const torch::Tensor& q, const torch::Tensor& conv_weight,
                           const LandmarkOptions& options) {
  return {.length = q.size(2),
          .landmarks = options.landmarks,
          .depth = q.size(3),
          .iterations = options.iterations,
          .kernel = conv_weight.size(1)};
}

// What head h of sample b reads.
cpu::NystromInputs nystrom_inputs(const torch::Tensor& q, const torch::Tensor& k,
                                  const torch::Tensor& v, const torch::Tensor& mask,
                                  const torch::Tensor& conv_weight, int64_t b, int64_t h) {
  return {.q = head_rows(q, b, h),
          .k = head_rows(k, b, h),
          .v = head_rows(v, b, h),
          .mask = mask.const_data_ptr<bool>() + b * mask.size(1),
          .conv_weight = conv_weight.const_data_ptr<float>() + h * conv_weight.size(1)};
}

void for_each_head(const torch::Tensor& x, int64_t scratch,
                   const std::function<void(int64_t b, int64_t h, float* scratch)>& body) {
  const int64_t heads = x.size(1);
  parallel_for_items(x.size(0) * heads, scratch, x.options(),
                     [&](int64_t i, float* at) { body(i / heads, i % heads, at); });
}

class NystromKernel : public torch::autograd::Function<NystromKernel> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& q_given,
                               const torch::Tensor& k_given, const torch::Tensor& v_given,
                               const torch::Tensor& mask_given, const torch::Tensor& taps_given,
                               const LandmarkOptions& options, bool differentiated) {
    const cpu::GemmPrecisionScope scope(save_gemm_precision(*context));
    const torch::Tensor q = with_contiguous_rows(q_given), k = with_contiguous_rows(k_given),
                        v = with_contiguous_rows(v_given), mask = mask_given.contiguous(),
                        conv_weight = taps_given.contiguous();
    const cpu::NystromShape shape = shape_of(q, conv_weight, options);
    const torch::Tensor out = empty_heads_like(q);
    const torch::Tensor saved =
        differentiated
            ? torch::empty({q.size(0), q.size(1), cpu::nystrom_saved(shape)}, q.options())
            : torch::Tensor();
    for_each_head(
        q, cpu::nystrom_scratch(shape, holes_of(mask)), [&](int64_t b, int64_t h, float* scratch) {
          cpu::nystrom_forward(
              shape, nystrom_inputs(q, k, v, mask, conv_weight, b, h), mutable_head_rows(out, b, h),
              saved.defined() ? saved[b][h].mutable_data_ptr<float>() : nullptr, scratch);
        });
    if (differentiated) {
      context->save_for_backward({q, k, v, mask, conv_weight, saved});
      save_settings(*context, options);
    }
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const cpu::GemmPrecisionScope scope(saved_gemm_precision(*context));
    const variable_list kept = saved_tensors(*context);
    const torch::Tensor &q = kept[0], &k = kept[1], &v = kept[2], &mask = kept[3],
                        &conv_weight = kept[4], &saved = kept[5];
    const cpu::NystromShape shape =
        shape_of(q, conv_weight, saved_settings<LandmarkOptions>(*context));
    const torch::Tensor grad_out = with_contiguous_rows(gradients[0]);
    const torch::Tensor grad_q = empty_heads_like(q), grad_k = empty_heads_like(k),
                        grad_v = empty_heads_like(v);
    // By sample, and then summed: the same for any number of threads.
    const torch::Tensor grad_taps = torch::empty({q.size(0), q.size(1), shape.kernel}, q.options());
    for_each_head(q, cpu::nystrom_backward_scratch(shape, holes_of(mask)),
                  [&](int64_t b, int64_t h, float* scratch) {
                    cpu::nystrom_backward(
                        shape, nystrom_inputs(q, k, v, mask, conv_weight, b, h),
                        saved[b][h].const_data_ptr<float>(), head_rows(grad_out, b, h),
                        {.q = mutable_head_rows(grad_q, b, h),
                         .k = mutable_head_rows(grad_k, b, h),
                         .v = mutable_head_rows(grad_v, b, h),
                         .conv_weight = grad_taps[b][h].mutable_data_ptr<float>()},
                        scratch);
                  });
    return {grad_q, grad_k, grad_v, {}, grad_taps.sum(0), {}, {}};
  }
};

}  // namespace

torch::Tensor landmark_attention(const torch::Tensor& q, const torch::Tensor& k,
                                 const torch::Tensor& v, const torch::Tensor& mask,
                                 const torch::Tensor& conv_weight, const LandmarkOptions& options) {
  const bool differentiated =
      torch::GradMode::is_enabled() &&
      (q.requires_grad() || k.requires_grad() || v.requires_grad() || conv_weight.requires_grad());
  return NystromKernel::apply(q, k, v, mask, conv_weight, options, differentiated);
}

int64_t landmark_attention_bytes(int64_t batch, int64_t heads, int64_t length, int64_t head_dim,
                                 int64_t conv_weight, const LandmarkOptions& options) {
  const cpu::NystromShape shape{.length = length,
                                .landmarks = options.landmarks,
                                .depth = head_dim,
                                .iterations = options.iterations,
                                .kernel = conv_weight};
  const int64_t floats =
      batch * heads * length * head_dim +
      threads_for(batch * heads) * cpu::nystrom_scratch(shape, cpu::InnerPadding::no);
  return floats * static_cast<int64_t>(sizeof(float));
}

}  // namespace lra::ops
