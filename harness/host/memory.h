// Memory as counted at the allocator: live tensor bytes, their peak, and a limit that turns a
// would-be kill into an error.
//
// On CPUs a wrapping allocator counts every tensor LibTorch allocates (scratch that libraries take
// by themselves is not seen); on GPUs LibTorch's caching allocator keeps the statistics.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "attention_variants/torch.h"

namespace lra::host {

/// Puts the counting allocator before LibTorch's own. Call from main(), before the first tensor;
/// a second call does nothing.
void install_counting_allocator();

/// Bytes of live tensors on `device` now, and the most since reset_peak_bytes(); 0 before its first
/// use, -1 where this LibTorch cannot tell.
int64_t live_bytes(torch::Device device);
int64_t peak_bytes(torch::Device device);
/// How much peak_bytes() lies above the `start` that live_bytes() said, -1 where that is -1.
int64_t peak_bytes_above(int64_t start, torch::Device device);
/// The peak becomes what is live now.
void reset_peak_bytes(torch::Device device);

/// Of a GPU.
struct DeviceMemory {
  int64_t reserved_peak = 0;  // bytes LibTorch held at most since reset_peak_bytes()
  int64_t in_use = 0;         // bytes of the device in use now, by all processes
};
/// Absent on a CPU, and where this LibTorch cannot tell.
std::optional<DeviceMemory> device_memory(torch::Device device);

/// CPU tensors beyond this many live bytes in all are refused with c10::OutOfMemoryError; 0 = no
/// limit.
void set_cpu_memory_limit(int64_t bytes);

/// Such a limit for a scope.
class CpuMemoryLimit {
 public:
  explicit CpuMemoryLimit(int64_t bytes) { set_cpu_memory_limit(bytes); }
  ~CpuMemoryLimit() { set_cpu_memory_limit(0); }
  CpuMemoryLimit(const CpuMemoryLimit&) = delete;
  CpuMemoryLimit& operator=(const CpuMemoryLimit&) = delete;
};

/// What the machine, and every control group that this process is in (of a container, or a job of
/// Slurm), has free now, in bytes. `root` is where /proc and /sys are.
int64_t free_memory(const std::filesystem::path& root = "/");

/// 80 % of that.
int64_t default_memory_limit(const std::filesystem::path& root = "/");

/// The same of a device's own memory; 0 where this LibTorch cannot tell. Of a GPU it takes what a
/// process takes there to begin with: to be asked in one that uses it.
int64_t default_memory_limit(torch::Device device);

/// Limits this process's address space to what it has now and `bytes` more, and room for the
/// arenas that each thread's allocations reserve without using: what libraries take by themselves
/// fails too, before the kernel has to kill. Without effect where the system refuses.
void limit_address_space(int64_t bytes, int64_t threads);

inline constexpr double kMiB = 1024.0 * 1024.0;

}  // namespace lra::host
