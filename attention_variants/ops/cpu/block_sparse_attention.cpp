#include "attention_variants/ops/block_sparse_attention.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "attention_variants/ops/autograd_state.h"
#include "attention_variants/ops/cpu/heads.h"
#include "attention_variants/ops/cpu/parallel.h"
#include "attention_variants/ops/dispatch.h"

namespace lra::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

const cpu::SparsityPattern& pattern_of(const Patterns& patterns, int64_t head) {
  return patterns[patterns.size() == 1 ? 0 : static_cast<size_t>(head)];
}

cpu::PatternShape shape_of(int64_t length, int64_t head_dim) {
  return {.length = length,
          .depth = head_dim,
          .values = head_dim,
          .scale = 1 / std::sqrt(static_cast<float>(head_dim))};
}

int64_t scratch_of(const cpu::PatternShape& shape, const Patterns& patterns, bool backward) {
  int64_t most = 0;
  for (const cpu::SparsityPattern& pattern : patterns)
    most = std::max(most, cpu::pattern_scratch(shape, pattern, backward));
  return most;
}

cpu::PatternInputs inputs_of(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                             const torch::Tensor& mask, int64_t b, int64_t h) {
  return {.q = head_rows(q, b, h),
          .k = head_rows(k, b, h),
          .v = head_rows(v, b, h),
          .mask = mask.const_data_ptr<bool>() + b * mask.size(1)};
}

class PatternKernel : public torch::autograd::Function<PatternKernel> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& q_given,
                               const torch::Tensor& k_given, const torch::Tensor& v_given,
                               const torch::Tensor& mask_given, Patterns patterns) {
    const cpu::GemmPrecisionScope scope(save_gemm_precision(*context));
    const torch::Tensor q = with_contiguous_rows(q_given), k = with_contiguous_rows(k_given),
                        v = with_contiguous_rows(v_given), mask = mask_given.contiguous();
    const cpu::PatternShape shape = shape_of(q.size(2), q.size(3));
    const int64_t heads = q.size(1);
    const torch::Tensor out = empty_heads_like(q),
                        stats = torch::zeros({q.size(0), heads, 2, shape.length}, q.options());
    parallel_for_items(q.size(0) * heads, scratch_of(shape, patterns, /*backward=*/false),
                       q.options(), [&](int64_t i, float* scratch) {
                         const int64_t b = i / heads, h = i % heads;
                         cpu::pattern_forward(
                             shape, pattern_of(patterns, h), inputs_of(q, k, v, mask, b, h),
                             mutable_head_rows(out, b, h), softmax_stats(stats, i), scratch);
                       });
    context->save_for_backward({q, k, v, mask, out, stats});
    save_settings(*context, std::move(patterns));
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const cpu::GemmPrecisionScope scope(saved_gemm_precision(*context));
    const variable_list kept = saved_tensors(*context);
    const torch::Tensor &q = kept[0], &k = kept[1], &v = kept[2], &mask = kept[3], &out = kept[4],
                        &stats = kept[5];
    const auto& patterns = saved_settings<Patterns>(*context);
    const cpu::PatternShape shape = shape_of(q.size(2), q.size(3));
    const torch::Tensor grad_out = with_contiguous_rows(gradients[0]), grad_q = empty_heads_like(q),
                        grad_k = empty_heads_like(k), grad_v = empty_heads_like(v);
    const int64_t heads = q.size(1);
    parallel_for_items(q.size(0) * heads, scratch_of(shape, patterns, /*backward=*/true),
                       q.options(), [&](int64_t i, float* scratch) {
                         const int64_t b = i / heads, h = i % heads;
                         cpu::pattern_backward(shape, pattern_of(patterns, h),
                                               inputs_of(q, k, v, mask, b, h), head_rows(out, b, h),
                                               softmax_stats(stats, i), head_rows(grad_out, b, h),
                                               {.q = mutable_head_rows(grad_q, b, h),
                                                .k = mutable_head_rows(grad_k, b, h),
                                                .v = mutable_head_rows(grad_v, b, h)},
                                               scratch);
                       });
    return {grad_q, grad_k, grad_v, {}, {}};
  }
};

}  // namespace

torch::Tensor block_sparse_attention(const torch::Tensor& q, const torch::Tensor& k,
                                     const torch::Tensor& v, const torch::Tensor& mask,
                                     Patterns patterns) {
  return PatternKernel::apply(q, k, v, mask, std::move(patterns));
}

int64_t block_sparse_attention_bytes(int64_t batch, int64_t heads, int64_t length, int64_t head_dim,
                                     const Patterns& patterns) {
  const int64_t items = batch * heads;
  return (items * length * (head_dim + 2) +
          threads_for(items) *
              scratch_of(shape_of(length, head_dim), patterns, /*backward=*/false)) *
         static_cast<int64_t>(sizeof(float));
}

}  // namespace lra::ops
