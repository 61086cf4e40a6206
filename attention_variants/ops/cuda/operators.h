// The operators that own CUDA kernels compute, for ops/dispatch. Each is differentiable once, and
// deterministic.
#pragma once

#include "attention_variants/ops/block_sparse_attention.h"
#include "attention_variants/ops/dispatch.h"
#include "attention_variants/ops/linear_attention.h"
#include "attention_variants/ops/lsh_attention.h"

namespace lra::ops::cuda {

bool takes(const Place& place, const LinearAttentionShape& shape);
bool takes(const Place& place, const BlockSparseShape& shape);
bool takes(const Place& place, const LshShape& shape);

torch::Tensor run(const LinearAttentionCall& call);
torch::Tensor run(const BlockSparseCall& call);
torch::Tensor run(const LshCall& call);

}  // namespace lra::ops::cuda
