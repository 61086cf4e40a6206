// How the threads of a kernel share out its work.
#pragma once

#include <cstdint>
#include <functional>

namespace lra::ops::cpu {

/// Threads that parallel_for_dynamic() uses: LibTorch's, at most one an item.
int64_t threads_for(int64_t count);

/// Calls body(item, thread) for items [0, count), thread below threads_for(count). A thread that is
/// done takes the next item that none has, so that a long item, or a processor that others use too,
/// keeps nobody waiting; no result may therefore depend on the thread. Where there are many items,
/// it takes up to four: the heads of a sample lie side by side in memory. BLAS has one thread in
/// it, denormal numbers are zero, products are rounded as the caller's are, and pack their operands
/// in memory that LibTorch's allocator counts and that ends with the call.
void parallel_for_dynamic(int64_t count,
                          const std::function<void(int64_t item, int64_t thread)>& body);

}  // namespace lra::ops::cpu
