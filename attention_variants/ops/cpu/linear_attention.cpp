#include "attention_variants/ops/linear_attention.h"

#include <cmath>

#include "attention_variants/ops/autograd_state.h"
#include "attention_variants/ops/cpu/heads.h"
#include "attention_variants/ops/cpu/parallel.h"
#include "attention_variants/ops/dispatch.h"

namespace lra::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

cpu::FeatureShape shape_of(const torch::Tensor& q, const torch::Tensor& table,
                           const LinearAttentionOptions& options) {
  const int64_t length = q.size(2), depth = q.size(3);
  cpu::FeatureShape shape{
      .map = options.map,
      .length = length,
      .depth = depth,
      .width = depth,
      .norm = static_cast<float>(options.norm),
      .offset = static_cast<float>(options.offset),
      .normalise = options.normalise,
      .share = options.normalise ? 1.0F : 1 / std::sqrt(static_cast<float>(length)),
      .denominator_min = static_cast<float>(options.denominator_min),
      .count_padding = options.count_padding};
  switch (options.map) {
    case cpu::FeatureMap::elu:
      break;
    case cpu::FeatureMap::cosine:
      shape.width = 2 * depth;
      break;
    case cpu::FeatureMap::relu:
    case cpu::FeatureMap::softmax:
      shape.width = table.size(0);
      shape.projection = table.const_data_ptr<float>();
  }
  return shape;
}

// The tensors of one call, and what one head of one sample sees of them.
struct Tensors {
  torch::Tensor q, k, v, mask, table;
  torch::Tensor sums;          // [B,H,f(d+1)]
  torch::Tensor largest;       // [B,H]
  torch::Tensor where;         // [B,H,2] int64
  torch::Tensor denominators;  // [B,H,N]
  cpu::FeatureMap map;

  cpu::FeatureInputs inputs(int64_t b, int64_t h) const {
    return {.q = head_rows(q, b, h),
            .k = head_rows(k, b, h),
            .v = head_rows(v, b, h),
            .mask = mask.const_data_ptr<bool>() + b * mask.size(1),
            .phases = map == cpu::FeatureMap::cosine
                          ? table.const_data_ptr<float>() + b * table.stride(0)
                          : nullptr};
  }
  cpu::FeatureState state(int64_t i) const {
    return {.sums = sums.mutable_data_ptr<float>() + i * sums.size(2),
            .largest = largest.mutable_data_ptr<float>() + i,
            .where = where.mutable_data_ptr<int64_t>() + 2 * i,
            .denominators = denominators.mutable_data_ptr<float>() + i * denominators.size(2)};
  }
};

class FeatureKernel : public torch::autograd::Function<FeatureKernel> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& q,
                               const torch::Tensor& k, const torch::Tensor& v,
                               const torch::Tensor& mask, const torch::Tensor& table,
                               const LinearAttentionOptions& options) {
    const cpu::GemmPrecisionScope scope(save_gemm_precision(*context));
    Tensors t{.q = with_contiguous_rows(q),
              .k = with_contiguous_rows(k),
              .v = with_contiguous_rows(v),
              .mask = mask.contiguous(),
              .table = table.contiguous(),
              .map = options.map};
    const cpu::FeatureShape shape = shape_of(t.q, t.table, options);
    const int64_t batch = q.size(0), heads = q.size(1);
    t.sums = torch::empty({batch, heads, cpu::feature_sums(shape)}, q.options());
    t.largest = torch::empty({batch, heads}, q.options());
    t.where = torch::empty({batch, heads, 2}, q.options().dtype(torch::kInt64));
    t.denominators = torch::empty({batch, heads, shape.length}, q.options());
    const torch::Tensor out = empty_heads_like(q);
    parallel_for_items(batch * heads, cpu::feature_scratch(shape), q.options(),
                       [&](int64_t i, float* scratch) {
                         const int64_t b = i / heads, h = i % heads;
                         cpu::feature_forward(shape, t.inputs(b, h), mutable_head_rows(out, b, h),
                                              t.state(i), scratch);
                       });
    context->save_for_backward(
        {t.q, t.k, t.v, t.mask, t.table, t.sums, t.largest, t.where, t.denominators, out});
    save_settings(*context, options);
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const cpu::GemmPrecisionScope scope(saved_gemm_precision(*context));
    const variable_list kept = saved_tensors(*context);
    const auto& options = saved_settings<LinearAttentionOptions>(*context);
    const Tensors t{.q = kept[0],
                    .k = kept[1],
                    .v = kept[2],
                    .mask = kept[3],
                    .table = kept[4],
                    .sums = kept[5],
                    .largest = kept[6],
                    .where = kept[7],
                    .denominators = kept[8],
                    .map = options.map};
    const torch::Tensor &out = kept[9], grad_out = with_contiguous_rows(gradients[0]),
                        grad_q = empty_heads_like(t.q), grad_k = empty_heads_like(t.k),
                        grad_v = empty_heads_like(t.v);
    const cpu::FeatureShape shape = shape_of(t.q, t.table, options);
    const int64_t heads = t.q.size(1);
    parallel_for_items(t.q.size(0) * heads, cpu::feature_scratch(shape), t.q.options(),
                       [&](int64_t i, float* scratch) {
                         const int64_t b = i / heads, h = i % heads;
                         cpu::feature_backward(shape, t.inputs(b, h), head_rows(out, b, h),
                                               t.state(i), head_rows(grad_out, b, h),
                                               {.q = mutable_head_rows(grad_q, b, h),
                                                .k = mutable_head_rows(grad_k, b, h),
                                                .v = mutable_head_rows(grad_v, b, h)},
                                               scratch);
                       });
    return {grad_q, grad_k, grad_v, {}, {}, {}};
  }
};

}  // namespace

torch::Tensor linear_attention(const torch::Tensor& q, const torch::Tensor& k,
                               const torch::Tensor& v, const torch::Tensor& mask,
                               const torch::Tensor& table, const LinearAttentionOptions& options) {
  return FeatureKernel::apply(q, k, v, mask, table, options);
}

int64_t linear_attention_bytes(int64_t batch, int64_t heads, int64_t length, int64_t head_dim,
                               int64_t width) {
  const cpu::FeatureShape shape{.length = length, .depth = head_dim, .width = width};
  const int64_t items = batch * heads, kept = cpu::feature_sums(shape) + 1 + length;
  return (items * (length * head_dim + kept) + threads_for(items) * cpu::feature_scratch(shape)) *
             static_cast<int64_t>(sizeof(float)) +
         items * 2 * static_cast<int64_t>(sizeof(int64_t));
}

}  // namespace lra::ops
