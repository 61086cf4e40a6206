// Attention whose kernel is a product of features, from the right (ops/linear_attention.h), forward
// and backward.
#pragma once

#include <cstdint>

#include "attention_variants/ops/cuda/kernels/rows/head_rows.h"
#include "attention_variants/ops/cuda/kernels/rows/params.h"
#include "attention_variants/ops/types.h"

namespace lra::ops::cuda {

/// What LinearAttentionOptions and the shape say.
struct FeatureOptions {
  FeatureMap map;
  float norm, offset, share;  // share: what the sums over keys are multiplied by
  float denominator_min, epsilon, guard;
  bool normalise, count_padding;
  bool batch_max;     // KeyMax::batch
  bool max_attached;  // MaxGradient::attached
};

/// Where the keys' largest feature stands: number of the head among B H, position, feature.
struct KeyPeak {
  float value;
  int32_t item, position, feature;
};

struct LinearAttentionParams {
  Storage storage;
  int batch, heads, length, depth, width;  // B, H, N, d <= 128, f
  int splits;                              // linear_attention_splits()
  FeatureOptions options;
  Heads q, k, v;       // [B,H,N,d]
  const bool* mask;    // [B,N]; null: all are tokens
  const float* table;  // W [f,d]; of cosine [B,N,2]
  MutableHeads out;    // [B,H,N,d]
  // What the backward pass reads.
  float* sums;              // [B,H,f,d+1]: of the keys, the denominators' in the last column
  KeyPeak* key_peaks;       // [B,H], of softmax
  float* denominators;      // [B,H,N], not bounded yet
  float* query_peaks;       // [B,H,N], of softmax
  int32_t* query_features;  // [B,H,N]: where these stand
  float* scratch;           // linear_attention_scratch() floats
  Heads grad_out;           // [B,H,N,d]
  MutableHeads grad_q, grad_k, grad_v;
};

/// Positions, and features, that a block of the kernels has.
inline constexpr int kFeatureRows = 64;

/// Into how many stretches the positions are cut whose sums blocks take: by the sizes alone, so
/// that results do not depend on the device.
inline int linear_attention_splits(int items, int length, int width) {
  constexpr int kBlocks = 512, kLeastPositions = 128;  // in all; of a block
  const int blocks = items * ((width + kFeatureRows - 1) / kFeatureRows),
            wanted = (kBlocks + blocks - 1) / blocks,
            most = (length + kLeastPositions - 1) / kLeastPositions;
  return wanted < most ? wanted : most;
}

/// Floats of the sums of all stretches: see PartialSums.
inline int64_t partial_sums_floats(const LinearAttentionParams& p) {
  return int64_t{p.batch} * p.heads * p.splits *
         ((int64_t{p.width} + 1) * (p.depth + 1) + 2 * int64_t{p.width});
}

/// Floats of scratch of both passes: these sums; gradients of the sums, of the denominators and of
/// what divides the results; parts of the gradient of the keys' largest feature.
inline int64_t linear_attention_scratch(const LinearAttentionParams& p) {
  const int64_t items = int64_t{p.batch} * p.heads, length = p.length;
  return partial_sums_floats(p) + items * (int64_t{p.width} * (p.depth + 1) + 2 * length +
                                           (length + kFeatureRows - 1) / kFeatureRows);
}

/// Writes out, rows of padding zero, and all of the state.
void launch_linear_attention_forward(const LinearAttentionParams& params, Stream stream);

/// Given these and grad_out, writes grad_q, grad_k and grad_v.
void launch_linear_attention_backward(const LinearAttentionParams& params, Stream stream);

}  // namespace lra::ops::cuda
