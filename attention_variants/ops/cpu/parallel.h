// How the threads of a kernel share out its work.
#pragma once

#include <cstdint>
#include <functional>

namespace lra {

/// Threads that for_each_in_turn() uses: LibTorch's, at most one an item.
int64_t threads_for(int64_t count);

/// Calls body(item, thread) for items [0, count), thread below threads_for(count). A thread that is
/// done takes the next item that none has, so that a long item, or a processor that others use too,
/// keeps nobody waiting; no result may therefore depend on the thread. Where there are many items,
/// it takes up to four: the heads of a sample lie side by side in memory. BLAS has one thread in
/// it, and products are rounded as the caller's are.
void for_each_in_turn(int64_t count, const std::function<void(int64_t item, int64_t thread)>& body);

}  // namespace lra
