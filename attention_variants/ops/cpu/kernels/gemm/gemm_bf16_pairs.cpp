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

}  // namespace

void gemm_bf16_registers(Transposed transposed, int64_t m, int64_t n, int64_t k, ConstMatrix a,
                         ConstMatrix b, Matrix c, GemmScale scale) {
  const int64_t pairs = (k + 1) / 2;
  const int64_t stride = transposed == Transposed::b ? transposed_stride(n) : n;
  float *const x = gemm_buffer(GemmBuffer::left, m * pairs), *const y = gemm_buffer(
                                                                 GemmBuffer::right, pairs * stride);
  if (transposed == Transposed::b) {
    float* const rows = gemm_buffer(GemmBuffer::transposed, n * pairs);
    pair_columns(b, n, k, pairs, rows);
    transpose({rows, pairs}, n, pairs, {y, stride});
  } else {
    pack_row_pairs(b, k, n, pairs, {y, n});
  }
  const registers::AsGiven right_rows{{y, stride}};
  if (transposed == Transposed::a) {
    pack_row_pairs(a, k, m, pairs, {x, m});
    return registers::multiply_all<Bf16Pairs, true>(m, n, pairs, {x, m}, right_rows, c, scale);
  }
  pair_columns(a, m, k, pairs, x);
  registers::multiply_all<Bf16Pairs, false>(m, n, pairs, {x, pairs}, right_rows, c, scale);
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

}  // namespace

// For every shape and stride oneDNN compiles code and keeps it: rows, columns and the terms of a
// sum are filled up to multiples of 32, and go apart where c has no room for them, which leaves
// few. b goes in panels of as many columns as oneDNN packs at most.
void gemm_bf16_onednn(Transposed transposed, int64_t m, int64_t n, int64_t k, ConstMatrix a,
                      ConstMatrix b, Matrix c, GemmScale scale) {
  constexpr int64_t kFull = 32, kPanel = 64;
  const int64_t rows = filled_up(m, kFull), depth = filled_up(k, kFull), pairs = depth / 2,
                panels = filled_up(n, kPanel);
  float *const x = gemm_buffer(GemmBuffer::left, rows * pairs),
               *const y = gemm_buffer(GemmBuffer::right, pairs * panels),
               *const sums = gemm_buffer(GemmBuffer::sums, rows * kPanel);
  if (transposed == Transposed::a) {
    float* const columns = gemm_buffer(GemmBuffer::transposed, pairs * m);
    pack_row_pairs(a, k, m, pairs, {columns, m});
    transpose({columns, m}, pairs, m, {x, pairs});
  } else {
    pair_columns(a, m, k, pairs, x);
  }
  const auto pack = [&](int64_t j, int64_t columns, Matrix panel) {
    if (transposed != Transposed::b)
      return pack_row_pairs({b.data + j, b.stride}, k, columns, pairs, panel);
    float* const as_rows = gemm_buffer(GemmBuffer::transposed, columns * pairs);
    pair_columns(b.from(j), columns, k, pairs, as_rows);
    transpose({as_rows, pairs}, columns, pairs, panel);
  };
  const bool plain = scale.product == 1 && scale.old == 0 && c.stride % kFull == 0;
  for (int64_t j = 0; j < n; j += kPanel) {
    const int64_t columns = std::min(kPanel, n - j), wide = filled_up(columns, kFull),
                  direct = plain && columns == wide ? m / kFull * kFull : 0;
    float* const panel = y + j * pairs;
    pack(j, columns, {panel, kPanel});
    const auto multiply_rows = [&](int64_t begin, int64_t end, Matrix to) {
      if (begin == end) return;
      onednn::multiply_bfloat16(end - begin, wide, depth, {x + begin * pairs, pairs},
                                {panel, kPanel}, to);
    };
    const Matrix to = {c.data + j, c.stride};
    multiply_rows(0, direct, to);
    if (direct == m) continue;
    multiply_rows(direct, rows, {sums, kPanel});
    add_scaled(m - direct, columns, {sums, kPanel}, to.from(direct), scale);
  }
  onednn::release();  // others on this thread shape tiles as they need them
}

}  // namespace lra::ops::cpu::LRA_ISA
