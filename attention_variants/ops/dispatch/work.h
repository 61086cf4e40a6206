// How much work a call of an own kernel is.
#pragma once

#include <cstdint>

#include "attention_variants/ops/block_sparse_attention.h"
#include "attention_variants/ops/cross_entropy.h"
#include "attention_variants/ops/diagonal_scan.h"
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

namespace lra::ops {

/// Of a forward pass in which every row is a token.
struct Work {
  int64_t flops = -1;  // of its products, a multiply-add is 2; -1: no account
  int64_t bytes = -1;  // of the rows that it reads and writes, each once; -1: no account
};

Work work_of(const SoftmaxAttentionCall& call);
Work work_of(const LinearAttentionCall& call);
Work work_of(const LandmarkCall& call);
Work work_of(const LshCall& call);
Work work_of(const BlockSparseCall& call);
Work work_of(const ProjectLengthCall& call);
Work work_of(const LongConvolutionCall& call);
Work work_of(const DiagonalScanCall& call);
Work work_of(const LinearCall& call);
Work work_of(const MaskedLinearCall& call);
Work work_of(const LayerNormCall& call);
Work work_of(const LayerNormMeanCall& call);
Work work_of(const FeedForwardCall& call);
Work work_of(const AddProjectedCall& call);
Work work_of(const AddDroppedOutCall& call);
Work work_of(const EmbeddingCall& call);
Work work_of(const DropoutCall& call);
Work work_of(const CrossEntropyCall& call);
Work work_of(const GeluCall& call);
Work work_of(const SigmoidGateCall& call);

}  // namespace lra::ops
