#include "attention_variants/ops/cpu/kernels/gemm.h"

#include "attention_variants/ops/cpu/kernels/gemm_bf16.h"
#include "attention_variants/ops/cpu/kernels/gemm_f32.h"

namespace lra::ops::cpu::detail {

constinit thread_local GemmPrecision products = GemmPrecision::float32;

void gemm(Transposed transposed, int64_t m, int64_t n, int64_t k, ConstMatrix a, ConstMatrix b,
          Matrix c, GemmScale scale) {
  if (products == GemmPrecision::bfloat16)
    return gemm_bf16(rounded_code(), transposed, m, n, k, a, b, c, scale);
  gemm_f32(product_code(), transposed, m, n, k, a, b, c, scale);
}

}  // namespace lra::ops::cpu::detail
