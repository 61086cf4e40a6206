#include <bit>

#include "attention_variants/ops/cpu/kernels/gemm/gemm_isa.h"
#include "attention_variants/ops/cpu/kernels/rows/vector_math.h"

namespace lra::ops::cpu::LRA_ISA {

void round_to_bfloat16(const float* x, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = std::bit_cast<float>(bfloat16_bits(x[i]) << 16);
}

}  // namespace lra::ops::cpu::LRA_ISA
