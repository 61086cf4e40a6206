// All kernels, for those who find them at run time: in lra_cuda.so, or emulated in tests.
#pragma once

#include "attention_variants/ops/cuda/kernels/add_norm.h"

namespace lra::ops::cuda {

struct KernelTable {
  void (*add_norm)(const AddNormParams&, Stream);
};

}  // namespace lra::ops::cuda

/// Of the library this is linked into.
extern "C" const lra::ops::cuda::KernelTable* lra_cuda_kernels();
