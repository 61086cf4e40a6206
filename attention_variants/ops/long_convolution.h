// Convolutions over positions, of each channel with taps of its own.
#pragma once

#include <algorithm>

#include "attention_variants/ops/types.h"
#include "attention_variants/torch.h"

namespace lra::ops {

struct LongConvolutionShape {
  int64_t batch = 0, length = 0, width = 0;
  int64_t taps = 0;
  bool float_taps = true;
};

/// Up to so many taps that reach a position are summed by own kernels, whatever the length; of
/// more, transforms are faster (docs/operators.md).
inline constexpr int64_t kMostSummedTaps = 64;

/// Taps [D,K] whose lags are below a length, [first, first + count): others reach nothing.
struct UsedTaps {
  int64_t first, count, ahead;

  UsedTaps(int64_t taps, int64_t given_ahead, int64_t length)
      : first(std::max<int64_t>(given_ahead - (length - 1), 0)),
        count(std::min(taps, given_ahead + length) - first),
        ahead(given_ahead - first) {}

  int64_t earlier() const {
    return count - 1 - ahead;
  }  // taps to earlier positions, as `ahead` to later
};

/// y[b,t,c] = Σ_j taps[c,j] x[b, t + ahead - j, c], x zero outside: x [B,N,D], taps [D,K], 0 <=
/// ahead < K -> [B,N,D]. Tap j has lag j - ahead, so the first `ahead` taps reach later positions.
/// By Fourier transforms in O(N log N) for each channel, or, for few taps on a CPU, by their sum.
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

/// Taps [D,K] with skip [D] added at lag 0, that is to tap `ahead`, 0 <= ahead < K: a convolution
/// with them has skip ⊙ x in it.
torch::Tensor with_skip(const torch::Tensor& taps, int64_t ahead, const torch::Tensor& skip);

/// Floating-point operations of one by Fourier transforms: one forward and one inverse real
/// transform of twice the length, customarily 5/2 n log₂ n each, of every channel of every sample.
int64_t long_convolution_flops(const LongConvolutionShape& shape);

}  // namespace lra::ops
