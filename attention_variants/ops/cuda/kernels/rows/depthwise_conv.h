// Depthwise convolution over the positions of heads, one kernel of K taps a head: the skip
// connection of Nyström attention (Xiong et al., AAAI 2021), forward and backward.
//   y[n] = Σ_j taps[j] x[n + j - (K - 1)/2], zero outside
#pragma once

#include <cstdint>

#include "attention_variants/ops/cuda/kernels/rows/head_rows.h"
#include "attention_variants/ops/cuda/kernels/rows/params.h"

namespace lra::ops::cuda {

/// The most taps that a block's shared memory has room for, and a block of kLeastSharedBytes.
inline constexpr int kMostTaps = 512, kFewTaps = 472;

/// One convolution: forward, or with `reversed` taps and the result's gradient as x, the gradient
/// of the input.
struct DepthwiseConvParams {
  Storage storage;                        // of x and y
  int batch, heads, length, depth, taps;  // B, H, N, d, K: any up to kMostTaps
  bool reversed;
  bool add;              // to what stands in y
  Heads x;               // [B,H,N,d]
  const bool* x_mask;    // [B,N]: rows that are false are read as zero; null: all are true
  const float* weights;  // [H,K]
  MutableHeads y;        // [B,H,N,d]
  const bool* y_mask;    // [B,N]: rows that are false become zero; null: all are true
};

/// Writes y.
void launch_depthwise_conv(const DepthwiseConvParams& params, Stream stream);

/// The gradient of the taps: grad_weights[h,j] = Σ_bnc grad_y[b,h,n,c] x[b,h,n + j - (K - 1)/2,c].
struct DepthwiseConvWeightParams {
  Storage storage;                        // of x and grad_y
  int batch, heads, length, depth, taps;  // as above
  Heads x, grad_y;                        // [B,H,N,d]
  const bool *x_mask, *y_mask;  // [B,N]: rows that are false count as zero; null: all are true
  float* scratch;               // depthwise_conv_scratch() floats
  float* grad_weights;          // [H,K]
};

/// Parts of the sum over B, N and d: of kConvPartRows rows and kConvPartColumns columns.
inline constexpr int kConvPartRows = 128, kConvPartColumns = 32;
constexpr int64_t depthwise_conv_parts(int batch, int length, int depth) {
  return int64_t{batch} * ((length + kConvPartRows - 1) / kConvPartRows) *
         ((depth + kConvPartColumns - 1) / kConvPartColumns);
}
constexpr int64_t depthwise_conv_scratch(int batch, int heads, int length, int depth, int taps) {
  return depthwise_conv_parts(batch, length, depth) * heads * taps;
}

/// Writes grad_weights, by two kernels: sums of parts, added up in a fixed order.
void launch_depthwise_conv_weight_grad(const DepthwiseConvWeightParams& params, Stream stream);

}  // namespace lra::ops::cuda
