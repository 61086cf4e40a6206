#include "attention_variants/ops/cpu/kernels/gemm/gemm_f32.h"

#include "attention_variants/ops/cpu/kernels/gemm/gemm_isa.h"
#include "attention_variants/ops/cpu/kernels/gemm/gemm_microkernel.h"
#include "attention_variants/ops/cpu/kernels/gemm/gemm_scratch.h"

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
  // A block of bᵀ at a time, as it is needed.
  Arena& arena = *detail::gemm_arena;
  const Arena::Frame frame(arena);
  float* const right = TransposedBlock(arena).right;
  int64_t done = 0;
  do {  // c is written even where there is no term
    const int64_t depth = std::min(kGemmDepth, k - done);
    for (int64_t j = 0; j < n; j += kGemmColumns) {
      const int64_t columns = std::min(kGemmColumns, n - j);
      const ConstMatrix given{b[j] + done, b.stride}, left{a.data + done, a.stride};
      const Matrix to{c.data + j, c.stride};
      if constexpr (Float32::packs) {
        constexpr int64_t kPanel = 2 * kSimdWidth;
        for (int64_t p = 0; p < columns; p += kPanel)
          transpose(given.from(p), std::min(kPanel, columns - p), depth,
                    {right + p * depth, kPanel});
        multiply_all<Float32, false>(m, columns, depth, left,
                                     registers::Panels<kPanel>{right, depth}, to, scale);
      } else {
        const Matrix turned{right, transposed_stride(columns)};
        transpose(given, columns, depth, turned);
        multiply_all<Float32, false>(m, columns, depth, left, AsGiven{turned}, to, scale);
      }
    }
    done += depth;
    scale.old = 1;
  } while (done < k);
}

}  // namespace lra::ops::cpu::LRA_ISA

#endif
