// The products that an instruction set has, for the table of its kernels.
#pragma once

#include "attention_variants/ops/cpu/kernels/gemm/gemm.h"

namespace lra::ops::cpu {

using GemmKernel = void(Transposed transposed, int64_t m, int64_t n, int64_t k, ConstMatrix a,
                        ConstMatrix b, Matrix c, GemmScale scale);

}  // namespace lra::ops::cpu

#ifdef LRA_ISA

namespace lra::ops::cpu::LRA_ISA {

/// Each of count numbers to the nearest bfloat16, ties to even.
void round_to_bfloat16(const float* x, int64_t count, float* to);
GemmKernel gemm_f32_registers, gemm_bf16_registers, gemm_bf16_tiles, gemm_bf16_emulated_tiles;

}  // namespace lra::ops::cpu::LRA_ISA

#endif
