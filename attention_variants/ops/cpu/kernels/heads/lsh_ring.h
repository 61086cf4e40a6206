// What the forward and the backward pass over one head of lsh_attention.h share: the window of
// chunks, and ranges of chunks.
#pragma once

#include <algorithm>
#include <cmath>

#include "attention_variants/ops/cpu/kernels/heads/lsh_attention.h"
#include "attention_variants/ops/cpu/kernels/rows/row_ops.h"

namespace lra::ops::LRA_KERNELS {

// to = to * old + from * weight.
inline void blend(const float* from, int64_t width, float weight, float old, float* to) {
  for (int64_t c = 0; c < width; ++c) to[c] = to[c] * old + from[c] * weight;
}

inline float product(const float* x, const float* y, int64_t width) {
  float sum;
  row_products({x, width}, {y, width}, 1, width, &sum);
  return sum;
}

struct Rates {
  float scale;  // of a key's scores
  float slope;  // the derivative of scale by x is -scale slope x
};

inline Rates rates_of(const LshShape& shape, const float* x) {
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

  // Calls body(first row in the ring, queries) for the chunks of a range with tokens, in the order
  // of the rounds, each with its window in the ring; enters(row) and leaves(chunk, row) for a
  // chunk's first row when it has come and before it goes. Chunks beside the first and the last of
  // all count on, from the other end.
  template <class Body, class Enters, class Leaves>
  void turn(PositionRange range, Body body, Enters enters, Leaves leaves) {
    const int64_t chunks = shape_.rounds * shape_.chunks(), end = range.end + shape_.after;
    const auto enter = [&](int64_t chunk) {
      read((chunk + chunks * (1 + shape_.before)) % chunks, row_of(chunk));
      enters(row_of(chunk));
    };
    for (int64_t c = range.begin - shape_.before; c < range.begin + shape_.after; ++c) enter(c);
    for (int64_t chunk = range.begin; chunk < range.end; ++chunk) {
      if (chunk > range.begin) leaves(chunk - slots() + shape_.after, row_of(chunk + shape_.after));
      enter(chunk + shape_.after);
      const int64_t first = row_of(chunk), queries = tokens_at(first);
      if (queries > 0) body(first, queries);
    }
    for (int64_t slot = 0; slot < slots(); ++slot)
      leaves(end - 1 - (end - 1 + shape_.before - slot) % slots(), slot * shape_.chunk);
  }

  // Tokens of the chunk that stands at `row`: the first of its rows.
  int64_t tokens_at(int64_t row) const {
    const int32_t* first = at + row;
    return std::find(first, first + shape_.chunk, -1) - first;
  }

 private:
  int64_t slots() const { return shape_.before + 1 + shape_.after; }
  int64_t row_of(int64_t chunk) const { return (chunk + shape_.before) % slots() * shape_.chunk; }

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

// Calls body(part, range of chunks, arena) for all chunks, on a team's threads for a round at a
// time, in which a token is in one range alone; after() behind each.
template <class Body, class After>
void for_each_range(const LshShape& shape, const Team& team, Body body, After after) {
  const int64_t rounds = team.parts() == 1 ? 1 : shape.rounds,
                chunks = shape.rounds * shape.chunks() / rounds;
  for (int64_t round = 0; round < rounds; ++round) {
    team.for_each(team.parts(), [&](int64_t part, Arena& own) {
      const PositionRange of_round = team.range(part, chunks, 1);
      if (of_round.length() > 0)
        body(part, PositionRange{round * chunks + of_round.begin, round * chunks + of_round.end},
             own);
    });
    after();
  }
}

}  // namespace lra::ops::LRA_KERNELS
