// The order of tokens in each round of hashed attention.
#pragma once

#include "attention_variants/ops/cuda/kernels/heads/lsh_attention.h"

namespace lra::ops::cuda {

/// Writes factors and order; the scratch holds buckets [B,H,R,N] meanwhile.
void launch_lsh_sort(const LshParams& params, Stream stream);

}  // namespace lra::ops::cuda
