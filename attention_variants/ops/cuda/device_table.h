// Where the CUDA kernels are at run time: the program is linked without CUDA, and loads them where
// there is a driver.
#pragma once

#include "attention_variants/ops/cuda/kernel_table.h"
#include "attention_variants/ops/dispatch.h"
#include "attention_variants/torch.h"

namespace lra::ops::cuda {

/// Loads the kernels for tensors on CUDA devices: lra_cuda.so, which must find LibTorch's CUDA part
/// loaded. They are used where all devices of this process have compute capability 8.0 or more;
/// those that want more shared memory than these have (has_room) are not. Throws Error.
void load_kernels(const char* library);

/// The kernels for tensors on a device; null where there are none.
const KernelTable* device_table(torch::DeviceType device);

/// Whether there are kernels, and for numbers of this type, under autocast too: float32, bfloat16.
bool has_kernels(const Place& place);

/// Whether a block may have so many bytes of shared memory there. GPUs of capability 8.6, 8.9 and
/// 12.x have kLeastSharedBytes.
bool has_room(const Place& place, int64_t bytes);

/// While it lives, emulated kernels compute on tensors of this device, whose memory is the host's:
/// for tests. At most one does.
class WithHostTable {
 public:
  explicit WithHostTable(const KernelTable* table, torch::DeviceType device = torch::kCPU,
                         int shared_bytes = kMostSharedBytes);
  ~WithHostTable();
  WithHostTable(const WithHostTable&) = delete;
  WithHostTable& operator=(const WithHostTable&) = delete;
};

/// Of the current stream of a device; null where kernels are emulated.
Stream current_stream(const torch::Device& device);

/// How a tensor of float32 or bfloat16 is stored.
Storage storage_of(const torch::Tensor& x);

/// Starts a kernel on the device of `of`, in the current stream.
template <class Params>
void start(void (*KernelTable::*kernel)(const Params&, Stream), const torch::Tensor& of,
           const Params& params) {
  const c10::DeviceGuard guard(of.device());
  (device_table(of.device().type())->*kernel)(params, current_stream(of.device()));
}

/// What kernels are given of a tensor; null for an undefined one.
inline void* data_of(const torch::Tensor& x) { return x.defined() ? x.data_ptr() : nullptr; }
template <class T>
T* data_of(const torch::Tensor& x) {
  return x.defined() ? x.data_ptr<T>() : nullptr;
}

}  // namespace lra::ops::cuda
