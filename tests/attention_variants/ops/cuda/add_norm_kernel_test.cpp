// The kernels of dropout, residual sum and layer normalisation, emulated, against float64.
#include "attention_variants/ops/cuda/kernels/rows/add_norm.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "attention_variants/ops/cuda/kernel_table.h"
#include "attention_variants/ops/types.h"
#include "tests/attention_variants/ops/cuda/numbers.h"

namespace lra::ops::cuda {
namespace {

using emulator::Array;

struct AddNormCase {
  int64_t rows;
  int width;
  Storage residual = Storage::f32, added = Storage::f32, result = Storage::f32;
  bool with_y = true, with_norm = true, masked = true;
};
void PrintTo(const AddNormCase& c, std::ostream* to) {
  const auto name = [](Storage s) { return s == Storage::f32 ? "f32" : "bf16"; };
  *to << fmt::format("{}x{} of {}, {} and {}, {} y, {} norm, {}", c.rows, c.width, name(c.residual),
                     name(c.added), name(c.result), c.with_y ? "with" : "no",
                     c.with_norm ? "with" : "no", c.masked ? "masked" : "all rows");
}

constexpr double kEps = 1e-5;

// Inputs, and in float64 what the kernels should make of them.
struct AddNorm {
  AddNormCase c;
  std::vector<bool> mask;
  Array<bool> mask_bytes;
  Numbers x, y, of_normed, of_sum;
  Array<float> weight, bias;
  DropoutStream dropout;
  std::vector<double> sum, normed, grad_x, grad_y, grad_weight, grad_bias;

  explicit AddNorm(const AddNormCase& of)
      : c(of),
        mask(some_mask(3, c.rows)),
        mask_bytes(c.rows),
        x(with_padding(c.residual, 1)),
        y(with_padding(c.added, 2)),
        of_normed(with_padding(c.result, 3)),
        of_sum(with_padding(c.residual, 4)),
        weight(emulator::random_values(c.width, 5)),
        bias(emulator::random_values(c.width, 6)),
        dropout{.seed = 0x123456789ABCDEF,
                .threshold = 6554,
                .scale = static_cast<float>(dropout_scale(6554)),
                .first = 77} {
    for (int64_t r = 0; r < c.rows; ++r) mask_bytes[r] = real(r);
    grad_weight.assign(static_cast<size_t>(c.width), 0);
    grad_bias = grad_weight;
    for (int64_t r = 0; r < c.rows; ++r) expect_row(r);
  }

  // Of the last of the samples, the one with holes.
  bool real(int64_t r) const { return !c.masked || mask[static_cast<size_t>(2 * c.rows + r)]; }

  // Rows of padding are NaN: they must not be read.
  Numbers with_padding(Storage storage, uint64_t seed) const {
    Numbers all = random_numbers(storage, c.rows * c.width, seed);
    for (int64_t i = 0; i < c.rows * c.width; ++i) {
      if (!real(i / c.width)) all.set(i, kNan);
    }
    return all;
  }

  double factor(int64_t at) const {
    const bool kept = dropout_keeps(dropout.seed, dropout.threshold, dropout.first + at);
    return kept ? dropout_scale(dropout.threshold) : 0;
  }

  void expect_row(int64_t r) {
    std::vector<double> n;
    double mean = 0, variance = 0, g_mean = 0, gn_mean = 0;
    const int64_t begin = r * c.width;
    for (int64_t at = begin; at < begin + c.width; ++at) {
      sum.push_back(real(r) ? x[at] + (c.with_y ? factor(at) * y[at] : 0) : 0);
      // What is stored is what is normalised.
      n.push_back(Numbers(c.residual, std::vector{static_cast<float>(sum.back())})[0]);
      mean += n.back() / c.width;
    }
    for (double& v : n) v -= mean;
    for (const double v : n) variance += v * v / c.width;
    const double sd = std::sqrt(variance + kEps);
    const auto g = [&](int i) { return double{of_normed[begin + i]} * weight[i]; };
    for (int i = 0; i < c.width; ++i) {
      n[static_cast<size_t>(i)] /= sd;
      g_mean += g(i) / c.width;
      gn_mean += g(i) * n[static_cast<size_t>(i)] / c.width;
    }
    for (int i = 0; i < c.width; ++i) {
      const auto at = static_cast<size_t>(i);
      normed.push_back(real(r) ? n[at] * weight[i] + bias[i] : 0);
      double grad = real(r) ? of_sum[begin + i] : 0;
      if (real(r) && c.with_norm) {
        grad += (g(i) - g_mean - n[at] * gn_mean) / sd;
        grad_weight[at] += of_normed[begin + i] * n[at];
        grad_bias[at] += of_normed[begin + i];
      }
      grad_x.push_back(grad);
      grad_y.push_back(grad * factor(begin + i));
    }
  }

  int64_t count() const { return c.rows * c.width; }
};

class AddNormKernels : public testing::TestWithParam<AddNormCase> {
 protected:
  struct Results {
    Numbers sum, normed;
    Array<float> moments;
  };
  static Results forward(AddNorm& in) {
    Results out{Numbers(in.c.residual, in.count()), Numbers(in.c.result, in.count()),
                Array<float>(2 * in.c.rows)};
    AddNormParams p;
    p.rows = in.c.rows, p.width = in.c.width, p.eps = kEps;
    p.residual = in.c.residual, p.added = in.c.added, p.result = in.c.result;
    p.x = in.x.data(), p.sum = out.sum.data();
    if (in.c.masked) p.mask = in.mask_bytes.data();
    if (in.c.with_y) p.y = in.y.data(), p.dropout = in.dropout;
    if (in.c.with_norm) {
      p.weight = in.weight.data(), p.bias = in.bias.data();
      p.normed = out.normed.data(), p.moments = out.moments.data();
    }
    lra_cuda_kernels()->add_norm(p, nullptr);
    return out;
  }

  struct Gradients {
    Numbers x, y;
    Array<float> weight_and_bias;
  };
  static Gradients backward(AddNorm& in, Results& of) {
    const int64_t parts = add_norm_parts(in.c.rows);
    Array<float> scratch(parts * 2 * in.c.width);
    Gradients out{Numbers(in.c.residual, in.count()), Numbers(in.c.added, in.count()),
                  Array<float>(2 * in.c.width)};
    AddNormBackwardParams p;
    p.rows = in.c.rows, p.width = in.c.width;
    p.residual = in.c.residual, p.added = in.c.added, p.result = in.c.result;
    p.sum = of.sum.data(), p.grad_sum = in.of_sum.data(), p.grad_x = out.x.data();
    if (in.c.masked) p.mask = in.mask_bytes.data();
    if (in.c.with_y) p.grad_y = out.y.data(), p.dropout = in.dropout;
    if (in.c.with_norm) {
      p.weight = in.weight.data(), p.moments = of.moments.data();
      p.grad_normed = in.of_normed.data(), p.parts = scratch.data();
    }
    lra_cuda_kernels()->add_norm_backward(p, nullptr);
    if (in.c.with_norm) {
      const SumPartsParams sums{.parts = scratch.data(),
                                .count = parts,
                                .columns = int64_t{2} * in.c.width,
                                .sum = out.weight_and_bias.data()};
      lra_cuda_kernels()->sum_parts(sums, nullptr);
    }
    scratch.check_zones();
    return out;
  }
};

TEST_P(AddNormKernels, AreTheFormula) {
  AddNorm in(GetParam());
  Results out = forward(in);
  expect_near(out.sum, in.sum, in.c.residual);
  if (in.c.with_norm) expect_near(out.normed, in.normed, in.c.result, 32);
  out.moments.check_zones();
}

TEST_P(AddNormKernels, HaveTheGradients) {
  AddNorm in(GetParam());
  Results out = forward(in);
  const Gradients gradients = backward(in, out);
  expect_near(gradients.x, in.grad_x, in.c.residual, 32);
  if (in.c.with_y) expect_near(gradients.y, in.grad_y, in.c.added, 32);
  if (!in.c.with_norm) return;
  std::vector<double> both = in.grad_weight;
  both.insert(both.end(), in.grad_bias.begin(), in.grad_bias.end());
  expect_near(gradients.weight_and_bias, both, Storage::f32, 64);
}

TEST_P(AddNormKernels, AreTheSameInEveryOrder) {
  AddNorm in(GetParam());
  EXPECT_TRUE(emulator::same_in_every_order([&] {
    Results out = forward(in);
    const Gradients gradients = backward(in, out);
    std::vector<float> all = out.normed.values();
    for (const auto& some : {gradients.x.values(), gradients.y.values()})
      all.insert(all.end(), some.begin(), some.end());
    all.insert(all.end(), gradients.weight_and_bias.begin(), gradients.weight_and_bias.end());
    return all;
  }));
}

constexpr Storage kB16 = Storage::bf16, kF32 = Storage::f32;
INSTANTIATE_TEST_SUITE_P(
    Shapes, AddNormKernels,
    testing::Values(AddNormCase{1, 1}, AddNormCase{1, 64}, AddNormCase{70, 64},
                    AddNormCase{9, 100, kF32, kB16, kB16}, AddNormCase{19, 128, kB16, kB16, kB16},
                    AddNormCase{5, 256, kF32, kB16, kF32, true, true, false},
                    AddNormCase{8, 33, kF32, kF32, kF32, false},
                    AddNormCase{17, 64, kF32, kB16, kF32, true, false},
                    AddNormCase{3, 512, kF32, kF32, kF32, true, true, false}, AddNormCase{2, 1000},
                    AddNormCase{2, 1024, kB16, kB16, kB16}, AddNormCase{4200, 3}));
INSTANTIATE_TEST_SUITE_P(SlowShapes, AddNormKernels,
                         testing::Values(AddNormCase{5000, 64},
                                         AddNormCase{4099, 128, kF32, kB16, kB16},
                                         AddNormCase{777, 1024}));

TEST(AddNormTypes, TakeWhatAutocastMakes) {
  EXPECT_TRUE(takes_add_norm(kF32, kF32, kF32));
  EXPECT_TRUE(takes_add_norm(kB16, kB16, kB16));
  EXPECT_TRUE(takes_add_norm(kF32, kB16, kF32));
  EXPECT_TRUE(takes_add_norm(kF32, kB16, kB16));
  EXPECT_FALSE(takes_add_norm(kB16, kF32, kF32));
  EXPECT_FALSE(takes_add_norm(kF32, kF32, kB16));
}

}  // namespace
}  // namespace lra::ops::cuda
