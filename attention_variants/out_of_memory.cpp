#include "attention_variants/out_of_memory.h"

#include <algorithm>
#include <new>
#include <string_view>

#include "attention_variants/torch.h"

namespace lra {

bool is_out_of_memory(const std::exception& error) {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
      dynamic_cast<const std::bad_alloc*>(&error) != nullptr)
    return true;
  // What comes as a plain c10::Error: of LibTorch's own CPU allocator, and of CUDA's runtime and
  // libraries, which allocate past LibTorch's.
  constexpr std::string_view kSigns[] = {"DefaultCPUAllocator: can't allocate memory",
                                         "CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED",
                                         "CUDNN_STATUS_ALLOC_FAILED", "CUFFT_ALLOC_FAILED"};
  const std::string_view said = error.what();
  // oneDNN's, which knows by then how to compute it, and has no memory for the code.
  if (said == "could not create a primitive") return true;
  return std::ranges::any_of(kSigns,
                             [&](std::string_view sign) { return said.find(sign) != said.npos; });
}

}  // namespace lra
