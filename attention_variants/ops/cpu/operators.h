// The operators that own CPU kernels compute, for ops/dispatch. Each but the loss is differentiable
// once.
#pragma once

#include <cstdint>

#include "attention_variants/ops/block_sparse_attention.h"
#include "attention_variants/ops/cross_entropy.h"
#include "attention_variants/ops/diagonal_scan.h"
#include "attention_variants/ops/dispatch.h"
#include "attention_variants/ops/dropout.h"
#include "attention_variants/ops/embedding.h"
#include "attention_variants/ops/feed_forward.h"
#include "attention_variants/ops/gates.h"
#include "attention_variants/ops/landmark_attention.h"
#include "attention_variants/ops/layer_norm.h"
#include "attention_variants/ops/linear.h"
#include "attention_variants/ops/linear_attention.h"
#include "attention_variants/ops/long_convolution.h"
#include "attention_variants/ops/lsh_attention.h"
#include "attention_variants/ops/project_length.h"
#include "attention_variants/ops/softmax_attention.h"

namespace lra::ops::cpu {

bool takes(const Place& place, const ops::SoftmaxAttentionShape& shape);
bool takes(const Place& place, const ops::LinearAttentionShape& shape);
bool takes(const Place& place, const ops::LandmarkShape& shape);
bool takes(const Place& place, const ops::LshShape& shape);
bool takes(const Place& place, const ops::BlockSparseShape& shape);
bool takes(const Place& place, const ops::ProjectLengthShape& shape);
bool takes(const Place& place, const ops::LongConvolutionShape& shape);
bool takes(const Place& place, const ops::DiagonalScanShape& shape);
bool takes(const Place& place, const AnyRowsShape& shape);
bool takes(const Place& place, const NormShape& shape);
bool takes(const Place& place, const DroppedRowsShape& shape);
bool takes(const Place& place, const EmbeddingShape& shape);
bool takes(const Place& place, const DropoutShape& shape);
bool takes(const Place& place, const CrossEntropyShape& shape);
bool takes(const Place& place, const ElementsShape& shape);

torch::Tensor run(const SoftmaxAttentionCall& call);
torch::Tensor run(const LinearAttentionCall& call);
torch::Tensor run(const LandmarkCall& call);
torch::Tensor run(const LshCall& call);
torch::Tensor run(const BlockSparseCall& call);
torch::Tensor run(const ProjectLengthCall& call);
torch::Tensor run(const LongConvolutionCall& call);
torch::Tensor run(const DiagonalScanCall& call);
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
torch::Tensor run(const GeluCall& call);
torch::Tensor run(const SigmoidGateCall& call);

int64_t bytes(const ops::SoftmaxAttentionShape& shape);
int64_t bytes(const ops::LinearAttentionShape& shape);
int64_t bytes(const ops::LandmarkShape& shape);
int64_t bytes(const ops::LshShape& shape);
int64_t bytes(const ops::BlockSparseShape& shape);
int64_t bytes(const ops::ProjectLengthShape& shape);

}  // namespace lra::ops::cpu
