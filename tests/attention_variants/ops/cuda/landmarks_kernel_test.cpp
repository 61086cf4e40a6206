// The kernels of landmarks, emulated, against float64.
#include "attention_variants/ops/cuda/kernels/heads/landmarks.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/attention_variants/ops/cuda/numbers.h"

namespace lra::ops::cuda {
namespace {

using emulator::Array;

struct LandmarksCase {
  int length, landmarks, depth;
  Segments segments = Segments::disjoint;
  SegmentMeanOver over = SegmentMeanOver::tokens;
  bool masked = true;
  Storage storage = Storage::f32;
};
void PrintTo(const LandmarksCase& c, std::ostream* to) {
  *to << fmt::format("{} positions, {} landmarks, d {}, {}, over {}, {}, {}", c.length, c.landmarks,
                     c.depth, c.segments == Segments::disjoint ? "disjoint" : "overlapping",
                     c.over == SegmentMeanOver::tokens ? "tokens" : "positions",
                     c.masked ? "masked" : "all tokens",
                     c.storage == Storage::f32 ? "f32" : "bf16");
}

constexpr int kLandmarkBatch = 3, kLandmarkHeads = 2;

// Heads as a projection leaves them: [B,N,H,d].
Heads interleaved(const void* data, const LandmarksCase& c) {
  return {data, int64_t{c.length} * kLandmarkHeads * c.depth, c.depth,
          int64_t{kLandmarkHeads} * c.depth};
}
MutableHeads interleaved_result(void* data, const LandmarksCase& c) {
  const Heads heads = interleaved(data, c);
  return {data, heads.batch, heads.head, heads.row};
}

class LandmarkKernels : public testing::TestWithParam<LandmarksCase> {
 protected:
  // Positions of segment i by the definition, [begin, end).
  static std::pair<int, int> segment(const LandmarksCase& c, int i) {
    if (c.segments == Segments::overlapping)
      return {i * c.length / c.landmarks, ((i + 1) * c.length + c.landmarks - 1) / c.landmarks};
    int begin = 0;
    for (int before = 0; before <= i; ++before) {
      const int size =
          c.length / c.landmarks + (before >= c.landmarks - c.length % c.landmarks ? 1 : 0);
      if (before == i) return {begin, begin + size};
      begin += size;
    }
    return {};
  }
  static bool real(const LandmarksCase& c, const std::vector<bool>& mask, int b, int n) {
    return !c.masked || mask[static_cast<size_t>(b * c.length + n)];
  }
  // What the rows of segment i of sample b are multiplied by.
  static double factor(const LandmarksCase& c, const std::vector<bool>& mask, int b, int i) {
    const auto [begin, end] = segment(c, i);
    int tokens = 0;
    for (int n = begin; n < end; ++n) tokens += real(c, mask, b, n) ? 1 : 0;
    return tokens == 0 ? 0 : 1.0 / (c.over == SegmentMeanOver::tokens ? tokens : end - begin);
  }
  static int64_t at(const LandmarksCase& c, int b, int h, int n, int x) {
    return ((int64_t{b} * c.length + n) * kLandmarkHeads + h) * c.depth + x;
  }
  static int64_t mean_at(const LandmarksCase& c, int b, int h, int i, int x) {
    return ((int64_t{b} * kLandmarkHeads + h) * c.landmarks + i) * c.depth + x;
  }
  static Numbers inputs(const LandmarksCase& c, const std::vector<bool>& mask, uint64_t seed) {
    Numbers all = random_numbers(
        c.storage, int64_t{kLandmarkBatch} * c.length * kLandmarkHeads * c.depth, seed);
    for (int b = 0; b < kLandmarkBatch; ++b) {
      for (int n = 0; n < c.length; ++n) {
        for (int x = 0; x < kLandmarkHeads * c.depth && !real(c, mask, b, n); ++x)
          all.set(at(c, b, 0, n, x), kNan);
      }
    }
    return all;
  }
};

TEST_P(LandmarkKernels, AreTheMeansAndTheirGradients) {
  const LandmarksCase& c = GetParam();
  const std::vector<bool> mask = some_mask(kLandmarkBatch, c.length);
  const int64_t means = int64_t{kLandmarkBatch} * kLandmarkHeads * c.landmarks * c.depth;
  Numbers q = inputs(c, mask, 1), k = inputs(c, mask, 2), q_means(c.storage, means),
          k_means(c.storage, means), grad_q_means = random_numbers(c.storage, means, 3),
          grad_k_means = random_numbers(c.storage, means, 4), grad_q = inputs(c, mask, 5),
          grad_k = inputs(c, mask, 6);
  const Numbers past_q = grad_q, past_k = grad_k;
  const Array<bool> given_mask(mask);
  Array<float> factors(int64_t{kLandmarkBatch} * c.landmarks);
  Array<bool> reals(int64_t{kLandmarkBatch} * c.landmarks);
  const LandmarksParams p{.storage = c.storage,
                          .segments = c.segments,
                          .over = c.over,
                          .batch = kLandmarkBatch,
                          .heads = kLandmarkHeads,
                          .length = c.length,
                          .depth = c.depth,
                          .landmarks = c.landmarks,
                          .q = interleaved(q.data(), c),
                          .k = interleaved(k.data(), c),
                          .mask = c.masked ? given_mask.data() : nullptr,
                          .q_means = q_means.data(),
                          .k_means = k_means.data(),
                          .factors = factors.data(),
                          .real = reals.data(),
                          .grad_q_means = grad_q_means.data(),
                          .grad_k_means = grad_k_means.data(),
                          .grad_q = interleaved_result(grad_q.data(), c),
                          .grad_k = interleaved_result(grad_k.data(), c)};
  launch_landmarks_forward(p, nullptr);
  launch_landmarks_backward(p, nullptr);
  std::vector<double> exact_q(static_cast<size_t>(means)), exact_k = exact_q;
  std::vector<double> sum_q, sum_k;
  for (const float x : past_q.values()) sum_q.push_back(x);
  for (const float x : past_k.values()) sum_k.push_back(x);
  for (int b = 0; b < kLandmarkBatch; ++b) {
    for (int i = 0; i < c.landmarks; ++i) {
      const double by = factor(c, mask, b, i);
      ASSERT_NEAR(factors[b * c.landmarks + i], by, 1e-7);
      ASSERT_EQ(reals[b * c.landmarks + i], by > 0);
      const auto [begin, end] = segment(c, i);
      for (int n = begin; n < end; ++n) {
        if (!real(c, mask, b, n)) continue;
        for (int h = 0; h < kLandmarkHeads; ++h) {
          for (int x = 0; x < c.depth; ++x) {
            const auto from = static_cast<size_t>(at(c, b, h, n, x)),
                       to = static_cast<size_t>(mean_at(c, b, h, i, x));
            exact_q[to] += by * q[static_cast<int64_t>(from)];
            exact_k[to] += by * k[static_cast<int64_t>(from)];
            sum_q[from] += by * grad_q_means[static_cast<int64_t>(to)];
            sum_k[from] += by * grad_k_means[static_cast<int64_t>(to)];
          }
        }
      }
    }
  }
  expect_near(q_means, exact_q, c.storage);
  expect_near(k_means, exact_k, c.storage);
  const auto near_at_tokens = [&](const Numbers& results, std::vector<double> exact) {
    for (int64_t i = 0; i < static_cast<int64_t>(exact.size()); ++i) {
      const auto row = static_cast<int>(i / (kLandmarkHeads * c.depth));
      if (real(c, mask, row / c.length, row % c.length)) {
        ASSERT_NEAR(results[i], exact[static_cast<size_t>(i)],
                    c.storage == Storage::f32 ? 1e-6 : 2e-2)
            << i;
      } else {
        ASSERT_TRUE(std::isnan(results[i])) << i;  // not touched
      }
    }
    results.check_zones();
  };
  near_at_tokens(grad_q, sum_q);
  near_at_tokens(grad_k, sum_k);
  factors.check_zones();
  reals.check_zones();
}

constexpr Segments kOverlapping = Segments::overlapping;
INSTANTIATE_TEST_SUITE_P(
    Shapes, LandmarkKernels,
    testing::Values(LandmarksCase{1, 1, 16}, LandmarksCase{3, 8, 20},
                    LandmarksCase{3, 8, 20, kOverlapping}, LandmarksCase{40, 7, 32},
                    LandmarksCase{40, 7, 32, kOverlapping},
                    LandmarksCase{33, 8, 65, Segments::disjoint, SegmentMeanOver::positions},
                    LandmarksCase{33, 8, 16, kOverlapping, SegmentMeanOver::positions},
                    LandmarksCase{33, 8, 16, Segments::disjoint, SegmentMeanOver::positions, false},
                    LandmarksCase{40, 7, 32, Segments::disjoint, SegmentMeanOver::tokens, true,
                                  Storage::bf16}));
INSTANTIATE_TEST_SUITE_P(SlowShapes, LandmarkKernels,
                         testing::Values(LandmarksCase{257, 64, 128}, LandmarksCase{300, 1, 32},
                                         LandmarksCase{257, 64, 128, kOverlapping}));

}  // namespace
}  // namespace lra::ops::cuda
