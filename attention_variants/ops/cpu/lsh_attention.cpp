#include "attention_variants/ops/lsh_attention.h"

#include "attention_variants/ops/autograd_state.h"
#include "attention_variants/ops/cpu/heads.h"
#include "attention_variants/ops/cpu/parallel.h"
#include "attention_variants/ops/dispatch.h"

namespace lra::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

cpu::LshShape shape_of(int64_t length, int64_t head_dim, const LshOptions& settings) {
  return {.length = length,
          .depth = head_dim,
          .values = head_dim,
          .rounds = settings.rounds,
          .chunk = settings.chunk,
          .before = settings.before,
          .after = settings.after,
          .key_scale = settings.key_scale};
}

cpu::LshInputs inputs_of(const torch::Tensor& x, const torch::Tensor& v, const torch::Tensor& mask,
                         int64_t b, int64_t h) {
  return {.x = head_rows(x, b, h),
          .v = head_rows(v, b, h),
          .mask = mask.const_data_ptr<bool>() + b * mask.size(1)};
}

class LshKernel : public torch::autograd::Function<LshKernel> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x_given,
                               const torch::Tensor& v_given, const torch::Tensor& mask_given,
                               const torch::Tensor& rotations, const LshOptions& settings) {
    const cpu::GemmPrecisionScope scope(save_gemm_precision(*context));
    const torch::Tensor x = with_contiguous_rows(x_given), v = with_contiguous_rows(v_given),
                        mask = mask_given.contiguous();
    const cpu::LshShape shape = shape_of(x.size(2), x.size(3), settings);
    const int64_t batch = x.size(0), heads = x.size(1), sorted = shape.rounds * shape.places();
    const torch::Tensor order =
        torch::empty({batch, heads, sorted}, x.options().dtype(torch::kInt32));
    const torch::Tensor out = empty_heads_like(x),
                        top = torch::empty({batch, heads, shape.length}, x.options()),
                        inverse = torch::empty_like(top);
    const auto buckets = [&](int64_t head) {
      const int64_t table = rotations.numel() / heads;
      return cpu::LshBuckets{.factors = settings.bucket_factors,
                             .rotations = rotations.const_data_ptr<float>() + head * table};
    };
    parallel_for_items(batch * heads, cpu::lsh_scratch(shape, buckets(0), /*backward=*/false),
                       x.options(), [&](int64_t i, float* scratch) {
                         const int64_t b = i / heads, h = i % heads;
                         const cpu::LshInputs in = inputs_of(x, v, mask, b, h);
                         int32_t* const places = order.mutable_data_ptr<int32_t>() + i * sorted;
                         cpu::lsh_sort(shape, in, buckets(h), places, scratch);
                         cpu::lsh_forward(shape, in, places, mutable_head_rows(out, b, h),
                                          top.mutable_data_ptr<float>() + i * shape.length,
                                          inverse.mutable_data_ptr<float>() + i * shape.length,
                                          scratch);
                       });
    context->save_for_backward({x, v, mask, order, out, top, inverse});
    save_settings(*context, settings);
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const cpu::GemmPrecisionScope scope(saved_gemm_precision(*context));
    const variable_list kept = saved_tensors(*context);
    const torch::Tensor &x = kept[0], &v = kept[1], &mask = kept[2], &order = kept[3],
                        &out = kept[4], &top = kept[5], &inverse = kept[6];
    const cpu::LshShape shape =
        shape_of(x.size(2), x.size(3), saved_settings<LshOptions>(*context));
    const torch::Tensor grad_out = with_contiguous_rows(gradients[0]), grad_x = empty_heads_like(x),
                        grad_v = empty_heads_like(v);
    const int64_t heads = x.size(1);
    parallel_for_items(x.size(0) * heads, cpu::lsh_scratch(shape, {}, /*backward=*/true),
                       x.options(), [&](int64_t i, float* scratch) {
                         const int64_t b = i / heads, h = i % heads;
                         cpu::lsh_backward(
                             shape, inputs_of(x, v, mask, b, h),
                             order.const_data_ptr<int32_t>() + i * order.size(2),
                             head_rows(out, b, h), top.const_data_ptr<float>() + i * shape.length,
                             inverse.const_data_ptr<float>() + i * shape.length,
                             head_rows(grad_out, b, h), mutable_head_rows(grad_x, b, h),
                             mutable_head_rows(grad_v, b, h), scratch);
                       });
    return {grad_x, grad_v, {}, {}, {}};
  }
};

}  // namespace

torch::Tensor lsh_attention(const torch::Tensor& x, const torch::Tensor& v,
                            const torch::Tensor& mask, const torch::Tensor& rotations,
                            const LshOptions& settings) {
  return LshKernel::apply(x, v, mask, rotations, settings);
}

int64_t lsh_attention_bytes(int64_t batch, int64_t heads, int64_t length, int64_t head_dim,
                            const LshOptions& settings) {
  const cpu::LshShape shape = shape_of(length, head_dim, settings);
  const int64_t items = batch * heads;
  const cpu::LshBuckets buckets{.factors = settings.bucket_factors};
  // The result, the rounds' order, and of each softmax its largest score and its sum.
  return (items * (length * (head_dim + 2) + shape.rounds * shape.places()) +
          threads_for(items) * cpu::lsh_scratch(shape, buckets, /*backward=*/false)) *
         static_cast<int64_t>(sizeof(float));
}

}  // namespace lra::ops
