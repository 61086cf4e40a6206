#include "harness/host/memory.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <sys/resource.h>
#include <torch/version.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <string>

#include "attention_variants/base/error.h"
#include "harness/host/kernel_facts.h"
#include "harness/host/pages.h"

// The device-independent statistics came with LibTorch 2.9; before, a GPU's memory is reported as
// not measured.
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 9
#define LRA_DEVICE_STATISTICS 1
#include <c10/core/CachingDeviceAllocator.h>
#else
#define LRA_DEVICE_STATISTICS 0
#endif
// Memory in use on the whole GPU; this interface is known to work in 2.11.
#define LRA_DEVICE_MEMORY (TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 11)

namespace lra::host {
namespace {

std::atomic<int64_t> g_live{0}, g_peak{0}, g_limit{0};

void add_bytes(int64_t bytes) {
  const int64_t live = g_live.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  int64_t peak = g_peak.load(std::memory_order_relaxed);
  while (live > peak && !g_peak.compare_exchange_weak(peak, live, std::memory_order_relaxed)) {
  }
}

// Before each tensor's bytes stands how many they are; 64 keeps LibTorch's alignment. The data
// pointer is its own context, as LibTorch's raw allocations require.
constexpr size_t kHeader = 64;
c10::Allocator* g_inner = nullptr;

void free_counted(void* data) {
  if (data == nullptr) return;
  char* block = static_cast<char*>(data) - kHeader;
  int64_t bytes = 0;
  std::memcpy(&bytes, block, sizeof bytes);
  g_live.fetch_sub(bytes, std::memory_order_relaxed);
  g_inner->raw_deallocate(block);
}

class CountingAllocator final : public c10::Allocator {
 public:
  at::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &free_counted, at::Device(at::kCPU)};
    const auto count = static_cast<int64_t>(bytes);
    const int64_t limit = g_limit.load(std::memory_order_relaxed);
    if (limit > 0 && g_live.load(std::memory_order_relaxed) + count > limit) {
      TORCH_CHECK_WITH(OutOfMemoryError, false, "out of memory: ", count,
                       " more bytes of tensors pass the limit of ", limit);
    }
    char* block = static_cast<char*>(g_inner->raw_allocate(bytes + kHeader));
    ask_for_huge_pages();
    std::memcpy(block, &count, sizeof count);
    add_bytes(count);
    char* data = block + kHeader;
    return {data, data, &free_counted, at::Device(at::kCPU)};
  }

  at::DeleterFnPtr raw_deleter() const override { return &free_counted; }

  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

#if LRA_DEVICE_STATISTICS
// Null before the device's first use: its allocator then has nothing and throws when asked.
c10::DeviceAllocator* used_allocator(torch::Device device) {
  c10::DeviceAllocator* const allocator = at::getDeviceAllocator(device.type());
  return allocator->initialized() ? allocator : nullptr;
}

c10::CachingDeviceAllocator::DeviceStats device_statistics(torch::Device device) {
  c10::DeviceAllocator* const allocator = used_allocator(device);
  return allocator == nullptr ? c10::CachingDeviceAllocator::DeviceStats{}
                              : allocator->getDeviceStats(device.index());
}
constexpr size_t kAggregate = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
#endif

}  // namespace

void install_counting_allocator() {
  static CountingAllocator allocator;
  if (c10::GetCPUAllocator() == &allocator) return;
  g_inner = c10::GetCPUAllocator();
  c10::SetCPUAllocator(&allocator, /*priority=*/100);
}

int64_t live_bytes(torch::Device device) {
  if (device.is_cpu()) return g_live.load();
#if LRA_DEVICE_STATISTICS
  return device_statistics(device).allocated_bytes[kAggregate].current;
#else
  return -1;
#endif
}

int64_t peak_bytes(torch::Device device) {
  if (device.is_cpu()) return g_peak.load();
#if LRA_DEVICE_STATISTICS
  return device_statistics(device).allocated_bytes[kAggregate].peak;
#else
  return -1;
#endif
}

int64_t peak_bytes_above(int64_t start, torch::Device device) {
  return start < 0 ? -1 : peak_bytes(device) - start;
}

void reset_peak_bytes(torch::Device device) {
  if (device.is_cpu()) {
    g_peak.store(g_live.load());
    return;
  }
#if LRA_DEVICE_STATISTICS
  if (auto* const allocator = used_allocator(device)) allocator->resetPeakStats(device.index());
#endif
}

std::optional<DeviceMemory> device_memory(torch::Device device) {
  if (device.is_cpu()) return std::nullopt;
#if LRA_DEVICE_MEMORY
  if (used_allocator(device) == nullptr) return std::nullopt;
  const auto [free, total] = at::getDeviceAllocator(device.type())->getMemoryInfo(device.index());
  return DeviceMemory{.reserved_peak = device_statistics(device).reserved_bytes[kAggregate].peak,
                      .in_use = static_cast<int64_t>(total) - static_cast<int64_t>(free)};
#else
  return std::nullopt;
#endif
}

void set_cpu_memory_limit(int64_t bytes) { g_limit.store(bytes); }

int64_t free_memory(const std::filesystem::path& root) {
  const int64_t available = number_after(root / "proc/meminfo", "MemAvailable:").value_or(0) * 1024;
  return std::min(available, control_groups_left(root));
}

int64_t default_memory_limit(const std::filesystem::path& root) {
  return free_memory(root) / 5 * 4;
}

int64_t default_memory_limit(torch::Device device) {
  if (device.is_cpu()) return default_memory_limit();
#if LRA_DEVICE_MEMORY
  // Its allocator is there from the first tensor on.
  [[maybe_unused]] const torch::Tensor first =
      torch::empty({1}, torch::TensorOptions().device(device));
  return static_cast<int64_t>(
             at::getDeviceAllocator(device.type())->getMemoryInfo(device.index()).first) /
         5 * 4;
#else
  return 0;
#endif
}

void limit_address_space(int64_t bytes, int64_t threads) {
  constexpr int64_t kArena = int64_t{128} << 20;  // glibc reserves twice 64 MiB to align one
  const int64_t now = number_after("/proc/self/status", "VmSize:").value_or(0) * 1024;
  if (now == 0) return;
  const auto limit = static_cast<rlim_t>(now + bytes + (threads + 1) * kArena);
  rlimit old{};
  if (getrlimit(RLIMIT_AS, &old) != 0 || (old.rlim_max != RLIM_INFINITY && limit > old.rlim_max))
    return;
  const rlimit wanted{.rlim_cur = limit, .rlim_max = old.rlim_max};
  setrlimit(RLIMIT_AS, &wanted);
}

}  // namespace lra::host
