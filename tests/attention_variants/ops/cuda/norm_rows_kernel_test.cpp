// The kernels of layer normalisation, emulated, against float64.
#include "attention_variants/ops/cuda/kernels/rows/norm_rows.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "attention_variants/ops/cuda/kernel_table.h"
#include "tests/attention_variants/ops/cuda/numbers.h"

namespace lra::ops::cuda {
namespace {

using emulator::Array;

struct NormRowsCase {
  int64_t rows;
  int width;
  Storage input = Storage::f32, result = Storage::f32;
  bool masked = true;
  int64_t sharing = 1;  // rows with one gradient, times a factor
};
void PrintTo(const NormRowsCase& c, std::ostream* to) {
  const auto name = [](Storage s) { return s == Storage::f32 ? "f32" : "bf16"; };
  *to << fmt::format("{}x{} of {} to {}, {}, a gradient for {}", c.rows, c.width, name(c.input),
                     name(c.result), c.masked ? "masked" : "all rows", c.sharing);
}

constexpr double kNormEps = 1e-5;

// Inputs, and in float64 what the kernels should make of them.
struct NormRows {
  NormRowsCase c;
  std::vector<bool> mask;
  Array<bool> mask_bytes;
  Numbers x, of_normed, of_past;
  Array<float> weight, bias, factors;
  std::vector<double> normed, grad_x, grad_weight, grad_bias;

  explicit NormRows(const NormRowsCase& of)
      : c(of),
        mask(some_mask(3, c.rows)),
        mask_bytes(c.rows),
        x(with_padding(c.input, 1)),
        of_normed(c.sharing == 1 ? with_padding(c.result, 3)
                                 : random_numbers(c.result, count() / c.sharing, 3)),
        of_past(with_padding(c.input, 4)),
        weight(emulator::random_values(c.width, 5)),
        bias(emulator::random_values(c.width, 6)),
        factors(emulator::random_values(c.rows / c.sharing, 7)),
        grad_weight(static_cast<size_t>(c.width)),
        grad_bias(grad_weight) {
    for (int64_t r = 0; r < c.rows; ++r) mask_bytes[r] = real(r);
    for (int64_t r = 0; r < c.rows; ++r) expect_row(r);
  }

  // Of the last of the samples, the one with holes.
  bool real(int64_t r) const { return !c.masked || mask[static_cast<size_t>(2 * c.rows + r)]; }

  // Rows of padding are NaN: they must not be read.
  Numbers with_padding(Storage storage, uint64_t seed) const {
    Numbers all = random_numbers(storage, count(), seed);
    for (int64_t i = 0; i < count(); ++i) {
      if (!real(i / c.width)) all.set(i, kNan);
    }
    return all;
  }

  double given(int64_t r, int i) const {
    const int64_t row = r / c.sharing;
    return double{of_normed[row * c.width + i]} * (c.sharing == 1 ? 1 : factors[row]);
  }

  void expect_row(int64_t r) {
    std::vector<double> n;
    double mean = 0, variance = 0, g_mean = 0, gn_mean = 0;
    const int64_t begin = r * c.width;
    for (int i = 0; i < c.width; ++i) mean += double{x[begin + i]} / c.width;
    for (int i = 0; i < c.width; ++i) n.push_back(x[begin + i] - mean);
    for (const double v : n) variance += v * v / c.width;
    const double sd = std::sqrt(variance + kNormEps);
    const auto g = [&](int i) { return given(r, i) * weight[i]; };
    for (int i = 0; i < c.width; ++i) {
      n[static_cast<size_t>(i)] /= sd;
      g_mean += g(i) / c.width;
      gn_mean += g(i) * n[static_cast<size_t>(i)] / c.width;
    }
    for (int i = 0; i < c.width; ++i) {
      const auto at = static_cast<size_t>(i);
      normed.push_back(real(r) ? n[at] * weight[i] + bias[i] : 0);
      grad_x.push_back(real(r) ? (g(i) - g_mean - n[at] * gn_mean) / sd + of_past[begin + i] : 0);
      if (!real(r)) continue;
      grad_weight[at] += given(r, i) * n[at];
      grad_bias[at] += given(r, i);
    }
  }

  int64_t count() const { return c.rows * c.width; }
};

class NormRowsKernels : public testing::TestWithParam<NormRowsCase> {
 protected:
  struct Results {
    Numbers normed;
    Array<float> moments;
  };
  static Results forward(NormRows& in) {
    Results out{Numbers(in.c.result, in.count()), Array<float>(2 * in.c.rows)};
    NormRowsParams p;
    p.rows = in.c.rows, p.width = in.c.width, p.eps = kNormEps;
    p.input = in.c.input, p.result = in.c.result;
    p.x = in.x.data(), p.weight = in.weight.data(), p.bias = in.bias.data();
    if (in.c.masked) p.mask = in.mask_bytes.data();
    p.normed = out.normed.data(), p.moments = out.moments.data();
    lra_cuda_kernels()->norm_rows(p, nullptr);
    return out;
  }

  struct Gradients {
    Numbers x;
    Array<float> weight_and_bias;
  };
  static Gradients backward(NormRows& in, Results& of) {
    const int64_t parts = norm_parts(in.c.rows);
    Array<float> scratch(parts * 2 * in.c.width);
    Gradients out{Numbers(in.c.input, in.count()), Array<float>(2 * in.c.width)};
    NormRowsBackwardParams p;
    p.rows = in.c.rows, p.width = in.c.width, p.input = in.c.input, p.result = in.c.result;
    p.x = in.x.data(), p.weight = in.weight.data(), p.moments = of.moments.data();
    if (in.c.masked) p.mask = in.mask_bytes.data();
    p.grad_normed = in.of_normed.data(), p.grad_past = in.of_past.data();
    if (in.c.sharing > 1) p.sharing = in.c.sharing, p.factors = in.factors.data();
    p.grad_x = out.x.data(), p.parts = scratch.data();
    lra_cuda_kernels()->norm_rows_backward(p, nullptr);
    const PartSums sums = {.parts = scratch.data(),
                           .count = parts,
                           .columns = int64_t{2} * in.c.width,
                           .sum = out.weight_and_bias.data()};
    lra_cuda_kernels()->sum_parts({.first = sums, .second = {}}, nullptr);
    scratch.check_zones();
    return out;
  }
};

TEST_P(NormRowsKernels, AreTheFormula) {
  NormRows in(GetParam());
  Results out = forward(in);
  expect_near(out.normed, in.normed, in.c.result, 32);
  out.moments.check_zones();
}

TEST_P(NormRowsKernels, HaveTheGradients) {
  NormRows in(GetParam());
  Results out = forward(in);
  const Gradients gradients = backward(in, out);
  expect_near(gradients.x, in.grad_x, in.c.input, 32);
  std::vector<double> both = in.grad_weight;
  both.insert(both.end(), in.grad_bias.begin(), in.grad_bias.end());
  expect_near(gradients.weight_and_bias, both, Storage::f32, 64);
}

TEST_P(NormRowsKernels, AreTheSameInEveryOrder) {
  NormRows in(GetParam());
  EXPECT_TRUE(emulator::same_in_every_order([&] {
    Results out = forward(in);
    const Gradients gradients = backward(in, out);
    std::vector<float> all = out.normed.values(), more = gradients.x.values();
    all.insert(all.end(), more.begin(), more.end());
    all.insert(all.end(), gradients.weight_and_bias.begin(), gradients.weight_and_bias.end());
    return all;
  }));
}

constexpr Storage kB16 = Storage::bf16, kF32 = Storage::f32;
INSTANTIATE_TEST_SUITE_P(Shapes, NormRowsKernels,
                         testing::Values(NormRowsCase{1, 1}, NormRowsCase{1, 64},
                                         NormRowsCase{70, 64}, NormRowsCase{9, 100, kF32, kB16},
                                         NormRowsCase{19, 128, kB16, kB16},
                                         NormRowsCase{5, 256, kF32, kF32, false},
                                         NormRowsCase{17, 64, kF32, kB16, false},
                                         NormRowsCase{70, 64, kF32, kF32, true, 35},
                                         NormRowsCase{12, 33, kB16, kB16, true, 4},
                                         NormRowsCase{3, 512, kF32, kF32, false},
                                         NormRowsCase{2, 1000}, NormRowsCase{2, 1024, kB16, kB16},
                                         NormRowsCase{4200, 3}));
INSTANTIATE_TEST_SUITE_P(SlowShapes, NormRowsKernels,
                         testing::Values(NormRowsCase{5000, 64},
                                         NormRowsCase{4099, 128, kF32, kB16},
                                         NormRowsCase{777, 1024}));

// Each in its blocks.
TEST(SumPartsKernel, AddsUpTwoInOneLaunch) {
  const auto sums_of = [](int64_t count, int64_t columns) {
    const Array<float> parts(emulator::random_values(count * columns, 8));
    std::vector<double> exact(static_cast<size_t>(columns));
    for (int64_t i = 0; i < parts.size(); ++i) exact[static_cast<size_t>(i % columns)] += parts[i];
    return std::pair(parts, exact);
  };
  for (const auto& [count, columns] : {std::pair{1, 1}, {9, 64}, {512, 33}}) {
    const auto [parts, exact] = sums_of(count, columns);
    const auto [more, more_exact] = sums_of(7, 40);
    Array<float> sum(columns), other(40);
    const int64_t before = emulator::launches();
    lra_cuda_kernels()->sum_parts(
        {.first = {.parts = parts.data(), .count = count, .columns = columns, .sum = sum.data()},
         .second = {.parts = more.data(), .count = 7, .columns = 40, .sum = other.data()}},
        nullptr);
    EXPECT_EQ(emulator::launches() - before, 1);
    expect_near(sum, exact, kF32, 64);
    expect_near(other, more_exact, kF32, 64);
  }
}

}  // namespace
}  // namespace lra::ops::cuda
