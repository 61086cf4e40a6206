// All kernels, for those who find them at run time: in lra_cuda.so, or emulated in tests.
#pragma once

#include "attention_variants/ops/cuda/kernels/add_norm.h"
#include "attention_variants/ops/cuda/kernels/block_sparse_attention.h"
#include "attention_variants/ops/cuda/kernels/depthwise_conv.h"
#include "attention_variants/ops/cuda/kernels/landmarks.h"
#include "attention_variants/ops/cuda/kernels/linear_attention.h"
#include "attention_variants/ops/cuda/kernels/lsh_attention.h"
#include "attention_variants/ops/cuda/kernels/sum_parts.h"

namespace lra::ops::cuda {

struct KernelTable {
  void (*add_norm)(const AddNormParams&, Stream);
  void (*sum_parts)(const SumPartsParams&, Stream);
  void (*landmarks_forward)(const LandmarksParams&, Stream);
  void (*landmarks_backward)(const LandmarksParams&, Stream);
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
