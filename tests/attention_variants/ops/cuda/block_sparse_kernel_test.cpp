// Block-sparse attention's kernels, emulated, against float64.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "attention_variants/ops/cuda/kernel_table.h"
#include "tests/attention_variants/ops/cuda/slopes.h"

namespace lra::ops::cuda {
namespace {

using emulator::Array;
using emulator::random_values;

struct SparseCase {
  int batch, heads, length, depth;
};

// The first half of the positions, which sees all keys, and the second, which sees the first four
// twice and what lies up to 3 before and 9 behind; the first `tokens` of the second sample are
// tokens.
class SparseKernel : public testing::TestWithParam<SparseCase> {
 protected:
  static constexpr int kBefore = 3, kAfter = 9, kTwice = 4;

  SparseKernel() {
    const int n = c_.length, half = n / 2;
    const auto add_queries = [&](int begin, int end, const std::vector<int>& whole) {
      for (; begin < end; begin += 64) {
        const auto first = static_cast<int32_t>(keys_.size());
        keys_.insert(keys_.end(), whole.begin(), whole.end());
        if (begin >= half) {
          for (int j = kTwice; j < n; ++j) keys_.push_back(j);
        }
        query_tiles_.push_back({begin, std::min(begin + 64, end), first,
                                static_cast<int32_t>(keys_.size()) - first,
                                static_cast<int32_t>(whole.size())});
      }
    };
    std::vector<int> all, twice;
    for (int j = 0; j < n; ++j) all.push_back(j);
    for (int j = 0; j < 2 * kTwice; ++j)
      if (j % kTwice < n) twice.push_back(j % kTwice);
    add_queries(0, half, all);
    add_queries(half, n, twice);
    add_keys(0, std::min(kTwice, n), true);
    add_keys(std::min(kTwice, n), n, false);
    positions_ = all;
    head_ = {kBefore, kAfter,
             0,       static_cast<int32_t>(query_tiles_.size()),
             0,       static_cast<int32_t>(key_tiles_.size())};
    for (int b = 0; b < c_.batch; ++b) {
      for (int i = 0; i < n; ++i) mask_[b * n + i] = b == 0 || i % 3 != 1;
    }
  }

  void add_keys(int begin, int end, bool twice) {
    const int n = c_.length, half = n / 2;
    for (; begin < end; begin += 64) {
      const auto first = static_cast<int32_t>(parts_.size());
      const auto add = [&](int from, int to, int bounded) {
        for (; from < to; from += 32) parts_.push_back({from, std::min(from + 32, to), bounded});
      };
      add(0, half, 0);
      for (int time = 0; time < (twice ? 2 : 1); ++time) add(half, n, twice ? 0 : 1);
      key_tiles_.push_back({begin, std::min(begin + 64, end) - begin, first,
                            static_cast<int32_t>(parts_.size()) - first});
    }
  }

  // How often a query sees a key.
  int times(int b, int i, int j) const {
    const int n = c_.length;
    if (!mask_[b * n + i] || !mask_[b * n + j]) return 0;
    if (i < n / 2) return 1;
    if (j < kTwice) return 2;
    return j >= i - kBefore && j <= i + kAfter ? 1 : 0;
  }

  Doubles formula(const std::vector<Doubles>& in) const {
    const int n = c_.length, d = c_.depth;
    Doubles out(in[0].size(), 0.0);
    for (int head = 0; head < c_.batch * c_.heads; ++head) {
      for (int i = 0; i < n; ++i) {
        const auto at = [&](int row) { return (static_cast<size_t>(head) * n + row) * d; };
        double sum = 0;
        for (int j = 0; j < n; ++j) {
          const int seen = times(head / c_.heads, i, j);
          if (seen == 0) continue;
          double score = 0;
          for (int x = 0; x < d; ++x) score += in[0][at(i) + x] * in[1][at(j) + x];
          const double weight = seen * std::exp(score / std::sqrt(d));
          sum += weight;
          for (int x = 0; x < d; ++x) out[at(i) + x] += weight * in[2][at(j) + x];
        }
        for (int x = 0; x < d && sum > 0; ++x) out[at(i) + x] /= sum;
      }
    }
    return out;
  }

  const SparseCase c_ = GetParam();
  std::vector<QueryTile> query_tiles_;
  std::vector<KeyTile> key_tiles_;
  std::vector<QueryPart> parts_;
  std::vector<int32_t> keys_, positions_;
  PatternHead head_ = {};
  Array<bool> mask_{int64_t{c_.batch} * c_.length};
};

TEST_P(SparseKernel, IsTheFormula) {
  const int64_t rows = int64_t{c_.batch} * c_.heads * c_.length, count = rows * c_.depth;
  const Array<float> q(random_values(count, 1, 2)), k(random_values(count, 2, 2)),
      v(random_values(count, 3)), grad_out(random_values(count, 4));
  Array<float> out(count), top(rows), inverse(rows), along(rows), grad_q(count), grad_k(count),
      grad_v(count);
  BlockSparseParams p = {};
  const auto heads = [&](auto* x) { return contiguous_heads(x, c_.heads, c_.length, c_.depth); };
  const auto read = [&](const Array<float>& x) {
    return heads(static_cast<const void*>(x.data()));
  };
  const auto write = [&](Array<float>& x) { return heads(static_cast<void*>(x.data())); };
  p.batch = c_.batch, p.heads = c_.heads, p.length = c_.length, p.depth = c_.depth;
  p.scale = 1 / std::sqrt(static_cast<float>(c_.depth));
  p.plan = {&head_,
            query_tiles_.data(),
            keys_.data(),
            key_tiles_.data(),
            positions_.data(),
            parts_.data(),
            1,
            head_.query_tiles,
            head_.key_tiles};
  p.q = read(q), p.k = read(k), p.v = read(v), p.grad_out = read(grad_out);
  p.out = write(out), p.grad_q = write(grad_q), p.grad_k = write(grad_k), p.grad_v = write(grad_v);
  p.mask = mask_.data(), p.top = top.data(), p.inverse = inverse.data(), p.along = along.data();
  lra_cuda_kernels()->block_sparse_forward(p, nullptr);
  lra_cuda_kernels()->block_sparse_backward(p, nullptr);
  const std::vector<Doubles> inputs = {widened(q), widened(k), widened(v)};
  const Formula of = [this](const auto& in) { return formula(in); };
  expect_near(out, of(inputs), 2e-6);
  const size_t step = static_cast<size_t>(count) / 40 + 1;
  expect_slopes(grad_q, of, inputs, 0, widened(grad_out), step, 5e-6);
  expect_slopes(grad_k, of, inputs, 1, widened(grad_out), step, 5e-6);
  expect_slopes(grad_v, of, inputs, 2, widened(grad_out), step, 5e-6);
  for (const auto* array : {&top, &inverse, &along}) array->check_zones();
}

INSTANTIATE_TEST_SUITE_P(Shapes, SparseKernel,
                         testing::Values(SparseCase{1, 1, 1, 16}, SparseCase{2, 1, 20, 5},
                                         SparseCase{2, 2, 75, 32}, SparseCase{1, 1, 33, 64},
                                         SparseCase{2, 1, 40, 128}));

}  // namespace
}  // namespace lra::ops::cuda
