#include "attention_variants/ops/cpu/kernels/rows/arena.h"

#include <cstdio>
#include <cstdlib>

namespace lra::ops::cpu::detail {

void arena_overrun(int64_t size, int64_t taken, int64_t asked) {
  std::fprintf(
      stderr, "lra: scratch of %lld bytes, of which %lld are taken, has no room for %lld more\n",
      static_cast<long long>(size), static_cast<long long>(taken), static_cast<long long>(asked));
  std::abort();
}

void arena_misaligned(const void* begin) {
  std::fprintf(stderr, "lra: scratch at %p does not begin at a cache line\n", begin);
  std::abort();
}

}  // namespace lra::ops::cpu::detail
