// The mean over a sample of its rows after a layer normalisation, none of which is stored.
#pragma once

#include <algorithm>

#include "attention_variants/ops/cuda/kernels/rows/params.h"

namespace lra::ops::cuda {

/// mean[b] = the sum of the normalised rows of x[b] (norm_rows.h) where the mask is true, divided
/// by `over`, or where that is 0 by their number, at least 1. Other rows are not read. Gradients:
/// launch_norm_rows_backward() with `factors`.
struct NormMeanParams {
  int batch = 0, length = 0, width = 0;  // B, N, D; D of 1 to kMaxNormWidth
  Storage storage = Storage::f32;        // of x and mean
  const void* x = nullptr;               // [B,N,D]
  const bool* mask = nullptr;            // [B,N]
  const float* weight = nullptr;         // [D]
  const float* bias = nullptr;           // [D]
  float eps = 0;
  float over = 0;
  float* moments = nullptr;  // [2,B,N] as of norm_rows.h, of rows where the mask is true
  float* parts = nullptr;    // [B,norm_mean_parts(N),D], scratch
  float* factors = nullptr;  // [B], what sums are multiplied by
  void* mean = nullptr;      // [B,D]
};

/// Rows of a sample that a block adds up, and how many parts of its sum there are.
constexpr int norm_mean_rows_of_part(int length) {
  constexpr int kFewest = 64, kMostParts = 64;
  return std::max(kFewest, (length + kMostParts - 1) / kMostParts);
}
constexpr int norm_mean_parts(int length) {
  return (length + norm_mean_rows_of_part(length) - 1) / norm_mean_rows_of_part(length);
}

/// Two launches.
void launch_norm_mean(const NormMeanParams& params, Stream stream);

}  // namespace lra::ops::cuda
