// Products of small matrices whose operands are rounded to bfloat16 and whose sums are float32. On
// two cores of an AMD EPYC (Zen 4, AVX-512 BF16), tiles of 32 to 256 rows by 64, rounding included:
// MKL 42 to 97 GFLOP/s, by sums in registers 172 to 327 (`lra_bench --benchmark_filter=Bfloat16`).
#pragma once

#include <vector>

#include "attention_variants/kernels/cpu/matrix.h"

namespace lra::cpu {

enum class RoundedCode : int {
  float32,  // by multiply_by() of the rounded numbers, on any processor
  blas,     // MKL's, for AVX-512 BF16 and AMX
  avx512,   // sums in registers, by AVX-512 BF16's instruction for two terms at once
};

/// "float32", "blas", "avx512"
const char* name_of(RoundedCode code);

/// Those that this processor and its BLAS run, float32 first.
std::vector<RoundedCode> rounded_codes();

/// The one that multiply() takes under Products::bfloat16, as product_code() is chosen.
RoundedCode rounded_code();

/// c = op(a) op(b) as multiply() and its like say, of operands rounded to bfloat16 (to the nearest,
/// ties to even), by one of rounded_codes().
void multiply_rounded_by(RoundedCode code, Transposed transposed, int64_t m, int64_t n, int64_t k,
                         ConstMatrix a, ConstMatrix b, Matrix c, Scale scale);

}  // namespace lra::cpu
