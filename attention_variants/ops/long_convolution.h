// Convolutions over positions, of each channel with taps of its own.
#pragma once

#include "attention_variants/ops/types.h"
#include "attention_variants/torch.h"

namespace lra::ops {

struct LongConvolutionShape {
  int64_t batch = 0, length = 0, width = 0;
  int64_t taps = 0;
  bool float_taps = true;
};

/// y[b,t,c] = Σ_j taps[c,j] x[b, t + ahead - j, c], x zero outside: x [B,N,D], taps [D,K], 0 <=
/// ahead < K -> [B,N,D]. Tap j has lag j - ahead, so `ahead` taps reach positions behind t. By
/// Fourier transforms in O(N log N) for each channel, or, for few taps on a CPU, by their sum.
/// Differentiable once.
struct LongConvolutionCall {
  using Result = torch::Tensor;
  using Shape = LongConvolutionShape;
  torch::Tensor x, taps;
  int64_t ahead = 0;

  Shape shape() const {
    return {.batch = x.size(0),
            .length = x.size(1),
            .width = x.size(2),
            .taps = taps.size(1),
            .float_taps = taps.scalar_type() == torch::kFloat};
  }
};

torch::Tensor long_convolution(Kernels asked, const LongConvolutionCall& call);

/// Floating-point operations of one by Fourier transforms: one forward and one inverse real
/// transform of twice the length, customarily 5/2 n log₂ n each, of every channel of every sample.
int64_t long_convolution_flops(const LongConvolutionShape& shape);

}  // namespace lra::ops
