// The kernels of attention among hashed tokens, emulated, against float64.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "attention_variants/ops/cuda/kernel_table.h"
#include "tests/attention_variants/ops/cuda/slopes.h"

namespace lra::ops::cuda {
namespace {

using emulator::Array;
using emulator::random_values;

struct LshCase {
  int heads, length, depth, rounds, chunk, before, after;
  KeyScale key_scale;
  std::vector<int> factors;
};

// One sample, a token in four of padding.
class LshKernel : public testing::TestWithParam<LshCase> {
 protected:
  LshKernel() {
    int factors = 0;
    for (const int factor : c_.factors) {
      p_.buckets.factors[p_.buckets.factor_count++] = factor;
      buckets_ *= factor;
      factors += factor;
    }
    p_.buckets.width = factors / 2;
    p_.buckets.count = buckets_;
    p_.batch = 1, p_.heads = c_.heads, p_.length = c_.length, p_.depth = c_.depth;
    p_.rounds = c_.rounds, p_.chunk = c_.chunk, p_.before = c_.before, p_.after = c_.after;
    p_.chunks = (c_.length + c_.chunk - 1) / c_.chunk;
    p_.key_scale = c_.key_scale;
    for (int i = 0; i < c_.length; ++i) mask_[i] = i % 4 != 2;
    p_.mask = mask_.data();
    places_ = p_.chunks * p_.chunk;
  }

  // A token's bucket in a round, by float64.
  int bucket(const Doubles& x, const Array<float>& rotations, int head, int round, int i) const {
    int at = 0, stride = 1;
    size_t row = (static_cast<size_t>(head) * c_.rounds + round) * p_.buckets.width;
    for (const int factor : c_.factors) {
      Doubles products(static_cast<size_t>(factor));
      for (int j = 0; j < factor / 2; ++j, ++row) {
        double sum = 0;
        for (int d = 0; d < c_.depth; ++d)
          sum += x[(static_cast<size_t>(head) * c_.length + i) * c_.depth + d] *
                 rotations[static_cast<int64_t>(row) * c_.depth + d];
        products[static_cast<size_t>(j)] = sum;
        products[static_cast<size_t>(j + factor / 2)] = -sum;
      }
      at += stride *
            static_cast<int>(std::max_element(products.begin(), products.end()) - products.begin());
      stride *= factor;
    }
    return at;
  }

  // Given in x and v, by the rounds' order.
  Doubles formula(const std::vector<Doubles>& in, const Array<int32_t>& order) const {
    const int n = c_.length, d = c_.depth, chunks = c_.rounds * p_.chunks;
    Doubles out(in[0].size(), 0.0), sums(in[0].size() / static_cast<size_t>(d), 0.0);
    for (int head = 0; head < c_.heads; ++head) {
      const auto at = [&](int row) { return (static_cast<size_t>(head) * n + row) * d; };
      const auto token = [&](int chunk, int t) {
        return order[int64_t{head} * c_.rounds * places_ + (chunk + chunks) % chunks * c_.chunk +
                     t];
      };
      for (int pair = 0; pair < chunks * c_.chunk; ++pair) {
        const int chunk = pair / c_.chunk, i = token(chunk, pair % c_.chunk);
        if (i < 0) continue;
        const bool alone = n == 1;  // sees itself only where it sees nothing else
        for (int other = chunk - c_.before; other <= chunk + c_.after; ++other) {
          for (int t = 0; t < c_.chunk; ++t) {
            const int j = token(other + chunks, t);
            if (j < 0 || (j == i && !alone)) continue;
            double product = 0, squares = 0;
            for (int x = 0; x < d; ++x) {
              product += in[0][at(i) + x] * in[0][at(j) + x];
              squares += in[0][at(j) + x] * in[0][at(j) + x];
            }
            const double scale = c_.key_scale == KeyScale::rms ? 1 / std::sqrt(squares + 1e-6 * d)
                                                               : 1 / std::sqrt(squares * d);
            const double weight = alone ? 1.0 : std::exp(product * scale);
            sums[at(i) / d] += weight;
            for (int x = 0; x < d; ++x) out[at(i) + x] += weight * in[1][at(j) + x];
          }
        }
      }
    }
    for (size_t x = 0; x < out.size(); ++x)
      if (sums[x / d] > 0) out[x] /= sums[x / d];
    return out;
  }

  const LshCase c_ = GetParam();
  LshParams p_ = {};
  int buckets_ = 1, places_ = 0;
  Array<bool> mask_{c_.length};
};

TEST_P(LshKernel, IsTheFormula) {
  const int64_t rows = int64_t{c_.heads} * c_.length, count = rows * c_.depth;
  const Array<float> x(random_values(count, 1, 2)), v(random_values(count, 3)),
      grad_out(random_values(count, 4)),
      rotations(random_values(int64_t{c_.heads} * c_.rounds * p_.buckets.width * c_.depth, 5));
  Array<float> out(count), factors(rows), top(rows), inverse(rows), grad_x(count), grad_v(count),
      forward(lsh_forward_scratch(p_)), backward(lsh_backward_scratch(p_));
  Array<int32_t> order(int64_t{c_.heads} * c_.rounds * places_);
  const auto heads = [&](auto* of) { return contiguous_heads(of, c_.heads, c_.length, c_.depth); };
  const auto read = [&](const Array<float>& of) {
    return heads(static_cast<const void*>(of.data()));
  };
  const auto write = [&](Array<float>& of) { return heads(static_cast<void*>(of.data())); };
  p_.buckets.rotations = rotations.data();
  p_.x = read(x), p_.v = read(v), p_.grad_out = read(grad_out);
  p_.out = write(out), p_.grad_x = write(grad_x), p_.grad_v = write(grad_v);
  p_.order = order.data(), p_.factors = factors.data();
  p_.top = top.data(), p_.inverse = inverse.data(), p_.scratch = forward.data();
  lra_cuda_kernels()->lsh_forward(p_, nullptr);
  p_.scratch = backward.data();
  lra_cuda_kernels()->lsh_backward(p_, nullptr);

  const std::vector<Doubles> inputs = {widened(x), widened(v)};
  for (int round = 0; round < c_.heads * c_.rounds; ++round) {
    std::vector<std::pair<int, int>> sorted;
    for (int i = 0; i < c_.length; ++i) {
      if (mask_[i])
        sorted.emplace_back(bucket(inputs[0], rotations, round / c_.rounds, round % c_.rounds, i),
                            i);
    }
    std::sort(sorted.begin(), sorted.end());
    for (int t = 0; t < places_; ++t) {
      const int expected = t < std::ssize(sorted) ? sorted[static_cast<size_t>(t)].second : -1;
      ASSERT_EQ(order[int64_t{round} * places_ + t], expected) << round << ", " << t;
    }
  }
  const Formula of = [&](const auto& in) { return formula(in, order); };
  expect_near(out, of(inputs), 2e-6);
  const size_t step = static_cast<size_t>(count) / 40 + 1;
  expect_slopes(grad_x, of, inputs, 0, widened(grad_out), step, 1e-5);
  expect_slopes(grad_v, of, inputs, 1, widened(grad_out), step, 5e-6);
  for (const auto* array : {&top, &inverse, &factors, &forward, &backward}) array->check_zones();
  order.check_zones();
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, LshKernel,
    testing::Values(LshCase{1, 1, 16, 1, 1, 0, 0, KeyScale::rms, {}},
                    LshCase{2, 20, 5, 1, 20, 0, 0, KeyScale::rms, {}},
                    LshCase{2, 41, 32, 2, 8, 1, 0, KeyScale::rms, {6}},
                    LshCase{1, 75, 64, 3, 16, 1, 1, KeyScale::unit, {4, 6}},
                    LshCase{1, 70, 8, 1, 66, 1, 0, KeyScale::unit, {2}},
                    // Fewer chunks than a chunk sees: some are seen more than once.
                    LshCase{1, 30, 128, 1, 16, 2, 0, KeyScale::rms, {4}}));

}  // namespace
}  // namespace lra::ops::cuda
