#include "attention_variants/ops/cuda/device_table.h"

#include <dlfcn.h>

#include <atomic>
#include <string>

#include "attention_variants/base/error.h"

namespace lra::ops::cuda {
namespace {

// What lra_cuda.so exports.
struct Module {
  const KernelTable* (*kernels)() = nullptr;
  Stream (*stream)(int device) = nullptr;
  int (*oldest_capability)() = nullptr;
  int (*shared_bytes)() = nullptr;
};

Module& loaded() {
  static Module module;
  return module;
}

constexpr int kOldestCapability = 8;  // major

const KernelTable* cuda_table() {
  if (loaded().kernels == nullptr) return nullptr;
  static const bool usable = loaded().oldest_capability() >= kOldestCapability &&
                             loaded().shared_bytes() >= kLeastSharedBytes;
  return usable ? loaded().kernels() : nullptr;
}

// The engine runs backward passes of devices other than the CPU on threads of their own.
std::atomic<const KernelTable*> g_host_table = nullptr;
std::atomic<torch::DeviceType> g_host_device = torch::kCPU;
std::atomic<int> g_host_shared = kMostSharedBytes;

}  // namespace

void load_kernels(const char* library) {
  void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);  // stays loaded
  const auto find = [&](auto& function, const char* name) {
    void* symbol = handle == nullptr ? nullptr : dlsym(handle, name);
    if (symbol == nullptr)
      throw Error(std::string("the CUDA kernels cannot be loaded, build the program again: ") +
                  dlerror());
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(symbol);
  };
  Module module;
  find(module.kernels, "lra_cuda_kernels");
  find(module.stream, "lra_cuda_current_stream");
  find(module.oldest_capability, "lra_cuda_oldest_capability");
  find(module.shared_bytes, "lra_cuda_shared_bytes");
  loaded() = module;
}

const KernelTable* device_table(torch::DeviceType device) {
  if (device == torch::kCUDA) return cuda_table();
  return device == g_host_device ? g_host_table.load() : nullptr;
}

bool has_kernels(const Place& place) {
  return (place.type == torch::kFloat || place.type == torch::kBFloat16) && place.autocast_ok &&
         device_table(place.device) != nullptr;
}

bool has_room(const Place& place, int64_t bytes) {
  if (bytes <= kLeastSharedBytes) return true;
  if (place.device != torch::kCUDA) return bytes <= g_host_shared;
  static const int there = loaded().shared_bytes == nullptr ? 0 : loaded().shared_bytes();
  return bytes <= there;
}

WithHostTable::WithHostTable(const KernelTable* table, torch::DeviceType device, int shared_bytes) {
  g_host_device = device;
  g_host_shared = shared_bytes;
  g_host_table = table;
}
WithHostTable::~WithHostTable() { g_host_table = nullptr; }

Stream current_stream(const torch::Device& device) {
  return device.is_cuda() ? loaded().stream(device.index()) : nullptr;
}

Storage storage_of(const torch::Tensor& x) {
  TORCH_CHECK(x.scalar_type() == torch::kFloat || x.scalar_type() == torch::kBFloat16,
              "a kernel takes float32 or bfloat16, not ", x.scalar_type());
  return x.scalar_type() == torch::kFloat ? Storage::f32 : Storage::bf16;
}

}  // namespace lra::ops::cuda
