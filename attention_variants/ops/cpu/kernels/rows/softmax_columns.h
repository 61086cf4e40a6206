// Softmaxes over the rows of a tile of scores, one for each column: what a softmax holds, its
// largest score and its sum, then stays in registers from row to row, and nothing is added up
// across a register. The caller scales scores by log2 e: weights are powers of two.
#pragma once

#include <array>
#include <cstdint>

#include "attention_variants/ops/cpu/kernels/rows/dropout_bits.h"
#include "attention_variants/ops/cpu/kernels/rows/matrix.h"

namespace lra::ops::cpu {

/// Positions a tile: with 64 landmarks, scores and their gradients take 136 KiB.
inline constexpr int64_t kTile = 256;

/// A dropout of the weights between a tile's rows, positions, and its columns, at most
/// kDropoutBlock landmarks: each position has a block of bits (dropout_bits.h), and landmark j its
/// bit j.
struct WeightDropout {
  uint64_t seed = 0;
  uint32_t threshold = 0;   // of 65536: the share that is dropped; 0 = nothing is
  int64_t first_block = 0;  // the first position's
};

/// Of each softmax the largest score and one over the sum of the exponentials above it. Never
/// max + log(sum) in one float, which at scores of 1e5 is off by 1 % of the sum.
struct SoftmaxStats {
  float* max = nullptr;
  float* inverse_sum = nullptr;

  LRA_INLINE SoftmaxStats from(int64_t softmax) const {
    return {max + softmax, inverse_sum + softmax};
  }
};

/// What of a tile's rows takes part: those where `mask` is true (null = all), and of their weights
/// those that `bits`, kDropoutHalves a row (null = all), keep.
struct TileRows {
  int64_t rows;
  const bool* mask = nullptr;
  const uint16_t* bits = nullptr;
};

}  // namespace lra::ops::cpu

namespace lra::ops::LRA_KERNELS {

/// The bits of a tile's rows, those of positions from `begin` on.
class TileDropout {
 public:
  TileDropout(const WeightDropout& dropout, int64_t begin, int64_t rows);
  /// Null where nothing is dropped.
  const uint16_t* bits() const { return drops_ ? bits_.data() : nullptr; }
  /// What the weights that are kept have to be multiplied by.
  float scale() const { return scale_; }

 private:
  bool drops_;
  float scale_;
  std::array<uint16_t, kTile * kDropoutHalves> bits_;
};

/// Tile by tile: s [rows,columns] becomes the powers of s - column_max, zero where a weight is
/// dropped or a row masked; column_max and sums [columns] take the tile in, dropped weights too;
/// rescale [columns] is what earlier results have to be multiplied by.
void online_softmax_columns(Matrix s, const TileRows& of, int64_t columns, float* column_max,
                            float* sums, float* rescale);

/// s [rows,columns] becomes probabilities, given the largest score and one over the sum of each of
/// the columns; zero where a row is masked. Where weights are dropped, kept [rows,columns] gets
/// those that are not, and zeros.
void column_probabilities(Matrix s, const TileRows& of, int64_t columns, const SoftmaxStats& stats,
                          Matrix kept);

/// grad [rows,columns], the gradient of what was kept of p [rows,columns], becomes
/// scale p (grad - dot), dot [columns]; where a row is masked p is zero, and grad has to be finite.
void column_gradient(ConstMatrix p, Matrix grad, const TileRows& of, int64_t columns,
                     const float* dot, float scale);

/// s [m,columns] becomes the powers of s - column_max, 0 in rows where bias [m] is not 0; of each
/// column, column_max [columns] gets the largest score, and inverse [columns] one over the sum of
/// what s becomes.
void exp_columns(Matrix s, int64_t m, int64_t columns, const float* bias, float* column_max,
                 float* inverse);

/// s [m,columns], the scores that exp_columns() was given, become softmaxes, and grad
/// [m,columns], their gradient, scale times that of the scores of base e.
void columns_backward(Matrix s, Matrix grad, int64_t m, int64_t columns, const float* bias,
                      const float* column_max, const float* inverse, float scale);

}  // namespace lra::ops::LRA_KERNELS
