#include "attention_variants/ops/dispatch/work.h"

#include <initializer_list>
#include <numeric>
#include <vector>

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

// Of rows as many as those of x, `width` wide.
int64_t row_bytes(const torch::Tensor& x, int64_t width) {
  return x.numel() / width_of(x) * width * x.element_size();
}

}  // namespace

Work work_of(const SoftmaxAttentionCall& call) {
  const SoftmaxAttentionShape s = call.shape();
  return {.flops = 2 * s.rows * s.queries * s.keys * (s.depth + s.values),
          .bytes = bytes_together({call.q, call.k, call.v}) +
                   s.rows * s.queries * s.values * s.element_size};
}

Work work_of(const LinearAttentionCall& call) {
  const LinearAttentionShape s = call.shape();
  const FeatureMap map = s.options.map;
  const bool projected = map == FeatureMap::relu || map == FeatureMap::softmax;
  const int64_t features = projected ? 4 * s.length * s.width * s.head_dim : 0;
  // φ(K)ᵀ [V, 1] and φ(Q) times it.
  const int64_t products = 4 * s.length * s.width * (s.head_dim + (s.options.normalise ? 1 : 0));
  return {.flops = s.batch * s.heads * (features + products),
          .bytes = bytes_together({call.q, call.k, call.v, call.v})};
}

Work work_of(const LandmarkCall& call) {
  const LandmarkShape s = call.shape();
  const int64_t m = s.options.landmarks, d = s.head_dim;
  const int64_t bytes = bytes_together({call.q, call.k, call.v, call.v});
  // The work of a decomposition depends on its convergence.
  if (s.options.exact_inverse) return {.bytes = bytes};
  const int64_t outer = 8 * s.length * m * d;  // Q̃Kᵀ, BV, QK̃ᵀ, FX
  const int64_t inner = 4 * m * m * d + s.options.iterations * 8 * m * m * m;
  const int64_t convolution = 2 * s.length * d * s.conv_kernel;
  return {.flops = s.batch * s.heads * (outer + inner + convolution), .bytes = bytes};
}

Work work_of(const LshCall& call) {
  const LshShape s = call.shape();
  const int64_t chunk = s.options.chunk,
                sorted = s.options.rounds * ((s.length + chunk - 1) / chunk) * chunk,
                window = chunk * (s.options.before + 1 + s.options.after);
  const std::vector<int64_t>& factors = s.options.bucket_factors;
  const int64_t rotations = std::accumulate(factors.begin(), factors.end(), int64_t{0}) / 2;
  return {.flops = s.batch * s.heads * 2 * sorted * s.head_dim * (rotations + 2 * window),
          .bytes = bytes_together({call.x, call.v, call.v})};
}

Work work_of(const BlockSparseCall& call) {
  return {.bytes = bytes_together({call.q, call.k, call.v, call.v})};
}

Work work_of(const ProjectLengthCall& call) {
  const ProjectLengthShape s = call.shape();
  const int64_t rows = s.batch * s.heads * s.rows * s.head_dim;
  return {.flops = 2 * rows * s.length,
          .bytes = bytes_together({call.x, call.table}) + rows * s.element_size};
}

Work work_of(const LongConvolutionCall& call) {
  const LongConvolutionShape s = call.shape();
  return {.flops = 2 * s.batch * s.length * s.width * s.taps,  // own kernels add up the taps
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

}  // namespace lra::ops
