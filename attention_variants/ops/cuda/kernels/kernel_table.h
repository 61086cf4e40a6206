// All kernels, for those who find them at run time: in lra_cuda.so, or emulated in tests.
#pragma once

#include "attention_variants/ops/cuda/kernels/add_norm.h"
#include "attention_variants/ops/cuda/kernels/sum_parts.h"

namespace lra::ops::cuda {

struct KernelTable {
  void (*add_norm)(const AddNormParams&, Stream);
  void (*sum_parts)(const SumPartsParams&, Stream);
};

}  // namespace lra::ops::cuda

/// Of the library this is linked into.
extern "C" const lra::ops::cuda::KernelTable* lra_cuda_kernels();
