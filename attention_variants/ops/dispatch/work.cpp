#include "attention_variants/ops/dispatch/work.h"

#include <algorithm>
#include <initializer_list>

#include "attention_variants/ops/autocast.h"

namespace lra::ops {
namespace {

int64_t bytes_together(std::initializer_list<torch::Tensor> tensors) {
  int64_t bytes = 0;
  for (const torch::Tensor& tensor : tensors) bytes += static_cast<int64_t>(tensor.nbytes());
  return bytes;
}

int64_t width_of(const torch::Tensor& x) { return x.size(-1); }

// Of x [..,in] times weight [out,in] transposed.
int64_t layer_work(const torch::Tensor& x, const torch::Tensor& weight) {
  return 2 * (x.numel() / width_of(x)) * weight.numel();
}

// Of results of products, rows as many as those of x, `width` wide.
int64_t row_bytes(const torch::Tensor& x, int64_t width) {
  return x.numel() / width_of(x) * width * static_cast<int64_t>(c10::elementSize(product_type(x)));
}

}  // namespace

Work work_of(const SoftmaxAttentionCall& call) {
  const SoftmaxAttentionShape s = call.shape();
  return {.flops = 2 * s.rows * s.queries * s.keys * (s.depth + s.values),
          .bytes = bytes_together({call.q, call.k, call.v}) +
                   s.rows * s.queries * s.values * s.element_size};
}

Work work_of(const LinearAttentionCall& call) {
  return {.flops = linear_attention_flops(call.shape()),
          .bytes = bytes_together({call.q, call.k, call.v, call.v})};
}

Work work_of(const LandmarkCall& call) {
  return {.flops = landmark_attention_flops(call.shape()),
          .bytes = bytes_together({call.q, call.k, call.v, call.v})};
}

Work work_of(const LshCall& call) {
  return {.flops = lsh_attention_flops(call.shape()),
          .bytes = bytes_together({call.x, call.v, call.v})};
}

Work work_of(const BlockSparseCall& call) {
  return {.flops = block_sparse_attention_flops(call.shape()),
          .bytes = bytes_together({call.q, call.k, call.v, call.v})};
}

Work work_of(const ProjectLengthCall& call) {
  const ProjectLengthShape s = call.shape();
  const int64_t rows = s.batch * s.heads * s.rows * s.head_dim;
  return {.flops = 2 * rows * s.length,
          .bytes = bytes_together({call.x, call.table}) + rows * s.element_size};
}

Work work_of(const LongConvolutionCall& call) {
  const LongConvolutionShape s = call.shape();
  // As own kernels do it (docs/operators.md).
  const int64_t taps = UsedTaps(s.taps, call.ahead, s.length).count;
  return {.flops = taps <= kMostSummedTaps ? 2 * s.batch * s.length * s.width * taps
                                           : long_convolution_flops(s),
          .bytes = bytes_together({call.x, call.taps, call.x})};
}

Work work_of(const DiagonalScanCall& call) {
  return {.flops = diagonal_scan_flops(call.shape(), call.output_back.defined() ? 2 : 1),
          .bytes = bytes_together({call.u, call.u})};
}

Work work_of(const LinearCall& call) {
  Work work{.flops = 0, .bytes = bytes_together({call.x})};
  for (const LinearWeights& layer : call.layers) {
    work.flops += layer_work(call.x, layer.weight);
    work.bytes += bytes_together({layer.weight}) + row_bytes(call.x, layer.weight.size(0));
  }
  return work;
}

Work work_of(const MaskedLinearCall& call) {
  const torch::Tensor& weight = call.layer.weight;
  return {.flops = layer_work(call.x, weight),
          .bytes = bytes_together({call.x, weight}) + row_bytes(call.x, weight.size(0))};
}

Work work_of(const LayerNormCall& call) { return {.bytes = bytes_together({call.x, call.x})}; }

Work work_of(const LayerNormMeanCall& call) {
  return {.bytes =
              bytes_together({call.x}) + call.x.size(0) * width_of(call.x) * call.x.element_size()};
}

Work work_of(const FeedForwardCall& call) {
  const torch::Tensor &in = call.weights.in_weight, &out = call.weights.out_weight;
  // Both weights have as many elements, and what is between them is never stored.
  return {.flops = layer_work(call.x, in) + layer_work(call.x, out),
          .bytes = bytes_together({call.x, in, out, call.x})};
}

Work work_of(const AddProjectedCall& call) {
  return {.flops = layer_work(call.y, call.layer.weight),
          .bytes = bytes_together({call.x, call.y, call.layer.weight, call.x})};
}

Work work_of(const AddDroppedOutCall& call) {
  return {.bytes = bytes_together({call.x, call.y, call.x})};
}

Work work_of(const EmbeddingCall& call) {
  const torch::Tensor& tokens = call.tables.tokens;
  const int64_t first = call.tables.first.defined() ? call.ids.size(0) : 0;
  // Each row once from the table and once to the result.
  return {.bytes = bytes_together({call.ids}) +
                   2 * (call.ids.numel() + first) * width_of(tokens) * tokens.element_size()};
}

Work work_of(const DropoutCall& call) { return {.bytes = bytes_together({call.x, call.x})}; }

Work work_of(const CrossEntropyCall& call) {
  return {.bytes = bytes_together({call.logits, call.labels, call.logits})};
}

Work work_of(const GeluCall& call) { return {.bytes = bytes_together({call.x, call.x})}; }

Work work_of(const SigmoidGateCall& call) {
  const int64_t gate = call.gate.defined() ? call.gate.element_size() : call.value.element_size();
  return {.bytes = call.shape().count *
                   (call.value.element_size() + gate + std::max(call.value.element_size(), gate))};
}

}  // namespace lra::ops
