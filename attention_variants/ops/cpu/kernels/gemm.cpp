#include "attention_variants/ops/cpu/kernels/gemm.h"

#include "attention_variants/ops/cpu/kernels/gemm_bf16.h"
#include "attention_variants/ops/cpu/kernels/gemm_f32.h"

namespace lra::cpu::detail {

constinit thread_local Products products = Products::float32;

void multiply(Transposed transposed, int64_t m, int64_t n, int64_t k, ConstMatrix a, ConstMatrix b,
              Matrix c, Scale scale) {
  if (products == Products::bfloat16)
    return multiply_rounded_by(rounded_code(), transposed, m, n, k, a, b, c, scale);
  multiply_by(product_code(), transposed, m, n, k, a, b, c, scale);
}

}  // namespace lra::cpu::detail
