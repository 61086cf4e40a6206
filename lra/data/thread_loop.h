// Work shared out over threads whose results do not depend on their number.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace lra {

/// The number of threads asked for; 0 means all cores.
inline size_t thread_count(int64_t asked) {
  return asked > 0 ? static_cast<size_t>(asked) : std::max(1u, std::thread::hardware_concurrency());
}

/// Calls `body(i)` once for every i below `count`, on `threads` threads, in any order. An exception
/// ends the loop soon and is thrown on.
template <class Body>
void parallel_for(size_t count, size_t threads, const Body& body) {
  std::atomic<size_t> next{0};
  std::exception_ptr error;
  std::mutex mutex;
  const auto work = [&] {
    try {
      for (size_t i = next++; i < count; i = next++) body(i);
    } catch (...) {
      next = count;
      const std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> workers;
    for (size_t i = 1; i < std::min(threads, count); ++i) workers.emplace_back(work);
    work();
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace lra
