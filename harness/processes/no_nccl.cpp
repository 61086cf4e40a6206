// In place of nccl.cpp for a LibTorch without CUDA, or without NCCL's headers.
#include "harness/processes/processes.h"

namespace lra {

std::unique_ptr<Processes> start_nccl(const host::Launch& launch) {
  throw without_engine(launch, "NCCL");
}

std::string nccl_version() { return "none"; }

}  // namespace lra
