// The kernels of bias, activation, dropout and residual sum, emulated, against float64.
#include "attention_variants/ops/cuda/kernels/rows/dropout_rows.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <vector>

#include "attention_variants/ops/cuda/kernels/rows/sum_parts.h"
#include "tests/attention_variants/ops/cuda/numbers.h"

namespace lra::ops::cuda {
namespace {

using emulator::Array;

struct RowsCase {
  int64_t rows;
  int width;
  Activation activation = Activation::gelu;
  uint32_t threshold = 0;
  int64_t first = 0;
  bool masked = true;
  bool biased = true, residual = true;
  Storage branch = Storage::f32, result = Storage::f32;
};
void PrintTo(const RowsCase& c, std::ostream* to) {
  *to << fmt::format(
      "{}x{}, activation {}, {} of 65536 dropped from {} on, mask {}, bias {}, "
      "residual {}, storage {} {}",
      c.rows, c.width, static_cast<int>(c.activation), c.threshold, c.first, c.masked, c.biased,
      c.residual, static_cast<int>(c.branch), static_cast<int>(c.result));
}

constexpr uint64_t kRowsSeed = 0x0123456789ABCDEF;

double activated(Activation activation, double x) {
  const double cubic = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::gelu:
      return x * 0.5 * (1 + std::erf(x / std::numbers::sqrt2));
    case Activation::gelu_tanh:
      return 0.5 * x * (1 + std::tanh(cubic));
  }
  return 0;
}
double slope(Activation activation, double x) {
  constexpr double kStep = 1e-5;
  return (activated(activation, x + kStep) - activated(activation, x - kStep)) / (2 * kStep);
}

// Inputs, what the kernels make of them, and what they should.
class RowsRun {
 public:
  explicit RowsRun(const RowsCase& of)
      : c(of),
        mask(some_mask(3, (of.rows + 2) / 3)),
        given_mask(mask),
        x(random(1, of.branch)),
        residual(random(2, of.result)),
        grad(random(3, of.result)),
        y(of.result, count()),
        grad_x(of.branch, count()),
        dropped(of.branch, count()),
        bias(emulator::random_values(of.width, 4)),
        parts(dropout_rows_parts(of.rows) * of.width) {}

  int64_t count() const { return c.rows * c.width; }
  bool real(int64_t i) const { return !c.masked || mask[static_cast<size_t>(i / c.width)]; }
  double before(int64_t i) const { return x[i] + (c.biased ? bias[i % c.width] : 0.0F); }
  double factor(int64_t i) const {
    if (!real(i)) return 0;
    return dropout_keeps(kRowsSeed, c.threshold, c.first + i) ? 65536.0 / (65536 - c.threshold) : 0;
  }
  DropoutRowsParams params() {
    return {.rows = c.rows,
            .width = c.width,
            .activation = c.activation,
            .branch = c.branch,
            .result = c.result,
            .x = x.data(),
            .bias = c.biased ? bias.data() : nullptr,
            .residual = c.residual ? residual.data() : nullptr,
            .mask = c.masked ? given_mask.data() : nullptr,
            .dropout = {.seed = kRowsSeed,
                        .threshold = c.threshold,
                        .scale = 65536.0F / static_cast<float>(65536 - c.threshold),
                        .first = c.first},
            .y = y.data(),
            .grad = grad.data(),
            .grad_x = grad_x.data(),
            .dropped = dropped.data(),
            .parts = parts.data(),
            .part_stride = c.width};
  }

  RowsCase c;
  std::vector<bool> mask;
  Array<bool> given_mask;
  Numbers x, residual, grad, y, grad_x, dropped;
  Array<float> bias, parts;

 private:
  Numbers random(uint64_t seed, Storage storage) const {  // padding NaN
    Numbers all = random_numbers(storage, count(), seed, 3);
    for (int64_t i = 0; i < count(); ++i) {
      if (!real(i)) all.set(i, kNan);
    }
    return all;
  }
};

class DropoutRowsKernels : public testing::TestWithParam<RowsCase> {};

TEST_P(DropoutRowsKernels, AreTheFormulaAndItsGradients) {
  RowsRun run(GetParam());
  const RowsCase& c = run.c;
  launch_dropout_rows_forward(run.params(), nullptr);
  launch_dropout_rows_backward(run.params(), nullptr);
  Array<float> grad_bias(c.width);
  launch_sum_parts({.first = {.parts = run.parts.data(),
                              .count = dropout_rows_parts(c.rows),
                              .columns = c.width,
                              .sum = grad_bias.data()},
                    .second = {}},
                   nullptr);
  std::vector<double> y, grad_x, dropped, sums(static_cast<size_t>(c.width));
  for (int64_t i = 0; i < run.count(); ++i) {
    const bool real = run.real(i);
    const double x = real ? run.before(i) : 0, by = run.factor(i);
    dropped.push_back(by * activated(c.activation, x));
    y.push_back(dropped.back() + (c.residual && real ? run.residual[i] : 0));
    grad_x.push_back(real ? by * run.grad[i] * slope(c.activation, x) : 0);
    sums[static_cast<size_t>(i % c.width)] += run.grad_x[i];
  }
  expect_near(run.y, y, c.result == Storage::f32 ? c.branch : c.result);
  expect_near(run.grad_x, grad_x, c.branch);
  expect_near(run.dropped, dropped, c.branch);
  expect_near(grad_bias, sums, Storage::f32);
  run.parts.check_zones();
}

TEST(DropoutRowsKernels, AreTheSameInEveryOrder) {
  EXPECT_TRUE(emulator::same_in_every_order([] {
    RowsRun run({.rows = 70, .width = 40, .threshold = 6554, .first = 7});
    launch_dropout_rows_forward(run.params(), nullptr);
    launch_dropout_rows_backward(run.params(), nullptr);
    std::vector<float> all(run.parts.begin(), run.parts.end());
    for (const Numbers* of : {&run.y, &run.grad_x, &run.dropped}) {
      const std::vector<float> values = of->values();
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }));
}

TEST(DropoutRowsKernels, WriteOverWhatTheyRead) {
  RowsRun apart({.rows = 9, .width = 50, .threshold = 6554}), over(apart);
  launch_dropout_rows_forward(apart.params(), nullptr);
  launch_dropout_rows_backward(apart.params(), nullptr);
  DropoutRowsParams p = over.params();
  p.grad_x = over.grad.data();
  launch_dropout_rows_backward(p, nullptr);
  p.y = over.x.data();
  launch_dropout_rows_forward(p, nullptr);
  EXPECT_EQ(over.x.values(), apart.y.values());
  EXPECT_EQ(over.grad.values(), apart.grad_x.values());
}

// A captured CUDA graph is given a new seed before each replay.
TEST(DropoutRowsKernels, ReadTheSeedOfTheDevice) {
  RowsRun given({.rows = 9, .width = 50, .threshold = 6554}), there(given);
  launch_dropout_rows_forward(given.params(), nullptr);
  const uint64_t seed = kRowsSeed;
  DropoutRowsParams p = there.params();
  p.dropout.seed = 1;
  p.dropout.device_seed = &seed;
  launch_dropout_rows_forward(p, nullptr);
  EXPECT_EQ(there.y.values(), given.y.values());
}

constexpr Storage kRowsF32 = Storage::f32, kRowsBf16 = Storage::bf16;
INSTANTIATE_TEST_SUITE_P(
    Shapes, DropoutRowsKernels,
    testing::Values(
        RowsCase{1, 1}, RowsCase{9, 5, Activation::gelu_tanh, 6554, 130},
        RowsCase{37, 64, Activation::gelu, 6554}, RowsCase{20, 130, Activation::none, 30000, 128},
        RowsCase{20, 33, Activation::none, 6554, 1, true, false, false},
        RowsCase{20, 33, Activation::gelu, 0, 0, false, true, false},
        RowsCase{30, 64, Activation::gelu, 6554, 0, true, true, false, kRowsBf16, kRowsBf16},
        RowsCase{30, 64, Activation::none, 6554, 0, true, true, true, kRowsBf16, kRowsF32}));
INSTANTIATE_TEST_SUITE_P(SlowShapes, DropoutRowsKernels,
                         testing::Values(RowsCase{1000, 128, Activation::gelu, 6554},
                                         RowsCase{9000, 3, Activation::gelu_tanh, 6554, 1000},
                                         RowsCase{40, 1000, Activation::gelu, 6554, 77}));

}  // namespace
}  // namespace lra::ops::cuda
