// Memory as counted at the allocator: live tensor bytes, their peak, and a limit that turns a would-be kill into an error.
//
// On CPUs a wrapping allocator counts every tensor LibTorch allocates (scratch that libraries take by themselves is not seen); on
// GPUs LibTorch's caching allocator keeps the statistics.
#pragma once

#include <torch/torch.h>

#include <cstdint>

namespace lra {

/// Puts the counting allocator before LibTorch's own. Call once from main(), before the first tensor.
void install_counting_allocator();

/// Bytes of live tensors on `device` now, and the most since reset_peak_bytes().
int64_t live_bytes(torch::Device device);
int64_t peak_bytes(torch::Device device);
/// The peak becomes what is live now.
void reset_peak_bytes(torch::Device device);

/// CPU tensors beyond this many live bytes in all are refused with c10::OutOfMemoryError; 0 = no limit.
void set_cpu_memory_limit(int64_t bytes);

/// 80 % of what the machine has free now (MemAvailable), in bytes.
int64_t default_memory_limit();

/// True for the errors by which LibTorch reports that memory ran out.
bool is_out_of_memory(const std::exception& error);

/// The highest resident size of this process so far (VmHWM), in bytes; 0 where the system does not say.
int64_t process_peak_bytes();

inline constexpr double kMiB = 1024.0 * 1024.0;

}  // namespace lra
