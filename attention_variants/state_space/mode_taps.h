// The taps of a convolution that a linear recurrence of diagonal modes amounts to.
#pragma once

#include "attention_variants/torch.h"

namespace lra::state_space {

/// k_l = Re Σ_n w_n e^{l r_n} for lags l from 0: rates r [D,S] and weights w [K,D,S], complex128 ->
/// [K,D,length] of `type`, float32 or float64. Differentiable once.
torch::Tensor mode_taps(const torch::Tensor& rates, const torch::Tensor& weights, int64_t length,
                        torch::ScalarType type);

}  // namespace lra::state_space
