// The threads that share one head, where there are fewer heads than threads.
#pragma once

#include <sched.h>

#include <cstdint>

#include "attention_variants/ops/cpu/kernels/rows/arena.h"
#include "attention_variants/ops/cpu/kernels/rows/matrix.h"

namespace lra::ops::cpu {

/// Positions [begin, end).
struct PositionRange {
  int64_t begin = 0, end = 0;
  LRA_INLINE int64_t length() const { return end - begin; }
};

/// Calls a function for items, on threads of its own where it has any: one after the other, in an
/// arena given, where it has not. What an item takes of its arena is given back after it.
class Team {
 public:
  using Call = void (*)(const void* body, int64_t item, Arena& arena);
  using Run = void (*)(void* threads, int64_t count, Call call, const void* body);

  LRA_INLINE explicit Team(Arena& arena) : arena_(&arena) {}
  /// run(threads, ..) calls for every item, any two at the same time, in the order of their
  /// numbers: an item may wait for one before it.
  LRA_INLINE Team(int64_t parts, Run run, void* threads)
      : parts_(parts), run_(run), threads_(threads) {}

  /// Ranges that positions are cut into.
  LRA_INLINE int64_t parts() const { return parts_; }

  /// Range `part` of [0, length), which begins at a tile; some are empty where there are fewer
  /// tiles than parts.
  LRA_INLINE PositionRange range(int64_t part, int64_t length, int64_t tile) const {
    const int64_t tiles = (length + tile - 1) / tile, end = tiles * (part + 1) / parts_ * tile;
    return {tiles * part / parts_ * tile, end < length ? end : length};
  }

  /// Waits until another item has come so far.
  LRA_INLINE static void wait(const int64_t* done, int64_t count) {
    constexpr int kSpins = 2000;
    for (int spins = 0; __atomic_load_n(done, __ATOMIC_ACQUIRE) < count;) {
      if (spins < kSpins)
        ++spins;
      else
        sched_yield();
    }
  }
  LRA_INLINE static void advance(int64_t* done, int64_t count) {
    __atomic_store_n(done, count, __ATOMIC_RELEASE);
  }

  /// body(item, arena)
  template <class Body>
  LRA_INLINE void for_each(int64_t count, const Body& body) const {
    if (run_ != nullptr) {
      run_(
          threads_, count,
          [](const void* of, int64_t item, Arena& arena) {
            (*static_cast<const Body*>(of))(item, arena);
          },
          &body);
      return;
    }
    for (int64_t item = 0; item < count; ++item) {
      const Arena::Frame frame(*arena_);
      body(item, *arena_);
    }
  }

 private:
  int64_t parts_ = 1;
  Arena* arena_ = nullptr;
  Run run_ = nullptr;
  void* threads_ = nullptr;
};

}  // namespace lra::ops::cpu
