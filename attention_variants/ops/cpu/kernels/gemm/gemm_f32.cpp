#include "attention_variants/ops/cpu/kernels/gemm/gemm_f32.h"

#include "attention_variants/ops/cpu/kernels/gemm/gemm_isa.h"
#include "attention_variants/ops/cpu/kernels/gemm/gemm_microkernel.h"

// Without FMA and wide registers BLAS is the faster one.
#if defined(__AVX2__)

namespace lra::ops::cpu::LRA_ISA {
namespace {

struct Float32 {
  using Registers = Simd<kSimdWidth>;
  static constexpr bool packs = kSimdWidth < 16;
  static constexpr int64_t sums = packs ? 12 : 24;  // of 16 registers, of 32
  LRA_INLINE static void add(Registers::Vector& sum, float left, const Registers::Vector& right) {
    sum += left * right;
  }
  template <int64_t kRows, int64_t kVectors, bool kTransposed>
  [[gnu::noinline]] static void multiply_columns(int64_t m, int64_t depth, ConstMatrix a,
                                                 ConstMatrix b, Matrix c, GemmScale scale) {
    registers::multiply_columns<Float32, kRows, kVectors, kTransposed>(m, depth, a, b, c, scale);
  }
};

}  // namespace

void gemm_f32_registers(Transposed transposed, int64_t m, int64_t n, int64_t k, ConstMatrix a,
                        ConstMatrix b, Matrix c, GemmScale scale) {
  using registers::AsGiven, registers::multiply_all;
  if (transposed == Transposed::a)
    return multiply_all<Float32, true>(m, n, k, a, AsGiven{b}, c, scale);
  if (transposed == Transposed::none)
    return multiply_all<Float32, false>(m, n, k, a, AsGiven{b}, c, scale);
  const auto scratch = [k](int64_t columns) {
    return gemm_buffer(GemmBuffer::transposed, columns * std::max<int64_t>(k, 1));
  };
  if constexpr (Float32::packs) {
    constexpr int64_t kColumns = 2 * kSimdWidth;
    float* const panels = scratch((n + kColumns - 1) / kColumns * kColumns);
    for (int64_t j = 0; j < n; j += kColumns)
      transpose(b.from(j), std::min(kColumns, n - j), k, {panels + j * k, kColumns});
    multiply_all<Float32, false>(m, n, k, a, registers::Panels<kColumns>{panels, k}, c, scale);
  } else {
    const int64_t stride = transposed_stride(n);
    const Matrix to{scratch(stride), stride};
    transpose(b, n, k, to);
    multiply_all<Float32, false>(m, n, k, a, AsGiven{to}, c, scale);
  }
}

}  // namespace lra::ops::cpu::LRA_ISA

#endif
