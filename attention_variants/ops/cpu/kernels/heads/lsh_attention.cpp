#include "attention_variants/ops/cpu/kernels/heads/lsh_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "attention_variants/ops/cpu/kernels/gemm/gemm.h"
#include "attention_variants/ops/cpu/kernels/rows/arena.h"
#include "attention_variants/ops/cpu/kernels/rows/padding.h"
#include "attention_variants/ops/cpu/kernels/rows/row_ops.h"
#include "attention_variants/ops/cpu/kernels/rows/vector_math.h"

namespace lra::ops::cpu::LRA_ISA {
namespace {

constexpr int64_t kHashed = 256;        // tokens at a time
constexpr int64_t kScores = 64 * 1024;  // at a time: 256 KiB
constexpr int64_t kLeastRows = 16, kMostRows = 128;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

int64_t rotation_width(const LshBuckets& buckets) {
  return std::accumulate(buckets.factors.begin(), buckets.factors.end(), int64_t{0}) / 2;
}

int64_t bucket_count(const LshBuckets& buckets) {
  return std::accumulate(buckets.factors.begin(), buckets.factors.end(), int64_t{1},
                         std::multiplies<>());
}

// bucket [count] += stride times the argmax of [rotated; -rotated], rotated [half,count]. Scratch
// of 2 count.
void add_argmax(const float* rotated, int64_t half, int64_t count, int32_t stride, float* high,
                float* low, int32_t* high_at, int32_t* low_at, int32_t* bucket) {
  for (int64_t t = 0; t < count; ++t) {
    high[t] = low[t] = rotated[t];
    high_at[t] = low_at[t] = 0;
  }
  for (int64_t j = 1; j < half; ++j) {
    const float* row = rotated + j * count;
    const auto at = static_cast<int32_t>(j);
    for (int64_t t = 0; t < count; ++t) {
      const float x = row[t];
      high_at[t] = x > high[t] ? at : high_at[t];
      high[t] = x > high[t] ? x : high[t];
      low_at[t] = x < low[t] ? at : low_at[t];
      low[t] = x < low[t] ? x : low[t];
    }
  }
  const auto second = static_cast<int32_t>(half);
  for (int64_t t = 0; t < count; ++t)
    bucket[t] += stride * (high[t] >= -low[t] ? high_at[t] : low_at[t] + second);
}

// Buckets of all positions in one round; those of padding mean nothing.
void hash(const LshShape& shape, ConstMatrix x, const LshBuckets& buckets, int64_t round,
          int32_t* bucket, float* scratch) {
  const int64_t width = rotation_width(buckets);
  const float* table = buckets.rotations + round * width * shape.depth;
  float *const rotated = scratch, *const high = rotated + kHashed * width,
               *const low = high + kHashed;
  int32_t high_at[kHashed], low_at[kHashed];
  for (int64_t begin = 0; begin < shape.length; begin += kHashed) {
    const int64_t count = std::min(kHashed, shape.length - begin);
    gemm_nt(width, count, shape.depth, {table, shape.depth}, x.from(begin), {rotated, count});
    std::fill(bucket + begin, bucket + begin + count, 0);
    const float* part = rotated;
    int32_t stride = 1;
    for (const int64_t factor : buckets.factors) {
      add_argmax(part, factor / 2, count, stride, high, low, high_at, low_at, bucket + begin);
      part += factor / 2 * count;
      stride *= static_cast<int32_t>(factor);
    }
  }
}

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

struct Sizes {
  int64_t rows;    // queries at a time
  int64_t scores;  // of them
};

Sizes sizes_of(const LshShape& shape) {
  const int64_t most =
      std::min(std::clamp(kScores / shape.window(), kLeastRows, kMostRows), shape.chunk);
  return {.rows = most, .scores = most * shape.window()};
}

// The chunks in sight, side by side; which of them stands where turns as the queries go on.
class Ring {
 public:
  Ring(const LshShape& shape, const LshInputs& in, const int32_t* order, OpenArena& arena)
      : x(arena.matrix(shape.window(), shape.depth)),
        v(arena.matrix(shape.window(), shape.values)),
        scale(arena.take(shape.window())),
        bias(arena.take(shape.window())),
        slope(arena.take(shape.window())),
        at(reinterpret_cast<int32_t*>(arena.take(shape.window()))),
        shape_(shape),
        in_(in),
        order_(order) {
    std::fill(at, at + shape.window(), -1);
  }

  static int64_t floats(const LshShape& shape) {
    return shape.window() * (shape.depth + shape.values + 4);
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

  const Matrix x, v;
  float *const scale, *const bias, *const slope;
  int32_t* const at;  // positions, -1 for padding

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

int64_t lsh_scratch(const LshShape& shape, const LshBuckets& buckets, bool backward) {
  const Sizes sizes = sizes_of(shape);
  const int64_t width = shape.depth + shape.values,
                forward = Ring::floats(shape) + sizes.scores + sizes.rows * (shape.values + 2);
  if (backward) {
    return forward + sizes.scores + shape.window() * width + sizes.rows * (shape.depth + 1);
  }
  return std::max(
      forward, kHashed * (rotation_width(buckets) + 2) + shape.length + bucket_count(buckets) + 1);
}

void lsh_sort(const LshShape& shape, const LshInputs& in, const LshBuckets& buckets, int32_t* order,
              float* scratch) {
  const GemmPrecisionScope exact(GemmPrecision::float32);
  OpenArena arena(scratch);
  int32_t* const bucket = reinterpret_cast<int32_t*>(arena.take(shape.length));
  int32_t* const next = reinterpret_cast<int32_t*>(arena.take(bucket_count(buckets) + 1));
  int32_t* const next_end = next + bucket_count(buckets) + 1;
  float* const rest = arena.take(0);
  std::fill(bucket, bucket + shape.length, 0);
  for (int64_t round = 0; round < shape.rounds; ++round) {
    if (!buckets.factors.empty()) hash(shape, in.x, buckets, round, bucket, rest);
    std::fill(next, next_end, 0);
    for (int64_t i = 0; i < shape.length; ++i) {
      if (in.mask[i]) ++next[bucket[i] + 1];
    }
    std::partial_sum(next, next_end, next);  // where each bucket begins
    int32_t* to = order + round * shape.places();
    std::fill(to + next_end[-1], to + shape.places(), -1);
    for (int64_t i = 0; i < shape.length; ++i) {
      if (!in.mask[i]) continue;
      to[next[bucket[i]]++] = static_cast<int32_t>(i);
    }
  }
}

void lsh_forward(const LshShape& shape, const LshInputs& in, const int32_t* order, Matrix out,
                 float* top, float* inverse, float* scratch) {
  const int64_t d = shape.depth, e = shape.values, keys = shape.window();
  const Sizes sizes = sizes_of(shape);
  OpenArena arena(scratch);
  Ring ring(shape, in, order, arena);
  float* const scores = arena.take(sizes.scores);
  const Matrix mixed = arena.matrix(sizes.rows, e);
  float *const high = arena.take(sizes.rows), *const sum = arena.take(sizes.rows);
  zero_rows(out, 0, shape.length, e);
  std::fill(top, top + shape.length, -kInfinity);
  std::fill(inverse, inverse + shape.length, 0.0F);  // the sum, until the end
  const auto chunk = [&](int64_t first, int64_t queries) {
    for (int64_t begin = first; begin < first + queries; begin += sizes.rows) {
      const int64_t rows = std::min(sizes.rows, first + queries - begin);
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
                  Matrix grad_v, float* scratch) {
  const int64_t d = shape.depth, e = shape.values, keys = shape.window();
  const Sizes sizes = sizes_of(shape);
  OpenArena arena(scratch);
  Ring ring(shape, in, order, arena);
  const Matrix ring_grad_x = arena.matrix(keys, d), ring_grad_v = arena.matrix(keys, e);
  float *const scores = arena.take(sizes.scores), *const grad_scores = arena.take(sizes.scores);
  const Matrix given = arena.matrix(sizes.rows, e), grad_query = arena.matrix(sizes.rows, d);
  float *const high = arena.take(sizes.rows), *const share = arena.take(sizes.rows),
               *const along = arena.take(sizes.rows);
  zero_rows(grad_x, 0, shape.length, d);
  zero_rows(grad_v, 0, shape.length, e);
  const auto chunk = [&](int64_t first, int64_t queries) {
    for (int64_t begin = first; begin < first + queries; begin += sizes.rows) {
      const int64_t rows = std::min(sizes.rows, first + queries - begin);
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
      gemm_tn(keys, d, rows, {grad_scores, keys}, x, ring_grad_x, {.old = 1});
      gemm_tn(keys, e, rows, {scores, keys}, given, ring_grad_v, {.old = 1});
    }
  };
  const auto enters = [&](int64_t row) {
    zero_rows(ring_grad_x, row, row + shape.chunk, d);
    zero_rows(ring_grad_v, row, row + shape.chunk, e);
  };
  const auto leaves = [&](int64_t row) {
    for (const int64_t end = row + ring.tokens_at(row); row < end; ++row) {
      const int64_t i = ring.at[row];
      add(grad_v[i], ring_grad_v[row], e, grad_v[i]);
      const float slope = ring.slope[row] * product(ring_grad_x[row], ring.x[row], d);
      add(grad_x[i], ring_grad_x[row], d, grad_x[i]);
      blend(ring.x[row], d, -slope, 1, grad_x[i]);
    }
  };
  ring.turn(chunk, enters, leaves);
}

}  // namespace lra::ops::cpu::LRA_ISA
