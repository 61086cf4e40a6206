// Products of small matrices whose operands are rounded to bfloat16 and whose sums are float32.
#pragma once

#include <vector>

#include "attention_variants/ops/cpu/kernels/gemm/gemm.h"

namespace lra::ops::cpu {

enum class GemmBf16Backend : int {
  float32,         // by gemm_f32() of the rounded numbers, on any processor
  avx512,          // sums in registers, by AVX-512 BF16's instruction for two terms at once
  emulated_tiles,  // as amx, the registers emulated by AVX-512 BF16: for tests
  amx,             // sums in its tile registers
};

/// "float32", "avx512", "emulated_tiles", "amx"
const char* name_of(GemmBf16Backend backend);

/// Those that the chosen instruction set (kernels.h) and the system run, float32 first.
std::vector<GemmBf16Backend> gemm_bf16_backends();

/// The one that gemm() takes under GemmPrecision::bfloat16: amx, else avx512 where
/// there are such instructions and they are faster than float32's (not on Intel's processors), else
/// float32. Chosen once, as gemm_backend() is.
GemmBf16Backend gemm_bf16_backend();

/// c = op(a) op(b) as gemm() and its like say, of operands rounded to bfloat16 (to the nearest,
/// ties to even), by one of gemm_bf16_backends().
void gemm_bf16(GemmBf16Backend backend, Transposed transposed, int64_t m, int64_t n, int64_t k,
               ConstMatrix a, ConstMatrix b, Matrix c, GemmScale scale);

}  // namespace lra::ops::cpu
