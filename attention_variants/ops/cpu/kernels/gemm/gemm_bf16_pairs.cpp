// Products of pairs of bfloat16 numbers, for the instruction set that has them (AVX-512 BF16)
// alone.
#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "attention_variants/ops/cpu/kernels/gemm/gemm_bf16.h"
#include "attention_variants/ops/cpu/kernels/gemm/gemm_isa.h"
#include "attention_variants/ops/cpu/kernels/gemm/gemm_microkernel.h"
#include "attention_variants/ops/cpu/kernels/gemm/gemm_scratch.h"

namespace lra::ops::cpu::LRA_ISA {
namespace {

// Two terms of a sum at once: elements are pairs of bfloat16 numbers, the earlier one in the lower
// half.
struct Bf16Pairs {
  using Registers = Simd<16>;
  static constexpr int64_t sums = 24;
  static constexpr bool packs = false;

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"  // inlined, it is passed nothing
  LRA_INLINE static void add(Registers::Vector& sum, float left, const Registers::Vector& right) {
    using Words [[gnu::vector_size(64)]] = int32_t;
    const Words all = Words{} + std::bit_cast<int32_t>(left);
    sum = __builtin_ia32_dpbf16ps_v16sf(sum, (__m512bh)all, (__m512bh)right);  // of the same bits
  }
#pragma GCC diagnostic pop

  template <int64_t kRows, int64_t kVectors, bool kTransposed>
  [[gnu::noinline]] static void multiply_columns(int64_t m, int64_t depth, ConstMatrix a,
                                                 ConstMatrix b, Matrix c, GemmScale scale) {
    registers::multiply_columns<Bf16Pairs, kRows, kVectors, kTransposed>(m, depth, a, b, c, scale);
  }
};

__mmask16 first_of(int64_t count) {
  return static_cast<__mmask16>(count >= 16 ? 0xFFFF : (1 << count) - 1);
}

// Compilers do not find by themselves the instructions for 16 numbers at once, here and below. They
// take numbers below the least normal one for zero.
void round_row(const float* x, int64_t count, uint16_t* to) {
  for (int64_t i = 0; i < count; i += 16) {
    const __mmask16 some = first_of(count - i);
    const __m256bh numbers = _mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(some, x + i));
    _mm256_mask_storeu_epi16(to + i, some, reinterpret_cast<const __m256i&>(numbers));
  }
}

// Pairs of a row's neighbours, x [rows,columns] -> to [rows,pairs]; zeros stand beside an odd one
// out and after the last ones.
void pair_columns(ConstMatrix x, int64_t rows, int64_t columns, int64_t pairs, float* to) {
  auto* halves = reinterpret_cast<uint16_t*>(to);
  if (x.stride == columns && 2 * pairs == columns) return round_row(x.data, rows * columns, halves);
  for (int64_t r = 0; r < rows; ++r, halves += 2 * pairs) {
    round_row(x[r], columns, halves);
    std::memset(halves + columns, 0, static_cast<size_t>(2 * pairs - columns) * sizeof(*halves));
  }
}

// Pairs of a column's neighbours, x [rows,columns] -> to [pairs,columns]; likewise.
void pack_row_pairs(ConstMatrix x, int64_t rows, int64_t columns, int64_t pairs, Matrix to) {
  alignas(64) uint16_t order[32];
  for (int i = 0; i < 32; ++i) order[i] = static_cast<uint16_t>(i / 2 + i % 2 * 16);
  const __m512i in_turn = _mm512_load_si512(order);
  for (int64_t r = 0; r < rows; r += 2) {
    const bool odd_one_out = r + 1 == rows;
    const float *const low = x[r], *const high = odd_one_out ? low : x[r + 1];
    for (int64_t j = 0; j < columns; j += 16) {
      const __mmask16 some = first_of(columns - j), beside = odd_one_out ? 0 : some;
      const __m512bh both = _mm512_cvtne2ps_pbh(_mm512_maskz_loadu_ps(beside, high + j),
                                                _mm512_maskz_loadu_ps(some, low + j));
      const __m512i pair =
          _mm512_permutexvar_epi16(in_turn, reinterpret_cast<const __m512i&>(both));
      _mm512_mask_storeu_epi32(to[r / 2] + j, some, pair);
    }
  }
  for (int64_t p = (rows + 1) / 2; p < pairs; ++p) std::fill(to[p], to[p] + columns, 0.0F);
}

ConstMatrix block_at(ConstMatrix x, int64_t row, int64_t column) {
  return {x[row] + column, x.stride};
}

constexpr int64_t kTerms = 2 * kGemmDepth;

}  // namespace

void gemm_bf16_registers(Transposed transposed, int64_t m, int64_t n, int64_t k, ConstMatrix a,
                         ConstMatrix b, Matrix c, GemmScale scale) {
  Arena& arena = *detail::gemm_arena;
  const Arena::Frame frame(arena);
  const PairBlocks blocks(arena);
  for (int64_t done = 0; done < k; done += kTerms, scale.old = 1) {
    const int64_t depth = std::min(kTerms, k - done), pairs = (depth + 1) / 2;
    const auto pack = [&](int64_t j, int64_t columns) -> ConstMatrix {
      if (transposed != Transposed::b) {
        pack_row_pairs(block_at(b, done, j), depth, columns, pairs, {blocks.right, columns});
        return {blocks.right, columns};
      }
      const Matrix to{blocks.right, transposed_stride(columns)};
      pair_columns(block_at(b, j, done), columns, depth, pairs, blocks.rows);
      transpose({blocks.rows, pairs}, columns, pairs, to);
      return to;
    };
    for (int64_t i = 0; i < m; i += kGemmRows) {
      const int64_t rows = std::min(kGemmRows, m - i);
      if (transposed == Transposed::a) {
        pack_row_pairs(block_at(a, done, i), depth, rows, pairs, {blocks.left, rows});
      } else {
        pair_columns(block_at(a, i, done), rows, depth, pairs, blocks.left);
      }
      for (int64_t j = 0; j < n; j += kGemmColumns) {
        const int64_t columns = std::min(kGemmColumns, n - j);
        const registers::AsGiven right{pack(j, columns)};
        const Matrix to{c[i] + j, c.stride};
        if (transposed == Transposed::a) {
          registers::multiply_all<Bf16Pairs, true>(rows, columns, pairs, {blocks.left, rows}, right,
                                                   to, scale);
        } else {
          registers::multiply_all<Bf16Pairs, false>(rows, columns, pairs, {blocks.left, pairs},
                                                    right, to, scale);
        }
      }
    }
  }
}

}  // namespace lra::ops::cpu::LRA_ISA
