// The kernels of the depthwise convolution, emulated, against float64.
#include "attention_variants/ops/cuda/kernels/rows/depthwise_conv.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/attention_variants/ops/cuda/numbers.h"

namespace lra::ops::cuda {
namespace {

using emulator::Array;

struct ConvCase {
  int length, depth, taps;
  bool masked = true;
  Storage storage = Storage::f32;
};
void PrintTo(const ConvCase& c, std::ostream* to) {
  *to << fmt::format("{} positions, d {}, {} taps, {}, {}", c.length, c.depth, c.taps,
                     c.masked ? "masked" : "all tokens",
                     c.storage == Storage::f32 ? "f32" : "bf16");
}

constexpr int kConvBatch = 3, kConvHeads = 2;

// Heads [B,H,N,d].
struct ConvData {
  explicit ConvData(const ConvCase& of)
      : c(of), mask(some_mask(kConvBatch, of.length)), given_mask(mask), taps(random_taps(of)) {}

  static Array<float> random_taps(const ConvCase& c) {
    return Array<float>(emulator::random_values(int64_t{kConvHeads} * c.taps, 9));
  }
  bool real(int b, int n) const { return !c.masked || mask[static_cast<size_t>(b * c.length + n)]; }
  int64_t at(int b, int h, int n, int x) const {
    return ((int64_t{b} * kConvHeads + h) * c.length + n) * c.depth + x;
  }
  int64_t count() const { return int64_t{kConvBatch} * kConvHeads * c.length * c.depth; }
  Numbers random(uint64_t seed) const {  // padding NaN
    Numbers all = random_numbers(c.storage, count(), seed);
    each([&](int b, int, int n, int64_t i) {
      if (!real(b, n)) all.set(i, kNan);
    });
    return all;
  }
  template <class Body>
  void each(const Body& body) const {
    for (int b = 0; b < kConvBatch; ++b) {
      for (int h = 0; h < kConvHeads; ++h) {
        for (int n = 0; n < c.length; ++n) {
          for (int x = 0; x < c.depth; ++x) body(b, h, n, at(b, h, n, x));
        }
      }
    }
  }
  // x at `places` further on, zero where nothing is.
  double value(const Numbers& of, int b, int n, int64_t i, int places) const {
    const int from = n + places;
    if (from < 0 || from >= c.length || !real(b, from)) return 0;
    return of[i + int64_t{places} * c.depth];
  }
  Heads heads(const void* data) const {
    return {data, int64_t{kConvHeads} * c.length * c.depth, int64_t{c.length} * c.depth, c.depth};
  }
  MutableHeads result(void* data) const {
    const Heads all = heads(data);
    return {data, all.batch, all.head, all.row};
  }
  const bool* mask_data() const { return c.masked ? given_mask.data() : nullptr; }

  ConvCase c;
  std::vector<bool> mask;
  Array<bool> given_mask;
  Array<float> taps;  // [H,K]
};

class ConvKernels : public testing::TestWithParam<ConvCase> {};

TEST_P(ConvKernels, AreTheSumsOverTaps) {
  const ConvData data(GetParam());
  const ConvCase& c = data.c;
  Numbers x = data.random(1);
  for (const bool reversed : {false, true}) {
    for (const bool add : {false, true}) {
      Numbers y = data.random(2);
      const Numbers before = y;
      launch_depthwise_conv({.storage = c.storage,
                             .batch = kConvBatch,
                             .heads = kConvHeads,
                             .length = c.length,
                             .depth = c.depth,
                             .taps = c.taps,
                             .reversed = reversed,
                             .add = add,
                             .x = data.heads(x.data()),
                             .x_mask = data.mask_data(),
                             .weights = data.taps.data(),
                             .y = data.result(y.data()),
                             .y_mask = data.mask_data()},
                            nullptr);
      std::vector<double> exact(static_cast<size_t>(data.count()));
      data.each([&](int b, int h, int n, int64_t i) {
        double& sum = exact[static_cast<size_t>(i)];
        if (!data.real(b, n)) return;
        if (add) sum = before[i];
        for (int j = 0; j < c.taps; ++j) {
          const int places = j - (c.taps - 1) / 2;
          sum += data.taps[h * c.taps + j] * data.value(x, b, n, i, reversed ? -places : places);
        }
      });
      expect_near(y, exact, c.storage);
    }
  }
}

TEST_P(ConvKernels, AreTheGradientOfTheTaps) {
  const ConvData data(GetParam());
  const ConvCase& c = data.c;
  Numbers x = data.random(1), grad = data.random(2);
  Array<float> scratch(depthwise_conv_scratch(kConvBatch, kConvHeads, c.length, c.depth, c.taps));
  const auto gradient = [&] {
    Array<float> result(int64_t{kConvHeads} * c.taps);
    launch_depthwise_conv_weight_grad({.storage = c.storage,
                                       .batch = kConvBatch,
                                       .heads = kConvHeads,
                                       .length = c.length,
                                       .depth = c.depth,
                                       .taps = c.taps,
                                       .x = data.heads(x.data()),
                                       .grad_y = data.heads(grad.data()),
                                       .x_mask = data.mask_data(),
                                       .y_mask = data.mask_data(),
                                       .scratch = scratch.data(),
                                       .grad_weights = result.data()},
                                      nullptr);
    result.check_zones();
    scratch.check_zones();
    return result;
  };
  const Array<float> result = gradient();
  std::vector<double> exact(static_cast<size_t>(kConvHeads * c.taps));
  data.each([&](int b, int h, int n, int64_t i) {
    if (!data.real(b, n)) return;
    for (int j = 0; j < c.taps; ++j)
      exact[static_cast<size_t>(h * c.taps + j)] +=
          grad[i] * data.value(x, b, n, i, j - (c.taps - 1) / 2);
  });
  expect_near(result, exact, Storage::f32);
  EXPECT_TRUE(emulator::same_in_every_order(gradient));
}

INSTANTIATE_TEST_SUITE_P(Shapes, ConvKernels,
                         testing::Values(ConvCase{1, 16, 1}, ConvCase{70, 20, 33},
                                         ConvCase{5, 33, 9, false}, ConvCase{66, 16, 4},
                                         ConvCase{70, 32, 33, true, Storage::bf16}));
INSTANTIATE_TEST_SUITE_P(SlowShapes, ConvKernels,
                         testing::Values(ConvCase{300, 128, 33}, ConvCase{20, 16, kMostTaps}));

}  // namespace
}  // namespace lra::ops::cuda
