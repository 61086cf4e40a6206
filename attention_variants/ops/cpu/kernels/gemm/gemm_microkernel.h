// Products of small matrices by sums in registers: what gemm_f32.cpp and gemm_bf16_pairs.cpp make
// of it for each instruction set. `Code` says how wide its registers are (Registers), how many hold
// sums beside what is multiplied (sums), whether so narrow that blocks of b's columns are packed
// (packs), how the product of an element of a and a vector of b is added to one (add), and calls
// multiply_columns() (the same name), not inlined: within one function of all the blocks GCC's code
// for some is up to a fifth slower. Elements are 32 bits of any meaning.
#pragma once

#include <algorithm>

#include "attention_variants/ops/cpu/kernels/gemm/gemm.h"
#include "attention_variants/ops/cpu/kernels/gemm/gemm_scratch.h"
#include "attention_variants/ops/cpu/kernels/rows/simd.h"
#include "attention_variants/ops/cpu/kernels/rows/transpose.h"

namespace lra::ops::cpu::registers {

// So many terms of a sum at a time: that much of b, for one block of columns, stays in cache.
constexpr int64_t kDepth = kGemmDepth;

constexpr int64_t kRowsAtOnce = 8;  // at most; enough sums to wait for none

// kRows rows and kVectors vectors of columns of c, which are added up at once. a: [kRows,depth], or
// kTransposed [depth,kRows].
template <class Code, int64_t kRows, int64_t kVectors, bool kTransposed>
LRA_INLINE void micro_kernel(int64_t depth, ConstMatrix a, ConstMatrix b, Matrix c,
                             GemmScale scale) {
  using C = typename Code::Registers;
  using Vector = typename C::Vector;
  Vector sum[kRows][kVectors];
  // c may be far away, and is fetched meanwhile.
#pragma GCC unroll 16
  for (int64_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int64_t v = 0; v < kVectors; ++v) __builtin_prefetch(c[r] + v * C::width, 1);
  }
#pragma GCC unroll 16
  for (int64_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int64_t v = 0; v < kVectors; ++v) sum[r][v] = Vector{};
  }
  for (int64_t p = 0; p < depth; ++p) {
    Vector right[kVectors];
#pragma GCC unroll 4
    for (int64_t v = 0; v < kVectors; ++v) right[v] = C::at(b[p] + v * C::width);
#pragma GCC unroll 16
    for (int64_t r = 0; r < kRows; ++r) {
      const float left = kTransposed ? a[p][r] : a[r][p];
#pragma GCC unroll 4
      for (int64_t v = 0; v < kVectors; ++v) Code::add(sum[r][v], left, right[v]);
    }
  }
#pragma GCC unroll 16
  for (int64_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int64_t v = 0; v < kVectors; ++v) {
      Vector& to = C::at(c[r] + v * C::width);
      to = scale.old == 0 ? scale.product * sum[r][v] : scale.product * sum[r][v] + scale.old * to;
    }
  }
}

template <bool kTransposed>
LRA_INLINE ConstMatrix later_rows(ConstMatrix a, int64_t row) {
  return kTransposed ? ConstMatrix{a.data + row, a.stride} : a.from(row);
}

// The last rows, fewer than kRows + 1.
template <class Code, int64_t kRows, int64_t kVectors, bool kTransposed>
LRA_INLINE void multiply_rest(int64_t m, int64_t depth, ConstMatrix a, ConstMatrix b, Matrix c,
                              GemmScale scale) {
  if constexpr (kRows > 0) {
    if (m == kRows) return micro_kernel<Code, kRows, kVectors, kTransposed>(depth, a, b, c, scale);
    multiply_rest<Code, kRows - 1, kVectors, kTransposed>(m, depth, a, b, c, scale);
  }
}

// All rows of as many columns of c as a block has.
template <class Code, int64_t kRows, int64_t kVectors, bool kTransposed>
LRA_INLINE void multiply_columns(int64_t m, int64_t depth, ConstMatrix a, ConstMatrix b, Matrix c,
                                 GemmScale scale) {
  int64_t i = 0;
  for (; i + kRows <= m; i += kRows) {
    if constexpr (!kTransposed) prefetch_rows(a, i + 2 * kRows, kRows, depth);
    micro_kernel<Code, kRows, kVectors, kTransposed>(depth, later_rows<kTransposed>(a, i), b,
                                                     c.from(i), scale);
  }
  multiply_rest<Code, kRows - 1, kVectors, kTransposed>(m - i, depth, later_rows<kTransposed>(a, i),
                                                        b, c.from(i), scale);
}

// The last `count` columns, fewer than a vector has: of b with zeros beside them.
template <class Code, int64_t kRows, bool kTransposed>
LRA_INLINE void multiply_last_columns(int64_t m, int64_t count, int64_t depth, ConstMatrix a,
                                      ConstMatrix b, Matrix c, GemmScale scale) {
  using C = typename Code::Registers;
  alignas(64) float right[kDepth * C::width];
  for (int64_t p = 0; p < depth; ++p) {
    float* const to = right + p * C::width;
    std::copy(b[p], b[p] + count, to);
    std::fill(to + count, to + C::width, 0.0F);
  }
  for (int64_t i = 0; i < m; i += kRows) {
    alignas(64) float product[kRows * C::width] = {};
    const int64_t rows = std::min(kRows, m - i);
    if (scale.old != 0) copy_rows(c.from(i), rows, count, {product, C::width});
    Code::template multiply_columns<kRows, 1, kTransposed>(
        rows, depth, later_rows<kTransposed>(a, i), {right, C::width}, {product, C::width}, scale);
    copy_rows({product, C::width}, rows, count, c.from(i));
  }
}

LRA_INLINE Matrix at_column(Matrix x, int64_t j) { return {x.data + j, x.stride}; }

// The second operand as it is given, and kColumns columns at a time, [k,kColumns] after
// [k,kColumns] (the last one may be narrower). `panelled`: the rows of a block of columns lie side
// by side.
struct AsGiven {
  static constexpr bool panelled = false;
  ConstMatrix b;
  LRA_INLINE ConstMatrix at_column(int64_t j) const { return {b.data + j, b.stride}; }
  LRA_INLINE AsGiven from(int64_t row) const { return {b.from(row)}; }
};
template <int64_t kColumns>
struct Panels {
  static constexpr bool panelled = true;
  const float* data;
  int64_t k;
  LRA_INLINE ConstMatrix at_column(int64_t j) const {
    return {data + j / kColumns * kColumns * k + j % kColumns, kColumns};
  }
  LRA_INLINE Panels from(int64_t row) const { return {data + row * kColumns, k}; }
};

// A block of columns of b, side by side: rows that are some powers of two apart fall into the same
// few sets of the cache, where each block of rows of a would miss them again.
template <class C, int64_t kColumns>
LRA_INLINE ConstMatrix pack(ConstMatrix b, int64_t depth, float* packed) {
  for (int64_t p = 0; p < depth; ++p) {
    for (int64_t v = 0; v < kColumns; v += C::width)
      C::at(packed + p * kColumns + v) = C::at(b[p] + v);
  }
  return {packed, kColumns};
}

template <class Code, bool kTransposed, class B>
LRA_INLINE void multiply_all(int64_t m, int64_t n, int64_t k, ConstMatrix a, B b, Matrix c,
                             GemmScale scale) {
  using C = typename Code::Registers;
  int64_t done = 0;
  do {  // c is written even where there is no term
    const int64_t depth = std::min(kDepth, k - done);
    int64_t j = 0;
    const auto blocks = [&]<int64_t kVectors>() __attribute__((always_inline)) {
      constexpr int64_t kRows = std::min(Code::sums / kVectors, kRowsAtOnce),
                        kColumns = kVectors * C::width;
      constexpr bool kPacks = Code::packs && !B::panelled;
      for (; j + kColumns <= n; j += kColumns) {
        alignas(64) float packed[kPacks ? kDepth * kColumns : 1];
        ConstMatrix right = b.at_column(j);
        if (kPacks && m >= 4 * kRows) right = pack<C, kColumns>(right, depth, packed);
        Code::template multiply_columns<kRows, kVectors, kTransposed>(m, depth, a, right,
                                                                      at_column(c, j), scale);
      }
    };
    if constexpr (Code::sums >= 24) blocks.template operator()<4>();
    blocks.template operator()<2>();
    blocks.template operator()<1>();
    if (j < n) {
      multiply_last_columns<Code, kRowsAtOnce, kTransposed>(m, n - j, depth, a, b.at_column(j),
                                                            at_column(c, j), scale);
    }
    done += depth;
    a = later_rows<!kTransposed>(a, depth);
    b = b.from(depth);
    scale.old = 1;
  } while (done < k);
}

}  // namespace lra::ops::cpu::registers
