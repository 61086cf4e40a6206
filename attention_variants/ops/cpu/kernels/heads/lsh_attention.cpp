#include "attention_variants/ops/cpu/kernels/heads/lsh_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "attention_variants/ops/cpu/kernels/gemm/gemm.h"
#include "attention_variants/ops/cpu/kernels/rows/arena.h"
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

// scores, products of x, become weights again, and grad [rows,keys], their gradient, that of the
// products.
void weights_backward(float* scores, float* grad, int64_t rows, int64_t keys, const float* scale,
                      const float* bias, const int32_t* at, const int32_t* asking, const float* top,
                      const float* inverse, const float* along) {
  for (int64_t r = 0; r < rows; ++r) {
    float *row = scores + r * keys, *to = grad + r * keys;
    const int32_t self = asking[r];
    const float most = top[r], share = inverse[r], shift = along[r];
    for (int64_t c = 0; c < keys; ++c) {
      const float score = row[c] * scale[c] + bias[c];
      const float weight = exp((at[c] == self ? kSelfScore : score) - most) * share;
      const float slope = weight * (to[c] - shift) * scale[c];
      row[c] = weight;
      to[c] = at[c] == self ? 0.0F : slope;
    }
  }
}

// to = to * old + from * weight.
void blend(const float* from, int64_t width, float weight, float old, float* to) {
  for (int64_t c = 0; c < width; ++c) to[c] = to[c] * old + from[c] * weight;
}

float product(const float* x, const float* y, int64_t width) {
  float sum;
  row_products({x, width}, {y, width}, 1, width, &sum);
  return sum;
}

struct Rates {
  float scale;  // of a key's scores
  float slope;  // the derivative of scale by x is -scale slope x
};

Rates rates_of(const LshShape& shape, const float* x) {
  const auto depth = static_cast<float>(shape.depth);
  const float squares = product(x, x, shape.depth);
  if (shape.key_scale == KeyScale::rms) {
    const float mean = squares / depth + 1e-6F;
    return {.scale = 1 / std::sqrt(mean * depth), .slope = 1 / (depth * mean)};
  }
  const float norm = std::sqrt(squares), denominator_min = 1e-12F;
  if (norm <= denominator_min)
    return {.scale = 1 / (denominator_min * std::sqrt(depth)), .slope = 0};
  return {.scale = 1 / (norm * std::sqrt(depth)), .slope = 1 / squares};
}

// The chunks in sight, side by side; which of them stands where turns as the queries go on.
class Ring : public LshRingScratch {
 public:
  Ring(const LshShape& shape, const LshInputs& in, const int32_t* order,
       const LshRingScratch& scratch)
      : LshRingScratch(scratch), shape_(shape), in_(in), order_(order) {
    std::fill(at, at + shape.window(), -1);
  }

  // Calls body(first row in the ring, queries) for the chunks with tokens, in the order of the
  // rounds, each with its window in the ring; enters(row) and leaves(row) for a chunk's first row
  // when it has come and before it goes.
  template <class Body, class Enters, class Leaves>
  void turn(Body body, Enters enters, Leaves leaves) {
    const int64_t chunks = shape_.rounds * shape_.chunks();
    const auto enter = [&](int64_t chunk) {
      read((chunk + chunks * (1 + shape_.before)) % chunks, row_of(chunk));
      enters(row_of(chunk));
    };
    for (int64_t chunk = -shape_.before; chunk < shape_.after; ++chunk) enter(chunk);
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      if (chunk > 0) leaves(row_of(chunk + shape_.after));
      enter(chunk + shape_.after);
      const int64_t first = row_of(chunk), queries = tokens_at(first);
      if (queries > 0) body(first, queries);
    }
    for (int64_t slot = 0; slot <= shape_.before + shape_.after; ++slot)
      leaves(slot * shape_.chunk);
  }

  // Tokens of the chunk that stands at `row`: the first of its rows.
  int64_t tokens_at(int64_t row) const {
    const int32_t* first = at + row;
    return std::find(first, first + shape_.chunk, -1) - first;
  }

 private:
  int64_t row_of(int64_t chunk) const {
    const int64_t slots = shape_.before + 1 + shape_.after;
    return (chunk + shape_.before) % slots * shape_.chunk;
  }

  void read(int64_t chunk, int64_t row) {
    for (int64_t t = 0; t < shape_.chunk; ++t, ++row) {
      const int32_t from = order_[chunk * shape_.chunk + t];
      at[row] = from;
      if (from < 0) {
        std::fill(x[row], x[row] + shape_.depth, 0.0F);
        std::fill(v[row], v[row] + shape_.values, 0.0F);
        scale[row] = slope[row] = 0;
        bias[row] = kPaddedScore;
        continue;
      }
      std::copy(in_.x[from], in_.x[from] + shape_.depth, x[row]);
      std::copy(in_.v[from], in_.v[from] + shape_.values, v[row]);
      const Rates rates = rates_of(shape_, in_.x[from]);
      scale[row] = rates.scale;
      slope[row] = rates.slope;
      bias[row] = 0;
    }
  }

  const LshShape& shape_;
  const LshInputs& in_;
  const int32_t* order_;
};

void nothing(int64_t) {}

}  // namespace

void lsh_forward(const LshShape& shape, const LshInputs& in, const int32_t* order, Matrix out,
                 float* top, float* inverse, Arena& arena) {
  const int64_t d = shape.depth, e = shape.values, keys = shape.window();
  const Arena::Frame frame(arena);
  const LshScratch scratch(shape, arena);
  Ring ring(shape, in, order, scratch.ring);
  float *const scores = scratch.scores, *const high = scratch.top, *const sum = scratch.sum;
  const Matrix mixed = scratch.values;
  zero_rows(out, 0, shape.length, e);
  std::fill(top, top + shape.length, -kInfinity);
  std::fill(inverse, inverse + shape.length, 0.0F);  // the sum, until the end
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
  ring.turn(chunk, nothing, nothing);
  for (int64_t i = 0; i < shape.length; ++i) {
    if (!in.mask[i]) continue;
    inverse[i] = 1 / inverse[i];
    blend(out[i], e, inverse[i], 0, out[i]);
  }
}

void lsh_backward(const LshShape& shape, const LshInputs& in, const int32_t* order, ConstMatrix out,
                  const float* top, const float* inverse, ConstMatrix grad_out, Matrix grad_x,
                  Matrix grad_v, Arena& arena) {
  const int64_t d = shape.depth, e = shape.values, keys = shape.window();
  const Arena::Frame frame(arena);
  const LshBackwardScratch scratch(shape, arena);
  Ring ring(shape, in, order, scratch.ring);
  float *const scores = scratch.scores, *const grad_scores = scratch.grad_scores,
               *const high = scratch.top, *const share = scratch.sum, *const along = scratch.along;
  const Matrix given = scratch.values, grad_query = scratch.grad_query;
  zero_rows(grad_x, 0, shape.length, d);
  zero_rows(grad_v, 0, shape.length, e);
  const auto chunk = [&](int64_t first, int64_t queries) {
    for (int64_t begin = first; begin < first + queries; begin += scratch.rows) {
      const int64_t rows = std::min(scratch.rows, first + queries - begin);
      const int32_t* asking = ring.at + begin;
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t i = asking[r];
        std::copy(grad_out[i], grad_out[i] + e, given[r]);
        high[r] = top[i];
        share[r] = inverse[i];
        along[r] = product(out[i], grad_out[i], e);
      }
      const ConstMatrix x = ring.x.from(begin);
      gemm_nt(rows, keys, d, x, ring.x, {scores, keys});
      gemm_nt(rows, keys, e, given, ring.v, {grad_scores, keys});
      weights_backward(scores, grad_scores, rows, keys, ring.scale, ring.bias, ring.at, asking,
                       high, share, along);
      gemm(rows, d, keys, {grad_scores, keys}, ring.x, grad_query);
      for (int64_t r = 0; r < rows; ++r)
        add(grad_x[asking[r]], grad_query[r], d, grad_x[asking[r]]);
      gemm_tn(keys, d, rows, {grad_scores, keys}, x, scratch.grad_x, {.old = 1});
      gemm_tn(keys, e, rows, {scores, keys}, given, scratch.grad_v, {.old = 1});
    }
  };
  const auto enters = [&](int64_t row) {
    zero_rows(scratch.grad_x, row, row + shape.chunk, d);
    zero_rows(scratch.grad_v, row, row + shape.chunk, e);
  };
  const auto leaves = [&](int64_t row) {
    for (const int64_t end = row + ring.tokens_at(row); row < end; ++row) {
      const int64_t i = ring.at[row];
      add(grad_v[i], scratch.grad_v[row], e, grad_v[i]);
      const float slope = ring.slope[row] * product(scratch.grad_x[row], ring.x[row], d);
      add(grad_x[i], scratch.grad_x[row], d, grad_x[i]);
      blend(ring.x[row], d, -slope, 1, grad_x[i]);
    }
  };
  ring.turn(chunk, enters, leaves);
}

}  // namespace lra::ops::cpu::LRA_ISA
