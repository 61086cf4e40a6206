// Softmaxes over the rows of a tile of scores, one for each column: what a softmax holds, its
// largest score and its sum, then stays in registers from row to row, and nothing is added up
// across a register. Scores are of base 2: softmax weights are powers of two of them, so that
// whoever makes them multiplies by kLog2E.
#pragma once

#include <array>
#include <cstdint>

#include "attention_variants/kernels/cpu/dropout_bits.h"
#include "attention_variants/kernels/cpu/matrix.h"

namespace lra::cpu {

inline constexpr float kLog2E = 1.44269504F;

/// Positions a tile: with 64 landmarks, scores and their gradients take 128 KiB.
inline constexpr int64_t kTile = 256;

/// A dropout of the weights between the landmarks, at most kDropoutBlock of them, and the
/// positions: each position has a block of bits (dropout_bits.h), and landmark j its bit j.
struct WeightDropout {
  uint64_t seed = 0;
  uint32_t threshold = 0;   // of 65536: the share that is dropped; 0 = nothing is
  int64_t first_block = 0;  // the first position's
};

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

/// What of a tile's rows takes part: those where `mask` is true (null = all), and of their weights
/// those that `bits`, kDropoutHalves a row (null = all), keep.
struct TileRows {
  int64_t rows;
  const bool* mask = nullptr;
  const uint16_t* bits = nullptr;
};

/// Tile by tile: s [rows,columns] becomes the powers of s - top, zero where a weight is dropped or
/// a row masked; top and sum [columns] take the tile in, dropped weights too; shrink [columns] is
/// what earlier results have to be multiplied by.
void running_columns(Matrix s, const TileRows& of, int64_t columns, float* top, float* sum,
                     float* shrink);

/// s [rows,columns] becomes probabilities, given log_sum [columns] (of base 2); zero where a row is
/// masked. Where weights are dropped, kept [rows,columns] gets those that are not, and zeros.
void column_probabilities(Matrix s, const TileRows& of, int64_t columns, const float* log_sum,
                          Matrix kept);

/// grad [rows,columns], the gradient of what was kept of p [rows,columns], becomes
/// scale p (grad - dot), dot [columns].
void column_gradient(ConstMatrix p, Matrix grad, const TileRows& of, int64_t columns,
                     const float* dot, float scale);

/// s [m,columns] becomes the powers of s - top, 0 in rows where bias [m] is not 0; of each column,
/// top [columns] gets the largest score, and inverse [columns] one over the sum of what s becomes.
void exponential_columns(Matrix s, int64_t m, int64_t columns, const float* bias, float* top,
                         float* inverse);

/// s [m,columns], the scores that exponential_columns() was given, become softmaxes, and grad
/// [m,columns], their gradient, scale times that of the scores of base e.
void columns_backward(Matrix s, Matrix grad, int64_t m, int64_t columns, const float* bias,
                      const float* top, const float* inverse, float scale);

}  // namespace lra::cpu
