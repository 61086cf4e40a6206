// Products of bfloat16 matrices in the tile registers of AMX, for the instruction set that rounds
// to bfloat16 (AVX-512 BF16) alone. Operands are packed into tiles of 16 rows of 32 numbers, 1 KiB
// each: of the left one 16 of its rows, of the right one 16 pairs of its rows, so that a column's
// neighbours stand beside each other.
#include <immintrin.h>

#include <algorithm>
#include <cstdint>

#include "attention_variants/ops/cpu/kernels/gemm/gemm_bf16.h"
#include "attention_variants/ops/cpu/kernels/gemm/gemm_isa.h"
#include "attention_variants/ops/cpu/kernels/gemm/gemm_scratch.h"
#include "attention_variants/ops/cpu/kernels/gemm/tile_registers.h"

namespace lra::ops::cpu::LRA_ISA {
namespace {

constexpr int64_t kSide = 16, kTerms = 2 * kSide;  // of a tile
constexpr int64_t kTile = kSide * kSide;           // its elements: floats, or pairs of bfloat16
constexpr int64_t kTermsAtOnce = 2 * kGemmDepth;

int64_t tiles_in(int64_t count, int64_t of) { return (count + of - 1) / of; }

__mmask16 first_of(int64_t count) {
  return static_cast<__mmask16>(count >= kSide ? 0xFFFF : count <= 0 ? 0 : (1 << count) - 1);
}

// A tile in vector registers.
struct Rows {
  __m512i of[kSide];
};

// The transposed one: pairs of rows, then four, then four by four. The masked forms, because GCC 12
// warns of the others' undefined operand.
LRA_INLINE void turn(Rows& x) {
  constexpr __mmask16 kAll = 0xFFFF;
  constexpr __mmask8 kAllPairs = 0xFF;
  constexpr int kEven = 0x88, kOdd = 0xDD;  // of the four parts of two registers
  Rows y;
  for (int i = 0; i < kSide; i += 4) {
    const __m512i low = _mm512_maskz_unpacklo_epi32(kAll, x.of[i], x.of[i + 1]),
                  high = _mm512_maskz_unpackhi_epi32(kAll, x.of[i], x.of[i + 1]),
                  next_low = _mm512_maskz_unpacklo_epi32(kAll, x.of[i + 2], x.of[i + 3]),
                  next_high = _mm512_maskz_unpackhi_epi32(kAll, x.of[i + 2], x.of[i + 3]);
    y.of[i] = _mm512_maskz_unpacklo_epi64(kAllPairs, low, next_low);
    y.of[i + 1] = _mm512_maskz_unpackhi_epi64(kAllPairs, low, next_low);
    y.of[i + 2] = _mm512_maskz_unpacklo_epi64(kAllPairs, high, next_high);
    y.of[i + 3] = _mm512_maskz_unpackhi_epi64(kAllPairs, high, next_high);
  }
  for (int i = 0; i < 4; ++i) {
    const __m512i even = _mm512_maskz_shuffle_i32x4(kAll, y.of[i], y.of[i + 4], kEven),
                  odd = _mm512_maskz_shuffle_i32x4(kAll, y.of[i], y.of[i + 4], kOdd),
                  next_even = _mm512_maskz_shuffle_i32x4(kAll, y.of[i + 8], y.of[i + 12], kEven),
                  next_odd = _mm512_maskz_shuffle_i32x4(kAll, y.of[i + 8], y.of[i + 12], kOdd);
    x.of[i] = _mm512_maskz_shuffle_i32x4(kAll, even, next_even, kEven);
    x.of[i + 8] = _mm512_maskz_shuffle_i32x4(kAll, even, next_even, kOdd);
    x.of[i + 4] = _mm512_maskz_shuffle_i32x4(kAll, odd, next_odd, kEven);
    x.of[i + 12] = _mm512_maskz_shuffle_i32x4(kAll, odd, next_odd, kOdd);
  }
}

LRA_INLINE __m512i rounded(__m512 low, __m512 high) {
  const __m512bh both = _mm512_cvtne2ps_pbh(high, low);
  return reinterpret_cast<const __m512i&>(both);
}

// 32 neighbours of a row, zeros after the first `count`.
LRA_INLINE __m512i neighbours_in_row(const float* x, int64_t count) {
  return rounded(_mm512_maskz_loadu_ps(first_of(count), x),
                 _mm512_maskz_loadu_ps(first_of(count - kSide), x + kSide));
}

// Of 16 columns the numbers of two rows, one beside the other.
LRA_INLINE __m512i neighbours_in_column(__m512 low, __m512 high, __m512i in_turn) {
  return _mm512_permutexvar_epi16(in_turn, rounded(low, high));
}

// An operand: rows that lie side by side, or one below the other, and the terms of their sums.
struct Operand {
  ConstMatrix x;
  bool rows_are_columns;

  Operand from(int64_t row, int64_t term) const {
    return {rows_are_columns ? ConstMatrix{x[term] + row, x.stride}
                             : ConstMatrix{x[row] + term, x.stride},
            rows_are_columns};
  }
};

LRA_INLINE __m512i in_turn() {
  alignas(64) uint16_t order[kTerms];
  for (int i = 0; i < kTerms; ++i) order[i] = static_cast<uint16_t>(i / 2 + i % 2 * kSide);
  return _mm512_load_si512(order);
}

// Rows in tiles [rows/kSide,terms/kTerms], filled up by zeros of terms; what stands in the rows
// behind the last one gives sums that nobody reads. Row by row, as they lie: the cache fetches
// ahead along them.
void pack_rows(ConstMatrix x, int64_t rows, int64_t terms, float* to) {
  const int64_t depth = tiles_in(terms, kTerms), whole = terms / kTerms;
  for (int64_t r = 0; r < rows; ++r) {
    const float* const from = x[r];
    float* const first = to + (r / kSide * depth * kSide + r % kSide) * kSide;
    for (int64_t t = 0; t < whole; ++t) {
      const float* const here = from + t * kTerms;
      _mm512_store_si512(first + t * kTile,
                         rounded(_mm512_loadu_ps(here), _mm512_loadu_ps(here + kSide)));
    }
    if (whole < depth)
      _mm512_store_si512(first + whole * kTile,
                         neighbours_in_row(from + whole * kTerms, terms - whole * kTerms));
  }
}

// Pairs of terms in tiles [columns/kSide,terms/kTerms], likewise; zeros in columns behind the last.
void pack_pairs(ConstMatrix x, int64_t columns, int64_t terms, float* to) {
  const __m512i order = in_turn();
  const int64_t depth = tiles_in(terms, kTerms), whole = columns / kSide;
  for (int64_t p = 0; p < depth * kSide; ++p) {
    float* const first = to + p * kSide;
    const auto keep = [&](int64_t tile, __m512 low, __m512 high) {
      _mm512_store_si512(first + tile * depth * kTile, neighbours_in_column(low, high, order));
    };
    const auto row_or_none = [&](int64_t term) { return term < terms ? x[term] : nullptr; };
    const float *const low = row_or_none(2 * p), *const high = row_or_none(2 * p + 1);
    if (high != nullptr) {
      for (int64_t j = 0; j < whole; ++j)
        keep(j, _mm512_loadu_ps(low + j * kSide), _mm512_loadu_ps(high + j * kSide));
    }
    for (int64_t j = high == nullptr ? 0 : whole; j < tiles_in(columns, kSide); ++j) {
      const auto part = [&](const float* row) {
        return row == nullptr
                   ? _mm512_setzero_ps()
                   : _mm512_maskz_loadu_ps(first_of(columns - j * kSide), row + j * kSide);
      };
      keep(j, part(low), part(high));
    }
  }
}

// The same of what lies the other way: x [terms,rows] in tiles of rows.
void pack_columns(ConstMatrix x, int64_t rows, int64_t terms, float* to) {
  const __m512i order = in_turn();
  for (int64_t row = 0; row < rows; row += kSide) {
    const __mmask16 some = first_of(rows - row);
    for (int64_t term = 0; term < terms; term += kTerms, to += kTile) {
      Rows packed;
      const auto part = [&](int64_t at) {
        return at < terms ? _mm512_maskz_loadu_ps(some, x[at] + row) : _mm512_setzero_ps();
      };
      for (int64_t p = 0; p < kSide; ++p)
        packed.of[p] = neighbours_in_column(part(term + 2 * p), part(term + 2 * p + 1), order);
      turn(packed);
      for (int64_t r = 0; r < kSide; ++r) _mm512_store_si512(to + r * kSide, packed.of[r]);
    }
  }
}

// And x [columns,terms] in tiles of pairs of terms.
void pack_pairs_of_rows(ConstMatrix x, int64_t columns, int64_t terms, float* to) {
  for (int64_t column = 0; column < columns; column += kSide) {
    for (int64_t term = 0; term < terms; term += kTerms, to += kTile) {
      Rows packed;
      for (int64_t r = 0; r < kSide; ++r)
        packed.of[r] = column + r < columns ? neighbours_in_row(x[column + r] + term, terms - term)
                                            : _mm512_setzero_si512();
      turn(packed);
      for (int64_t r = 0; r < kSide; ++r) _mm512_store_si512(to + r * kSide, packed.of[r]);
    }
  }
}

// As the left operand of tiles: a row of a tile is one of the operand's.
void pack_left(const Operand& from, int64_t rows, int64_t terms, float* to) {
  (from.rows_are_columns ? pack_columns : pack_rows)(from.x, rows, terms, to);
}

// As the right one: a row of a tile is a pair of terms.
void pack_right(const Operand& from, int64_t rows, int64_t terms, float* to) {
  (from.rows_are_columns ? pack_pairs : pack_pairs_of_rows)(from.x, rows, terms, to);
}

// Where a block of sums goes.
struct Target {
  Matrix c;
  bool turned;  // cᵀ is computed
  GemmScale scale;

  Matrix at(int64_t row, int64_t column) const {
    return turned ? Matrix{c[column] + row, c.stride} : Matrix{c[row] + column, c.stride};
  }
  // What sums begin with.
  bool begins_with_old() const { return scale.product == 1 && scale.old == 1; }
  // Whether they need no more than to be stored.
  bool takes_sums() const {
    return !turned && scale.product == 1 && (scale.old == 0 || scale.old == 1);
  }
};

// A tile's sums and what of them counts.
struct Corner {
  Matrix c;  // as it lies
  int64_t rows, columns;
};

Corner corner(const Target& target, int64_t row, int64_t column, int64_t rows, int64_t columns) {
  const int64_t r = std::min(kSide, rows - row), n = std::min(kSide, columns - column);
  return {target.at(row, column), target.turned ? n : r, target.turned ? r : n};
}

void read_sums(const Corner& from, bool turned, float* to) {
  Rows x;
  const __mmask16 some = first_of(from.columns);
  for (int64_t r = 0; r < kSide; ++r)
    x.of[r] = r < from.rows ? _mm512_maskz_loadu_epi32(some, from.c[r]) : _mm512_setzero_si512();
  if (turned) turn(x);
  for (int64_t r = 0; r < kSide; ++r) _mm512_store_si512(to + r * kSide, x.of[r]);
}

void write_sums(const float* from, const Target& target, const Corner& to) {
  Rows x;
  for (int64_t r = 0; r < kSide; ++r) x.of[r] = _mm512_load_si512(from + r * kSide);
  if (target.turned) turn(x);
  const __mmask16 some = first_of(to.columns);
  const GemmScale scale = target.begins_with_old() ? GemmScale{} : target.scale;
  const __m512 product = _mm512_set1_ps(scale.product), old = _mm512_set1_ps(scale.old);
  for (int64_t r = 0; r < to.rows; ++r) {
    __m512 sums = _mm512_castsi512_ps(x.of[r]);
    if (scale.old != 0) {
      const __m512 before = _mm512_maskz_loadu_ps(some, to.c[r]);
      sums = _mm512_fmadd_ps(product, sums, _mm512_mul_ps(old, before));
    } else if (scale.product != 1) {
      sums = _mm512_mul_ps(product, sums);
    }
    _mm512_mask_storeu_ps(to.c[r], some, sums);
  }
}

// A block of kRows by kColumns tiles of sums, from tiles of `left` and `right` that point at the
// first of as many rows of tiles, `depth` each.
template <int kRows, int kColumns, class Registers>
LRA_INLINE void add_tiles(Registers& registers, bool begin_with_old, int64_t depth,
                          const float* left, const float* right, const TilePlaces& sums) {
  registers.template begin<kRows, kColumns>(begin_with_old, sums);
  for (int64_t d = 0; d < depth; ++d)
    registers.template add<kRows, kColumns>(left + d * kTile, right + d * kTile, depth * kTile);
  registers.template end<kRows, kColumns>(sums);
}

// The block at (row, column) of a target, of whose `rows` and `columns` it may have some alone.
template <int kRows, int kColumns, class Registers>
void multiply_corner(Registers& registers, int64_t depth, const float* left, const float* right,
                     const Target& target, int64_t row, int64_t column, int64_t rows,
                     int64_t columns) {
  constexpr int kCount = kRows * kColumns;
  const bool old = target.begins_with_old();
  alignas(64) float sums[kCount][kTile];
  Corner corners[kCount];
  for (int i = 0; i < kCount; ++i) {
    corners[i] =
        corner(target, row + i / kColumns * kSide, column + i % kColumns * kSide, rows, columns);
    if (old) read_sums(corners[i], target.turned, sums[i]);
  }
  add_tiles<kRows, kColumns>(registers, old, depth, left, right,
                             {sums[0], kSide, kColumns * kTile, kTile});
  for (int i = 0; i < kCount; ++i) write_sums(sums[i], target, corners[i]);
}

// Of all rows, at most kGemmRows, and columns, at most TileBlocks::kColumns, that are packed: two
// by two tiles, along rows of the result, which lie one behind the other.
template <class Registers, bool kOld>
void multiply_panel(Registers& registers, int64_t depth, const float* left, const float* right,
                    const Target& target, int64_t rows, int64_t columns) {
  constexpr int64_t kBlock = 2 * kSide;
  using Multiply = decltype(multiply_corner<1, 1, Registers>);
  static constexpr Multiply* kOf[2][2] = {
      {multiply_corner<1, 1, Registers>, multiply_corner<1, 2, Registers>},
      {multiply_corner<2, 1, Registers>, multiply_corner<2, 2, Registers>}};
  const Matrix c = target.c;
  const bool stores = target.takes_sums();
  for (int64_t i = 0; i < rows; i += kBlock) {
    const float* const block = left + i / kSide * depth * kTile;
    const int64_t whole = stores && i + kBlock <= rows ? columns / kBlock * kBlock : 0;
    for (int64_t j = 0; j < whole; j += kBlock)
      add_tiles<2, 2>(registers, kOld, depth, block, right + j / kSide * depth * kTile,
                      {c[i] + j, c.stride, kSide * c.stride, kSide});
    for (int64_t j = whole; j < columns; j += kBlock)
      kOf[i + kSide < rows][j + kSide < columns](
          registers, depth, block, right + j / kSide * depth * kTile, target, i, j, rows, columns);
  }
}

// target [m,n] of left [m,k] and right [n,k].
template <class Registers>
void multiply(int64_t m, int64_t n, int64_t k, const Operand& left, const Operand& right,
              Target target) {
  Arena& arena = *detail::gemm_arena;
  const Arena::Frame frame(arena);
  const TileBlocks blocks(arena);
  Registers registers;
  for (int64_t done = 0; done < k; done += kTermsAtOnce, target.scale.old = 1) {
    const int64_t terms = std::min(kTermsAtOnce, k - done), depth = tiles_in(terms, kTerms);
    for (int64_t i = 0; i < m; i += kGemmRows) {
      const int64_t rows = std::min(kGemmRows, m - i);
      pack_left(left.from(i, done), rows, terms, blocks.left);
      for (int64_t j = 0; j < n; j += TileBlocks::kColumns) {
        const int64_t columns = std::min(TileBlocks::kColumns, n - j);
        pack_right(right.from(j, done), columns, terms, blocks.right);
        const Target to{target.at(i, j), target.turned, target.scale};
        const auto multiply_all = to.begins_with_old() ? multiply_panel<Registers, true>
                                                       : multiply_panel<Registers, false>;
        multiply_all(registers, depth, blocks.left, blocks.right, to, rows, columns);
      }
    }
  }
}

// A turned operand costs about as much a number as half a number of a turned result does.
template <class Registers>
void multiply(Transposed transposed, int64_t m, int64_t n, int64_t k, ConstMatrix a, ConstMatrix b,
              Matrix c, GemmScale scale) {
  const bool ta = transposed == Transposed::a, tb = transposed == Transposed::b;
  const Operand left{a, ta}, right{b, !tb};
  const int64_t saved = ta ? m - n : tb ? n - m : 0;
  if (k * saved > 2 * m * n)
    return multiply<Registers>(n, m, k, right, left, {c, /*turned=*/true, scale});
  multiply<Registers>(m, n, k, left, right, {c, /*turned=*/false, scale});
}

}  // namespace

void gemm_bf16_tiles(Transposed transposed, int64_t m, int64_t n, int64_t k, ConstMatrix a,
                     ConstMatrix b, Matrix c, GemmScale scale) {
  multiply<AmxRegisters>(transposed, m, n, k, a, b, c, scale);
}

void gemm_bf16_emulated_tiles(Transposed transposed, int64_t m, int64_t n, int64_t k, ConstMatrix a,
                              ConstMatrix b, Matrix c, GemmScale scale) {
  multiply<EmulatedRegisters>(transposed, m, n, k, a, b, c, scale);
}

}  // namespace lra::ops::cpu::LRA_ISA
