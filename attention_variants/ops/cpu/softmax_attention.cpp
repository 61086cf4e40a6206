#include "attention_variants/ops/softmax_attention.h"

#include <cmath>

#include "attention_variants/ops/autograd_state.h"
#include "attention_variants/ops/cpu/heads.h"
#include "attention_variants/ops/cpu/kernels/softmax_attention.h"
#include "attention_variants/ops/cpu/parallel.h"
#include "attention_variants/ops/dispatch.h"
#include "attention_variants/ops/padding.h"
#include "attention_variants/ops/reference/softmax_attention.h"

namespace lra::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

cpu::SoftmaxShape shape_of(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v) {
  return {.queries = q.size(2),
          .keys = k.size(2),
          .depth = q.size(3),
          .values = v.size(3),
          .scale = 1 / std::sqrt(static_cast<float>(q.size(3)))};
}

// Row b of a mask; an empty one stands for none.
const bool* mask_row(const torch::Tensor& mask, int64_t b) {
  return mask.numel() == 0 ? nullptr : mask.const_data_ptr<bool>() + b * mask.size(1);
}

cpu::SoftmaxInputs softmax_inputs(const torch::Tensor& q, const torch::Tensor& k,
                                  const torch::Tensor& v, const torch::Tensor& keys,
                                  const torch::Tensor& queries, int64_t b, int64_t h) {
  return {.q = head_rows(q, b, h),
          .k = head_rows(k, b, h),
          .v = head_rows(v, b, h),
          .key_mask = mask_row(keys, b),
          .query_mask = mask_row(queries, b)};
}

int64_t query_tiles(int64_t queries) { return (queries + cpu::kQueryTile - 1) / cpu::kQueryTile; }

// Of head number `head` of all samples' heads: every tile of queries has a block for each key.
cpu::WeightDropout dropout_of(const DropoutMask& mask, const cpu::SoftmaxShape& shape,
                              int64_t head) {
  return {.seed = mask.seed,
          .threshold = mask.threshold,
          .first_block =
              mask.first / cpu::kDropoutBlock + head * query_tiles(shape.queries) * shape.keys};
}

class SoftmaxKernel : public torch::autograd::Function<SoftmaxKernel> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& q_given,
                               const torch::Tensor& k_given, const torch::Tensor& v_given,
                               const torch::Tensor& keys_given, const torch::Tensor& queries_given,
                               DropoutMask dropout) {
    const cpu::GemmPrecisionScope scope(save_gemm_precision(*context));
    const torch::Tensor q = with_contiguous_rows(q_given), k = with_contiguous_rows(k_given),
                        v = with_contiguous_rows(v_given), keys = keys_given.contiguous(),
                        queries = queries_given.contiguous();
    const cpu::SoftmaxShape shape = shape_of(q, k, v);
    const int64_t batch = q.size(0), heads = q.size(1), tiles = query_tiles(shape.queries);
    const torch::Tensor out = empty_heads_like(q, shape.values);
    const torch::Tensor stats = torch::zeros({batch, heads, 2, shape.queries}, q.options());
    parallel_for_items(batch * heads * tiles, cpu::softmax_scratch(shape, holes_of(keys)),
                       q.options(), [&](int64_t item, float* scratch) {
                         const int64_t head = item / tiles, b = head / heads, h = head % heads;
                         cpu::SoftmaxInputs inputs = softmax_inputs(q, k, v, keys, queries, b, h);
                         inputs.dropout = dropout_of(dropout, shape, head);
                         cpu::softmax_forward(shape, inputs, item % tiles * cpu::kQueryTile,
                                              mutable_head_rows(out, b, h),
                                              softmax_stats(stats, head), scratch);
                       });
    context->save_for_backward({q, k, v, keys, queries, out, stats});
    save_dropout(*context, "dropout", dropout);
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const cpu::GemmPrecisionScope scope(saved_gemm_precision(*context));
    const variable_list kept = saved_tensors(*context);
    const torch::Tensor &q = kept[0], &k = kept[1], &v = kept[2], &keys = kept[3],
                        &queries = kept[4], &out = kept[5], &stats = kept[6];
    const DropoutMask dropout = saved_dropout(*context, "dropout");
    const cpu::SoftmaxShape shape = shape_of(q, k, v);
    const int64_t batch = q.size(0), heads = q.size(1);
    const torch::Tensor grad_out = with_contiguous_rows(gradients[0]), grad_q = empty_heads_like(q),
                        grad_k = empty_heads_like(k), grad_v = empty_heads_like(v);
    parallel_for_items(batch * heads, cpu::softmax_backward_scratch(shape, holes_of(keys)),
                       q.options(), [&](int64_t head, float* scratch) {
                         const int64_t b = head / heads, h = head % heads;
                         cpu::SoftmaxInputs inputs = softmax_inputs(q, k, v, keys, queries, b, h);
                         inputs.dropout = dropout_of(dropout, shape, head);
                         cpu::softmax_backward(shape, inputs, head_rows(out, b, h),
                                               softmax_stats(stats, head),
                                               head_rows(grad_out, b, h),
                                               {.q = mutable_head_rows(grad_q, b, h),
                                                .k = mutable_head_rows(grad_k, b, h),
                                                .v = mutable_head_rows(grad_v, b, h)},
                                               scratch);
                       });
    return {grad_q, grad_k, grad_v, {}, {}, {}};
  }
};

}  // namespace

torch::Tensor softmax_attention(const torch::Tensor& q, const torch::Tensor& k,
                                const torch::Tensor& v, const torch::Tensor& keys,
                                const torch::Tensor& queries, const DropoutMask& dropout) {
  const torch::Tensor none = torch::empty({0}, q.options().dtype(torch::kBool));
  return SoftmaxKernel::apply(q, k, v, keys.defined() ? keys : none,
                              queries.defined() ? queries : none, dropout);
}

DropoutMask draw_weight_dropout(double p, bool training, const torch::Tensor& q,
                                const torch::Tensor& k) {
  const int64_t blocks = q.size(0) * q.size(1) * query_tiles(q.size(2)) * k.size(2);
  return make_dropout_mask(p, training, blocks * cpu::kDropoutBlock, DropoutBits::drawn_anew);
}

torch::Tensor drop_weights(const torch::Tensor& weights, double p, bool training) {
  if (!training || p == 0) return weights;
  if (!weights.is_cpu()) return torch::dropout(weights, p, training);
  const int64_t batch = weights.size(0), heads = weights.size(1), queries = weights.size(2),
                keys = weights.size(3), tiles = query_tiles(queries);
  torch::Tensor factors;
  {
    const torch::NoGradGuard no_grad;
    factors = philox_dropout(
        torch::ones({batch, heads, tiles, keys, cpu::kQueryTile}, weights.options()), p, training);
    factors = factors.transpose(3, 4).reshape({batch, heads, tiles * cpu::kQueryTile, keys});
  }
  return weights * factors.narrow(2, 0, queries);
}

torch::Tensor full_attention(Kernels chosen, const torch::Tensor& q, const torch::Tensor& k,
                             const torch::Tensor& v, const torch::Tensor& mask) {
  if (has_cpu_kernels(chosen, q)) return softmax_attention(q, k, v, mask, mask);
  const torch::Tensor out = reference::softmax_attention(
      zero_padding(q, mask), zero_padding(k, mask), zero_padding(v, mask), mask);
  return zero_padded_rows(out.to(q.scalar_type()), mask);
}

int64_t softmax_attention_bytes(int64_t rows, int64_t queries, int64_t keys, int64_t depth,
                                int64_t values) {
  const cpu::SoftmaxShape shape{
      .queries = queries, .keys = keys, .depth = depth, .values = values, .scale = 1};
  const int64_t floats =
      rows * queries * (values + 2) +
      threads_for(rows * query_tiles(queries)) * cpu::softmax_scratch(shape, cpu::InnerPadding::no);
  return floats * static_cast<int64_t>(sizeof(float));
}

}  // namespace lra::ops
