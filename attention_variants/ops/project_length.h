// The projection of the length of keys and values on CPUs, as one operator.
#pragma once

#include "attention_variants/torch.h"

namespace lra::ops {

/// Σ_n table[.,n] x[n] of each head of each sample over the positions n where `mask` [B,N] is true:
/// x [B,H,N,d] float32 on a CPU, table [k,Nmax] or, each head its own, [H,k,Nmax], float32, Nmax at
/// least N -> [B,H,k,d]. A tile of positions at a time, x where it lies; what is after a sample's
/// last token costs nothing. Differentiable once; the same for any number of threads.
torch::Tensor project_length(const torch::Tensor& x, const torch::Tensor& table,
                             const torch::Tensor& mask);

}  // namespace lra::ops
