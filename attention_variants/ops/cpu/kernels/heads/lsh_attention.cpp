#include "attention_variants/ops/cpu/kernels/heads/lsh_attention.h"

#include <algorithm>
#include <limits>

#include "attention_variants/ops/cpu/kernels/gemm/gemm.h"
#include "attention_variants/ops/cpu/kernels/heads/lsh_ring.h"
#include "attention_variants/ops/cpu/kernels/rows/padding.h"
#include "attention_variants/ops/cpu/kernels/rows/row_ops.h"
#include "attention_variants/ops/cpu/kernels/rows/vector_math.h"

namespace lra::ops::cpu::LRA_ISA {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// scores [rows,keys], products of x, become exp(score - top), where a query's own position gives
// kSelfScore; top and sum [rows] of them.
void weights_of(float* scores, int64_t rows, int64_t keys, const float* scale, const float* bias,
                const int32_t* at, const int32_t* asking, float* top, float* sum) {
  for (int64_t r = 0; r < rows; ++r) {
    float* row = scores + r * keys;
    const int32_t self = asking[r];
    for (int64_t c = 0; c < keys; ++c) {
      const float score = row[c] * scale[c] + bias[c];
      row[c] = at[c] == self ? kSelfScore : score;
    }
    const float most = largest(row, keys);
    top[r] = most;
    sum[r] = exponentials(row, keys, 1, most);
  }
}

}  // namespace

void lsh_forward(const LshShape& shape, const LshInputs& in, const int32_t* order, Matrix out,
                 float* top, float* inverse, const Team& team) {
  const int64_t d = shape.depth, e = shape.values, keys = shape.window();
  zero_rows(out, 0, shape.length, e);
  std::fill(top, top + shape.length, -kInfinity);
  std::fill(inverse, inverse + shape.length, 0.0F);  // the sum, until the end
  const auto attend = [&](int64_t, PositionRange range, Arena& own) {
    const LshScratch scratch(shape, own);
    Ring ring(shape, in, order, scratch.ring);
    float *const scores = scratch.scores, *const high = scratch.top, *const sum = scratch.sum;
    const Matrix mixed = scratch.values;
    const auto chunk = [&](int64_t first, int64_t queries) {
      for (int64_t begin = first; begin < first + queries; begin += scratch.rows) {
        const int64_t rows = std::min(scratch.rows, first + queries - begin);
        const int32_t* asking = ring.at + begin;
        gemm_nt(rows, keys, d, ring.x.from(begin), ring.x, {scores, keys});
        weights_of(scores, rows, keys, ring.scale, ring.bias, ring.at, asking, high, sum);
        gemm(rows, e, keys, {scores, keys}, ring.v, mixed);
        for (int64_t r = 0; r < rows; ++r) {
          const int64_t i = asking[r];
          const float most = std::max(top[i], high[r]);
          const float old = exp(top[i] - most), weight = exp(high[r] - most);
          blend(mixed[r], e, weight, old, out[i]);
          inverse[i] = inverse[i] * old + sum[r] * weight;
          top[i] = most;
        }
      }
    };
    ring.turn(
        range, chunk, [](int64_t) {}, [](int64_t, int64_t) {});
  };
  for_each_range(shape, team, attend, [] {});
  for (int64_t i = 0; i < shape.length; ++i) {
    if (!in.mask[i]) continue;
    inverse[i] = 1 / inverse[i];
    blend(out[i], e, inverse[i], 0, out[i]);
  }
}

}  // namespace lra::ops::cpu::LRA_ISA
