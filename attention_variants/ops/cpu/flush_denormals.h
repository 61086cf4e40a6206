// Denormal numbers as zero while a kernel runs.
#pragma once

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace lra::ops::cpu {

/// While it lives, the calling thread's arithmetic reads numbers below the smallest normal one
/// (1.2e-38 in float32) as zero and returns zero for them, as bfloat16 products on AMX tiles always
/// do. x86 processors take over a hundred cycles for an operation with one, and sharp attention has
/// many: its steps otherwise take up to four times as long (docs/operators.md). Other processors
/// have no such cost, and keep them.
class FlushDenormals {
 public:
#if defined(__x86_64__)
  FlushDenormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | kFlushToZero | kInputsAreZero); }
  ~FlushDenormals() { _mm_setcsr(before_); }
#else
  FlushDenormals() = default;
  ~FlushDenormals() {}
#endif
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
#if defined(__x86_64__)
  static constexpr unsigned kFlushToZero = 0x8000, kInputsAreZero = 0x0040;
  unsigned before_;
#endif
};

}  // namespace lra::ops::cpu
