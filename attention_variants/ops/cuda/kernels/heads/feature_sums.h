// Sums over positions of features times rows: of keys times values, and backward of queries times
// gradients.
#pragma once

#include "attention_variants/ops/cuda/kernels/heads/linear_attention.h"

namespace lra::ops::cuda {

/// Partial sums in scratch: of each head and stretch of positions a matrix [f+1,d+1], whose last
/// row is the sum of the rows themselves and whose last column that of the weights; then of each
/// feature of keys of softmax its largest W x, and where it stands.
struct PartialSums {
  float* sums;         // [B,H,splits,f+1,d+1]
  float* peaks;        // [B,H,splits,f]
  int32_t* positions;  // [B,H,splits,f]
};
PartialSums partial_sums_in(const LinearAttentionParams& params, float* scratch);

/// What is summed up: of keys, v and ones; of queries, given gradients [N] of the denominators and
/// what divides the results, those of the results and of the denominators.
struct FeatureSumsParams {
  LinearAttentionParams attention;
  const float* inverses;  // [B,H,N]; null: keys
  const float* slopes;    // [B,H,N]
  PartialSums partial;
  float* sums;  // [B,H,f,d+1]
};

/// Writes sums and, of keys of softmax, attention.key_peaks.
void launch_feature_sums(const FeatureSumsParams& params, Stream stream);

}  // namespace lra::ops::cuda
