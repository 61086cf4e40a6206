// Products of pairs of bfloat16 numbers, for the instruction set that has them (AVX-512 BF16)
// alone.
#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "attention_variants/ops/cpu/kernels/gemm/gemm_bf16.h"
#include "attention_variants/ops/cpu/kernels/gemm/gemm_isa.h"
#include "attention_variants/ops/cpu/kernels/gemm/gemm_microkernel.h"
#include "attention_variants/ops/cpu/kernels/gemm/gemm_scratch.h"
#include "attention_variants/ops/cpu/kernels/gemm/onednn.h"

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

namespace {

int64_t filled_up(int64_t count, int64_t to_multiple) {
  return (count + to_multiple - 1) / to_multiple * to_multiple;
}

// c = product * sums + old * c, rounded likewise in all columns
void add_scaled(int64_t m, int64_t n, ConstMatrix sums, Matrix c, GemmScale scale) {
  for (int64_t r = 0; r < m; ++r) {
    const float* const from = sums[r];
    float* const to = c[r];
    if (scale.old == 0) {
      for (int64_t j = 0; j < n; ++j) to[j] = scale.product * from[j];
    } else {
      for (int64_t j = 0; j < n; ++j) to[j] = std::fma(scale.product, from[j], scale.old * to[j]);
    }
  }
}

constexpr int64_t kFull = 32;

// The product of a block of a's rows and depth: pairs, `left` [rows filled up,pairs]; b is from the
// block's first term on.
void multiply_panels(bool b_transposed, int64_t m, int64_t n, int64_t k, const float* left,
                     ConstMatrix b, Matrix c, GemmScale scale, Arena& arena) {
  const Arena::Frame frame(arena);
  const PanelBlocks blocks(arena);
  const int64_t depth = filled_up(k, kFull), pairs = depth / 2;
  const Matrix panel{blocks.panel, kGemmColumns}, sums{blocks.sums, kGemmColumns};
  const bool plain = scale.product == 1 && scale.old == 0 && c.stride % kFull == 0;
  for (int64_t j = 0; j < n; j += kGemmColumns) {
    const int64_t columns = std::min(kGemmColumns, n - j), wide = filled_up(columns, kFull),
                  direct = plain && columns == wide ? m / kFull * kFull : 0;
    if (b_transposed) {
      pair_columns(b.from(j), columns, k, pairs, blocks.rows);
      transpose({blocks.rows, pairs}, columns, pairs, panel);
    } else {
      pack_row_pairs(block_at(b, 0, j), k, columns, pairs, panel);
    }
    const auto multiply_rows = [&](int64_t begin, int64_t end, Matrix to) {
      if (begin == end) return;
      onednn::multiply_bfloat16(end - begin, wide, depth, {left + begin * pairs, pairs}, panel, to);
    };
    const Matrix to = {c.data + j, c.stride};
    multiply_rows(0, direct, to);
    if (direct == m) continue;
    multiply_rows(direct, filled_up(m, kFull), sums);
    add_scaled(m - direct, columns, sums, to.from(direct), scale);
  }
}

}  // namespace

// For every shape and stride oneDNN compiles code and keeps it: rows, columns and the terms of a
// sum are filled up to multiples of 32, and go apart where c has no room for them, which leaves
// few. b goes in panels of as many columns as oneDNN packs at most.
void gemm_bf16_onednn(Transposed transposed, int64_t m, int64_t n, int64_t k, ConstMatrix a,
                      ConstMatrix b, Matrix c, GemmScale scale) {
  Arena& arena = *detail::gemm_arena;
  const Arena::Frame frame(arena);
  float* const left = arena.take(kGemmRows * kGemmDepth);
  const bool b_transposed = transposed == Transposed::b;
  for (int64_t done = 0; done < k; done += kTerms, scale.old = 1) {
    const int64_t depth = std::min(kTerms, k - done), pairs = filled_up(depth, kFull) / 2;
    for (int64_t i = 0; i < m; i += kGemmRows) {
      const int64_t rows = std::min(kGemmRows, m - i);
      if (transposed == Transposed::a) {
        const Arena::Frame turning(arena);
        float* const columns = arena.take(kGemmRows * kGemmDepth);
        pack_row_pairs(block_at(a, done, i), depth, rows, pairs, {columns, rows});
        transpose({columns, rows}, pairs, rows, {left, pairs});
      } else {
        pair_columns(block_at(a, i, done), rows, depth, pairs, left);
      }
      multiply_panels(b_transposed, rows, n, depth, left,
                      b_transposed ? block_at(b, 0, done) : b.from(done), c.from(i), scale, arena);
    }
  }
  onednn::release();  // others on this thread shape tiles as they need them
}

}  // namespace lra::ops::cpu::LRA_ISA
