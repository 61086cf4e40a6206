#include "attention_variants/kernels/cpu/matrix.h"

#include "attention_variants/kernels/cpu/product.h"
#include "attention_variants/kernels/cpu/rounded_product.h"

namespace lra::cpu::detail {

constinit thread_local Products products = Products::float32;

void multiply(Transposed transposed, int64_t m, int64_t n, int64_t k, ConstMatrix a, ConstMatrix b,
              Matrix c, Scale scale) {
  if (products == Products::bfloat16)
    return multiply_rounded_by(rounded_code(), transposed, m, n, k, a, b, c, scale);
  multiply_by(product_code(), transposed, m, n, k, a, b, c, scale);
}

}  // namespace lra::cpu::detail
