#include "attention_variants/ops/cpu/kernels/gemm/amx.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace lra::ops::cpu {

#if defined(__x86_64__) && defined(__linux__)

namespace {

bool processor_has_it() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  constexpr unsigned kBfloat16 = 1U << 22, kTiles = 1U << 24;
  return (d & kBfloat16) != 0 && (d & kTiles) != 0;
}

// Documentation/arch/x86/xstate.rst of Linux, which has it since 5.16.
bool system_lets_us() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

}  // namespace

bool amx_multiplies_bfloat16() {
  static const bool does = processor_has_it() && system_lets_us();
  return does;
}

#else

bool amx_multiplies_bfloat16() { return false; }

#endif

}  // namespace lra::ops::cpu
