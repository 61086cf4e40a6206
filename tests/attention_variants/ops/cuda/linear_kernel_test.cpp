// The kernels of linear attention and FAVOR+, emulated, against float64.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "attention_variants/ops/cuda/kernel_table.h"
#include "tests/attention_variants/ops/cuda/slopes.h"

namespace lra::ops::cuda {
namespace {

using emulator::Array;
using emulator::random_values;

struct FeatureCase {
  FeatureMap map;
  int length, depth, width;
  FeatureOptions options;
};

FeatureOptions options_of(FeatureMap map) {
  FeatureOptions of = {};
  of.map = map;
  of.share = 1;
  of.normalise = true;
  of.max_attached = true;
  of.denominator_min = 1e-6F;
  if (map == FeatureMap::relu || map == FeatureMap::softmax) of.offset = 1e-2F;
  if (map == FeatureMap::softmax) of.norm = 0.3F;
  return of;
}
FeatureOptions unnormalised() {
  FeatureOptions of = options_of(FeatureMap::elu);
  of.normalise = false;
  of.share = 0.25F;
  return of;
}
FeatureOptions batch_max(bool count_padding) {
  FeatureOptions of = options_of(FeatureMap::softmax);
  of.batch_max = true;
  of.count_padding = count_padding;
  of.epsilon = 0.1F;
  return of;
}
// Of denominators that the guard and the bound change.
FeatureOptions guarded() {
  FeatureOptions of = options_of(FeatureMap::relu);
  of.guard = 1;
  of.denominator_min = 2.5F;
  return of;
}

constexpr int kBatch = 2, kHeads = 2;

// The second sample has a token in three of padding.
class LinearKernel : public testing::TestWithParam<FeatureCase> {
 protected:
  LinearKernel() {
    for (int b = 0; b < kBatch; ++b) {
      for (int i = 0; i < c_.length; ++i) mask_[b * c_.length + i] = b == 0 || i % 3 != 1;
    }
  }

  bool projected() const { return c_.map == FeatureMap::relu || c_.map == FeatureMap::softmax; }
  bool token(int head, int i) const { return mask_[head / kHeads * c_.length + i]; }
  size_t row(int head, int i) const {
    return (static_cast<size_t>(head) * c_.length + i) * c_.depth;
  }

  // W x, or features of maps without W, of a position; 0 of padding.
  Doubles products(const Doubles& of, int head, int i) const {
    Doubles all(static_cast<size_t>(c_.width));
    const auto x = [&](int d) { return token(head, i) ? of[row(head, i) + d] : 0.0; };
    for (int f = 0; f < c_.width; ++f) {
      double sum = 0;
      if (projected()) {
        for (int d = 0; d < c_.depth; ++d) sum += x(d) * table_[int64_t{f} * c_.depth + d];
      } else if (c_.map == FeatureMap::elu) {
        sum = x(f) > 0 ? x(f) + 1 : std::exp(x(f));
      } else {
        const int64_t at = int64_t{head / kHeads} * c_.length + i;
        sum = std::max(x(f % c_.depth), 0.0) * table_[2 * at + f / c_.depth];
      }
      all[static_cast<size_t>(f)] = sum;
    }
    return all;
  }
  // φ, given the largest W x.
  Doubles features(const Doubles& of, int head, int i, double largest) const {
    Doubles all = products(of, head, i);
    double norm = 0;
    for (int d = 0; d < c_.depth && token(head, i); ++d)
      norm += of[row(head, i) + d] * of[row(head, i) + d];
    for (double& x : all) {
      if (c_.map == FeatureMap::relu) x = std::max(x, 0.0);
      if (c_.map == FeatureMap::softmax) x = std::exp(x - c_.options.norm * norm - largest);
      x += c_.options.offset;
    }
    return all;
  }
  double largest_of_keys(const Doubles& k, int first, int count) const {
    double most = -std::numeric_limits<double>::infinity();
    for (int head = first; head < first + count; ++head) {
      for (int i = 0; i < c_.length; ++i) {
        if (!token(head, i) && !c_.options.count_padding) continue;
        const Doubles all = products(k, head, i);
        most = std::max(most, *std::max_element(all.begin(), all.end()));
      }
    }
    return most;
  }

  Doubles formula(const std::vector<Doubles>& in) const {
    const FeatureOptions& options = c_.options;
    Doubles out(in[0].size(), 0.0);
    for (int head = 0; head < kBatch * kHeads; ++head) {
      const double largest = options.batch_max ? largest_of_keys(in[1], 0, kBatch * kHeads)
                                               : largest_of_keys(in[1], head, 1);
      Doubles s(static_cast<size_t>(c_.width) * (c_.depth + 1), 0.0);
      for (int j = 0; j < c_.length; ++j) {
        if (!token(head, j) && !options.count_padding) continue;
        const Doubles features_of_key = features(in[1], head, j, largest);
        for (size_t f = 0; f < features_of_key.size(); ++f) {
          double* to = s.data() + f * (c_.depth + 1);
          for (int d = 0; d < c_.depth && token(head, j); ++d)
            to[d] += features_of_key[f] * in[2][row(head, j) + d] * options.share;
          to[c_.depth] += features_of_key[f];
        }
      }
      for (int i = 0; i < c_.length; ++i) {
        if (!token(head, i)) continue;
        const Doubles all = products(in[0], head, i),
                      of = features(in[0], head, i, *std::max_element(all.begin(), all.end()));
        Doubles sums(static_cast<size_t>(c_.depth) + 1, 0.0);
        for (size_t f = 0; f < of.size(); ++f)
          for (size_t d = 0; d < sums.size(); ++d) sums[d] += of[f] * s[f * sums.size() + d];
        double denominator = sums.back() + options.epsilon;
        if (options.guard != 0 && std::abs(denominator) <= options.guard)
          denominator += 2 * options.guard;
        denominator = std::max<double>(denominator, options.denominator_min);
        if (!options.normalise) denominator = 1;
        for (int d = 0; d < c_.depth; ++d)
          out[row(head, i) + d] = sums[static_cast<size_t>(d)] / denominator;
      }
    }
    return out;
  }

  Array<float> table() const {
    if (projected()) return Array<float>(random_values(int64_t{c_.width} * c_.depth, 7));
    std::vector<float> phases = random_values(int64_t{kBatch} * c_.length * 2, 7);
    for (float& x : phases) x = 0.1F + std::abs(x);  // as sines and cosines of a right angle
    return Array<float>(phases);
  }

  const FeatureCase c_ = GetParam();
  Array<bool> mask_{int64_t{kBatch} * c_.length};
  const Array<float> table_ = table();
};

TEST_P(LinearKernel, IsTheFormula) {
  const int64_t items = kBatch * kHeads, rows = items * c_.length, count = rows * c_.depth;
  const Array<float> q(random_values(count, 1, 2)), k(random_values(count, 2, 2)),
      v(random_values(count, 3)), grad_out(random_values(count, 4));
  Array<float> out(count), grad_q(count), grad_k(count), grad_v(count), denominators(rows),
      query_peaks(rows), sums(items * c_.width * (c_.depth + 1));
  Array<int32_t> query_features(rows);
  std::vector<KeyPeak> key_peaks(items);
  LinearAttentionParams p = {};
  p.batch = kBatch, p.heads = kHeads, p.length = c_.length, p.depth = c_.depth, p.width = c_.width;
  p.splits = linear_attention_splits(static_cast<int>(items), c_.length, c_.width);
  p.options = c_.options;
  const auto heads = [&](auto* of) { return contiguous_heads(of, kHeads, c_.length, c_.depth); };
  const auto read = [&](const Array<float>& of) {
    return heads(static_cast<const void*>(of.data()));
  };
  const auto write = [&](Array<float>& of) { return heads(static_cast<void*>(of.data())); };
  p.q = read(q), p.k = read(k), p.v = read(v), p.grad_out = read(grad_out);
  p.out = write(out), p.grad_q = write(grad_q), p.grad_k = write(grad_k), p.grad_v = write(grad_v);
  p.mask = mask_.data(), p.table = table_.data(), p.sums = sums.data();
  p.key_peaks = key_peaks.data(), p.denominators = denominators.data();
  p.query_peaks = query_peaks.data(), p.query_features = query_features.data();
  Array<float> scratch(linear_attention_scratch(p));
  p.scratch = scratch.data();
  lra_cuda_kernels()->linear_attention_forward(p, nullptr);
  lra_cuda_kernels()->linear_attention_backward(p, nullptr);
  const std::vector<Doubles> inputs = {widened(q), widened(k), widened(v)};
  const Formula of = [this](const auto& in) { return formula(in); };
  expect_near(out, of(inputs), 3e-6);
  const size_t step = static_cast<size_t>(count) / 30 + 1;
  expect_slopes(grad_q, of, inputs, 0, widened(grad_out), step, 1e-5);
  expect_slopes(grad_k, of, inputs, 1, widened(grad_out), step, 1e-5);
  expect_slopes(grad_v, of, inputs, 2, widened(grad_out), step, 1e-5);
  for (const auto* array : {&denominators, &query_peaks, &sums, &scratch}) array->check_zones();
  query_features.check_zones();
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, LinearKernel,
    testing::Values(FeatureCase{FeatureMap::elu, 1, 16, 16, options_of(FeatureMap::elu)},
                    FeatureCase{FeatureMap::elu, 20, 5, 5, unnormalised()},
                    FeatureCase{FeatureMap::elu, 20, 128, 128, options_of(FeatureMap::elu)},
                    FeatureCase{FeatureMap::cosine, 21, 5, 10, options_of(FeatureMap::cosine)},
                    FeatureCase{FeatureMap::cosine, 20, 40, 80, options_of(FeatureMap::cosine)},
                    FeatureCase{FeatureMap::relu, 20, 8, 19, options_of(FeatureMap::relu)},
                    FeatureCase{FeatureMap::relu, 20, 8, 3, guarded()},
                    FeatureCase{FeatureMap::softmax, 20, 8, 33, options_of(FeatureMap::softmax)},
                    FeatureCase{FeatureMap::softmax, 20, 128, 7, options_of(FeatureMap::softmax)},
                    FeatureCase{FeatureMap::softmax, 15, 4, 5, batch_max(false)},
                    FeatureCase{FeatureMap::softmax, 15, 4, 5, batch_max(true)}));

}  // namespace
}  // namespace lra::ops::cuda
