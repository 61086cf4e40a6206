// Scratch memory of an operator's worker: one piece with a beginning and an end, from whose front
// buffers are taken. Without memory it counts, so that the code that takes also says how much has
// to be there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "attention_variants/ops/cpu/kernels/rows/matrix.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace lra::ops::cpu {

/// So many floats, filled up to cache lines: what different threads write should share none.
LRA_INLINE int64_t whole_lines(int64_t floats) { return (floats + 15) / 16 * 16; }

/// Of an operator: what it takes of an arena differs.
enum class Pass { forward, backward };

namespace detail {
/// Ends the program with the sizes, in bytes.
[[noreturn]] void arena_overrun(int64_t size, int64_t taken, int64_t asked);
[[noreturn]] void arena_misaligned(const void* begin);
}  // namespace detail

class Arena {
 public:
  /// Where every buffer begins, in bytes: a cache line, as BLAS may add up in another order
  /// elsewhere.
  static constexpr int64_t kLine = 64;

  /// Counts: what it hands out is null.
  LRA_INLINE Arena() {}
  /// Over memory at a cache line's beginning.
  LRA_INLINE Arena(std::byte* begin, int64_t bytes) : begin_(begin), size_(bytes) {
    if (reinterpret_cast<uintptr_t>(begin) % kLine != 0) detail::arena_misaligned(begin);
    poison(0, bytes);
  }
  LRA_INLINE ~Arena() {
    if (begin_ != nullptr) unpoison(0, size_);
  }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// `count` objects, not initialised. Past the end the program ends, in every build.
  template <class T = float>
  LRA_INLINE T* take(int64_t count) {
    static_assert(std::is_trivial_v<T> && alignof(T) <= kLine);
    const int64_t bytes = count * static_cast<int64_t>(sizeof(T)), room = room_of(bytes);
    if ((bytes | (size_ - taken_ - room)) < 0) detail::arena_overrun(size_, taken_, bytes);
    T* const at = begin_ == nullptr ? nullptr : reinterpret_cast<T*>(begin_ + taken_);
    unpoison(taken_, bytes);
    taken_ += room;
    if (peak_ < taken_) peak_ = taken_;
    return at;
  }
  LRA_INLINE Matrix matrix(int64_t rows, int64_t columns) {
    return {take(rows * columns), columns};
  }

  /// The most bytes that were taken at once: whole cache lines.
  LRA_INLINE int64_t peak() const { return peak_; }

  /// What is taken while it lives is given back at its end.
  class Frame {
   public:
    LRA_INLINE explicit Frame(Arena& arena) : arena_(arena), before_(arena.taken_) {}
    LRA_INLINE ~Frame() {
      arena_.poison(before_, arena_.taken_ - before_);
      arena_.taken_ = before_;
    }
    Frame(const Frame&) = delete;
    Frame& operator=(const Frame&) = delete;

   private:
    Arena& arena_;
    const int64_t before_;
  };

 private:
#if defined(__SANITIZE_ADDRESS__)
  static constexpr int64_t kGap = kLine;  // between buffers, so that none runs into the next
  LRA_INLINE void poison(int64_t from, int64_t bytes) const {
    if (begin_ != nullptr) ASAN_POISON_MEMORY_REGION(begin_ + from, static_cast<size_t>(bytes));
  }
  LRA_INLINE void unpoison(int64_t from, int64_t bytes) const {
    if (begin_ != nullptr) ASAN_UNPOISON_MEMORY_REGION(begin_ + from, static_cast<size_t>(bytes));
  }
#else
  static constexpr int64_t kGap = 0;
  LRA_INLINE void poison(int64_t, int64_t) const {}
  LRA_INLINE void unpoison(int64_t, int64_t) const {}
#endif
  LRA_INLINE static int64_t room_of(int64_t bytes) {
    return (bytes + kLine - 1) / kLine * kLine + kGap;
  }

  std::byte* begin_ = nullptr;
  int64_t size_ = INT64_MAX, taken_ = 0, peak_ = 0;
};

/// Bytes that a Layout, made of `of` and an arena, takes.
template <class Layout, class... Of>
LRA_INLINE int64_t bytes_of(const Of&... of) {
  Arena counting;
  [[maybe_unused]] const Layout layout(of..., counting);
  return counting.peak();
}

}  // namespace lra::ops::cpu
