// What the program calls of NCCL. It is in a library of its own, which brings LibTorch's CUDA part:
// the program starts without both.
#pragma once

#include <memory>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "attention_variants/torch.h"

namespace lra {

/// All processes, each with the GPU that its tensors are on. Calls wait until it is done.
class NcclGroup {
 public:
  NcclGroup() = default;
  virtual ~NcclGroup() = default;
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  virtual void sum(const torch::Tensor& values) = 0;
  virtual void broadcast(const torch::Tensor& values, int64_t from) = 0;
};

/// The library's function lra_make_nccl_group.
using MakeNcclGroup = std::unique_ptr<NcclGroup>(const c10::intrusive_ptr<c10d::Store>& store,
                                                 int rank, int size);

}  // namespace lra
