// The operators that own CUDA kernels compute, for ops/dispatch. Each is differentiable once, and
// deterministic.
#pragma once

#include "attention_variants/ops/block_sparse_attention.h"
#include "attention_variants/ops/cross_entropy.h"
#include "attention_variants/ops/dispatch.h"
#include "attention_variants/ops/dropout.h"
#include "attention_variants/ops/embedding.h"
#include "attention_variants/ops/feed_forward.h"
#include "attention_variants/ops/landmark_attention.h"
#include "attention_variants/ops/layer_norm.h"
#include "attention_variants/ops/linear.h"
#include "attention_variants/ops/linear_attention.h"
#include "attention_variants/ops/lsh_attention.h"
#include "attention_variants/ops/softmax_attention.h"

namespace lra::ops::cuda {

bool takes(const Place& place, const SoftmaxAttentionShape& shape);
bool takes(const Place& place, const LandmarkShape& shape);
bool takes(const Place& place, const LinearAttentionShape& shape);
bool takes(const Place& place, const LshShape& shape);
bool takes(const Place& place, const BlockSparseShape& shape);
bool takes(const Place& place, const AnyRowsShape& shape);
bool takes(const Place& place, const NormShape& shape);
bool takes(const Place& place, const DroppedRowsShape& shape);
bool takes(const Place& place, const EmbeddingShape& shape);
bool takes(const Place& place, const DropoutShape& shape);
bool takes(const Place& place, const CrossEntropyShape& shape);

torch::Tensor run(const SoftmaxAttentionCall& call);
torch::Tensor run(const LandmarkCall& call);
torch::Tensor run(const LinearAttentionCall& call);
torch::Tensor run(const LshCall& call);
torch::Tensor run(const BlockSparseCall& call);
LinearRows run(const LinearCall& call);
torch::Tensor run(const MaskedLinearCall& call);
torch::Tensor run(const LayerNormCall& call);
torch::Tensor run(const LayerNormMeanCall& call);
torch::Tensor run(const FeedForwardCall& call);
torch::Tensor run(const AddProjectedCall& call);
torch::Tensor run(const AddDroppedOutCall& call);
torch::Tensor run(const EmbeddingCall& call);
torch::Tensor run(const DropoutCall& call);
CrossEntropy run(const CrossEntropyCall& call);

}  // namespace lra::ops::cuda
