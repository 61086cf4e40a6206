// Which instructions the CPU kernels use.
#pragma once

namespace lra::ops {

/// "baseline", "avx2", "avx512" or "avx512_bf16": the best that this processor runs, or what the
/// environment's LRA_CPU_ISA names. Throws UsageError where there is none of that name.
const char* cpu_isa();

}  // namespace lra::ops
