#include "attention_variants/ops/cpu/kernels/heads/block_sparse_attention.h"

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

constexpr int64_t kMostRows = PatternSizes::kMostRows;

// Queries at a time where they see that many keys.
int64_t rows_at_a_time(int64_t keys) {
  return std::clamp(PatternSizes::kScores / std::max<int64_t>(keys, 1), PatternSizes::kLeastRows,
                    kMostRows);
}

// What one query sees among the gathered keys: [0, whole) and [begin, end).
struct Seen {
  int64_t whole = 0, begin = 0, end = 0;
};

LRA_INLINE float largest(const float* x, Range of) {
  return cpu::largest(x + of.begin, of.end - of.begin);
}

LRA_INLINE float exponentials(float* x, Range of, float shift) {
  return cpu::exponentials(x + of.begin, of.end - of.begin, 1, shift);
}

LRA_INLINE void zero_unseen(float* x, const Seen& seen, int64_t keys) {
  std::fill(x + seen.whole, x + std::max(seen.begin, seen.whole), 0.0F);
  std::fill(x + std::max(seen.end, seen.whole), x + keys, 0.0F);
}

// scores [rows,keys] become exp(score - their maximum), 0 where a query does not see a key; stats
// [rows] of them.
void weights_of(float* scores, int64_t rows, int64_t keys, const Seen* seen,
                const SoftmaxStats& stats) {
  for (int64_t r = 0; r < rows; ++r) {
    float* row = scores + r * keys;
    const Range whole{0, seen[r].whole}, bounded{seen[r].begin, seen[r].end};
    const float most = std::max(largest(row, whole), largest(row, bounded));
    const float sum = exponentials(row, whole, most) + exponentials(row, bounded, most);
    zero_unseen(row, seen[r], keys);
    const bool nothing = seen[r].whole == 0 && seen[r].begin >= seen[r].end;
    stats.max[r] = nothing ? 0.0F : most;
    stats.inverse_sum[r] = nothing ? 0.0F : 1 / sum;
  }
}

// scores become softmaxes again, and grad [rows,keys], their gradient, that of the products q kᵀ
// before they were scaled;
// along [rows] is the product of each result with its gradient.
void weights_backward(float* scores, float* grad, int64_t rows, int64_t keys, const Seen* seen,
                      float scale, const SoftmaxStats& stats, const float* along) {
  for (int64_t r = 0; r < rows; ++r) {
    float *row = scores + r * keys, *to = grad + r * keys;
    exponentials(row, {0, seen[r].whole}, stats.max[r]);
    exponentials(row, {seen[r].begin, seen[r].end}, stats.max[r]);
    zero_unseen(row, seen[r], keys);
    const float shift = along[r], share = stats.inverse_sum[r];
    for (int64_t c = 0; c < keys; ++c) {
      row[c] *= share;
      to[c] = row[c] * (to[c] - shift) * scale;
    }
  }
}

// The keys that a tile's queries see, without those of padding, side by side.
class Gathered {
 public:
  Gathered(const BlockSparseHeadShape& shape, const SparsityPattern& pattern,
           const BlockSparseHeadScratch& scratch)
      : shape_(shape), pattern_(pattern), at_(scratch.at), k(scratch.k), v(scratch.v) {}

  void read(const SparsityTile& tile, const BlockSparseHeadInputs& in) {
    count_ = 0;
    whole_ = 0;
    for (size_t i = 0; i < tile.keys.size(); ++i) {
      for (int64_t j = tile.keys[i].begin; j < tile.keys[i].end; ++j) {
        if (!in.mask[j]) continue;
        std::copy(in.k[j], in.k[j] + shape_.depth, k[count_]);
        std::copy(in.v[j], in.v[j] + shape_.values, v[count_]);
        at_[count_++] = static_cast<int32_t>(j);
      }
      if (static_cast<int64_t>(i) < tile.unbounded) whole_ = count_;
    }
  }

  int64_t count() const { return count_; }

  // What queries [begin, begin + rows) see; those of padding see nothing.
  void seen_by(int64_t begin, int64_t rows, const bool* mask, Seen* seen) const {
    int64_t first = whole_, end = whole_;
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t i = begin + r;
      while (first < count() && at_[first] < i - pattern_.before) ++first;
      while (end < count() && at_[end] <= i + pattern_.after) ++end;
      seen[r] = mask[i] ? Seen{whole_, first, std::max(first, end)} : Seen{};
    }
  }

  // to [N,width], at the keys' positions, += from.
  void scatter(ConstMatrix from, int64_t width, Matrix to) const {
    for (int64_t j = 0; j < count(); ++j) {
      float* sum = to[at_[j]];
      add(sum, from[j], width, sum);
    }
  }

 private:
  const BlockSparseHeadShape& shape_;
  const SparsityPattern& pattern_;
  int32_t* const at_;  // positions
  int64_t count_ = 0;
  int64_t whole_ = 0;  // of them seen by all queries

 public:
  const Matrix k, v;  // [count,d], [count,e]
};

// Calls body(begin, rows, seen) for a few queries of a tile at a time, once its keys are read,
// where there are tokens among them.
template <class Body>
void for_each_part(const SparsityTile& tile, const BlockSparseHeadInputs& in, Gathered& keys,
                   Body body) {
  const auto [first, end] = tile.queries;
  if (std::find(in.mask + first, in.mask + end, true) == in.mask + end) return;
  keys.read(tile, in);
  if (keys.count() == 0) return;
  Seen seen[kMostRows];
  const int64_t most = rows_at_a_time(keys.count());
  for (int64_t begin = first; begin < end; begin += most) {
    const int64_t rows = std::min(most, end - begin);
    keys.seen_by(begin, rows, in.mask, seen);
    body(begin, rows, seen);
  }
}

int64_t tiles_of(const SparsityPattern& pattern) {
  return static_cast<int64_t>(pattern.tiles.size());
}

// At a tile's end, and where it is left by an exception: nobody waits for it any more.
struct EndOfTile {
  int64_t* done;
  ~EndOfTile() { Team::advance(done, 1); }
};

}  // namespace

void block_sparse_forward(const BlockSparseHeadShape& shape, const SparsityPattern& pattern,
                          const BlockSparseHeadInputs& in, Matrix out, const SoftmaxStats& stats,
                          const Team& team) {
  const int64_t d = shape.depth, e = shape.values;
  const PatternSizes sizes(pattern);
  zero_rows(out, 0, shape.length, e);
  team.for_each(tiles_of(pattern), [&](int64_t tile, Arena& own) {
    const BlockSparseHeadScratch scratch(shape, sizes, own);
    Gathered keys(shape, pattern, scratch);
    float* const scores = scratch.scores;
    const auto part = [&](int64_t begin, int64_t rows, const Seen* seen) {
      const int64_t n = keys.count();
      gemm_nt(rows, n, d, in.q.from(begin), keys.k, {scores, n}, {.product = shape.scale});
      weights_of(scores, rows, n, seen, stats.from(begin));
      gemm(rows, e, n, {scores, n}, keys.v, out.from(begin));
      scale_rows(out.from(begin), rows, e, stats.inverse_sum + begin);
    };
    for_each_part(pattern.tiles[static_cast<size_t>(tile)], in, keys, part);
  });
}

void block_sparse_backward(const BlockSparseHeadShape& shape, const SparsityPattern& pattern,
                           const BlockSparseHeadInputs& in, ConstMatrix out,
                           const SoftmaxStats& stats, ConstMatrix grad_out,
                           const BlockSparseHeadGradients& grad, Arena& arena, const Team& team) {
  const int64_t d = shape.depth, e = shape.values;
  const PatternSizes sizes(pattern);
  for (const Matrix& of : {grad.q, grad.k}) zero_rows(of, 0, shape.length, d);
  zero_rows(grad.v, 0, shape.length, e);
  const Arena::Frame frame(arena);
  int64_t* const done = BlockSparseHeadTurns(pattern, arena).done;
  std::fill(done, done + tiles_of(pattern), 0);
  team.for_each(tiles_of(pattern), [&](int64_t tile, Arena& own) {
    const EndOfTile end{done + tile};
    const BlockSparseHeadBackwardScratch scratch(shape, sizes, own);
    Gathered keys(shape, pattern, scratch);
    const Matrix grad_k = scratch.grad_k, grad_v = scratch.grad_v;
    float *const scores = scratch.scores, *const grad_scores = scratch.grad_scores,
                 *const along = scratch.along;
    float kept = 0;  // what gradients of keys are multiplied by before more is added
    const auto part = [&](int64_t begin, int64_t rows, const Seen* seen) {
      const int64_t n = keys.count();
      const bool* mask = in.mask + begin;
      const ConstMatrix q = without_padding(in.q.from(begin), mask, rows, d, scratch.q),
                        g = without_padding(grad_out.from(begin), mask, rows, e, scratch.grad);
      gemm_nt(rows, n, d, q, keys.k, {scores, n}, {.product = shape.scale});
      gemm_nt(rows, n, e, g, keys.v, {grad_scores, n});
      row_products(out.from(begin), g, rows, e, along);
      weights_backward(scores, grad_scores, rows, n, seen, shape.scale, stats.from(begin), along);
      gemm(rows, d, n, {grad_scores, n}, keys.k, grad.q.from(begin));
      gemm_tn(n, d, rows, {grad_scores, n}, q, grad_k, {.old = kept});
      gemm_tn(n, e, rows, {scores, n}, g, grad_v, {.old = kept});
      kept = 1;
    };
    for_each_part(pattern.tiles[static_cast<size_t>(tile)], in, keys, part);
    if (tile > 0) Team::wait(done + tile - 1, 1);
    if (kept == 0) return;
    keys.scatter(grad_k, d, grad.k);
    keys.scatter(grad_v, e, grad.v);
  });
}

}  // namespace lra::ops::cpu::LRA_ISA
