// All kernels, for those who find them at run time: in lra_cuda.so, or emulated in tests.
#pragma once

#include "attention_variants/ops/cuda/kernels/heads/block_sparse_attention.h"
#include "attention_variants/ops/cuda/kernels/heads/iterative_inverse.h"
#include "attention_variants/ops/cuda/kernels/heads/landmark_matrix.h"
#include "attention_variants/ops/cuda/kernels/heads/landmarks.h"
#include "attention_variants/ops/cuda/kernels/heads/linear_attention.h"
#include "attention_variants/ops/cuda/kernels/heads/lsh_attention.h"
#include "attention_variants/ops/cuda/kernels/heads/softmax_attention.h"
#include "attention_variants/ops/cuda/kernels/rows/cross_entropy.h"
#include "attention_variants/ops/cuda/kernels/rows/depthwise_conv.h"
#include "attention_variants/ops/cuda/kernels/rows/dropout_rows.h"
#include "attention_variants/ops/cuda/kernels/rows/embedding.h"
#include "attention_variants/ops/cuda/kernels/rows/norm_mean.h"
#include "attention_variants/ops/cuda/kernels/rows/norm_rows.h"
#include "attention_variants/ops/cuda/kernels/rows/sum_parts.h"

namespace lra::ops::cuda {

struct KernelTable {
  void (*norm_rows)(const NormRowsParams&, Stream);
  void (*norm_rows_backward)(const NormRowsBackwardParams&, Stream);
  void (*norm_mean)(const NormMeanParams&, Stream);
  void (*column_parts)(const ColumnPartsParams&, Stream);
  void (*sum_parts)(const SumPartsParams&, Stream);
  void (*cross_entropy)(const CrossEntropyParams&, Stream);
  void (*landmarks_forward)(const LandmarksParams&, Stream);
  void (*landmarks_backward)(const LandmarksParams&, Stream);
  void (*dropout_rows_forward)(const DropoutRowsParams&, Stream);
  void (*dropout_rows_backward)(const DropoutRowsParams&, Stream);
  void (*embedding_forward)(const EmbeddingParams&, Stream);
  void (*embedding_backward)(const EmbeddingParams&, Stream);
  void (*landmark_matrix_forward)(const LandmarkMatrixParams&, Stream);
  void (*landmark_matrix_backward)(const LandmarkMatrixParams&, Stream);
  void (*inverse_forward)(const InverseParams&, Stream);
  void (*inverse_backward)(const InverseParams&, Stream);
  void (*softmax_forward)(const SoftmaxParams&, Stream);
  void (*softmax_backward)(const SoftmaxParams&, Stream);
  void (*depthwise_conv)(const DepthwiseConvParams&, Stream);
  void (*depthwise_conv_weight_grad)(const DepthwiseConvWeightParams&, Stream);
  void (*block_sparse_forward)(const BlockSparseParams&, Stream);
  void (*block_sparse_backward)(const BlockSparseParams&, Stream);
  void (*lsh_forward)(const LshParams&, Stream);
  void (*lsh_backward)(const LshParams&, Stream);
  void (*linear_attention_forward)(const LinearAttentionParams&, Stream);
  void (*linear_attention_backward)(const LinearAttentionParams&, Stream);
};

}  // namespace lra::ops::cuda

/// Of the library this is linked into.
extern "C" const lra::ops::cuda::KernelTable* lra_cuda_kernels();
