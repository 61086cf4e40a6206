// The kernel of dropout, residual sum and layer normalisation, emulated, against float64.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "attention_variants/ops/cuda/kernels/kernel_table.h"
#include "tests/cuda_emulator/array.h"
#include "tests/cuda_emulator/testing.h"

namespace lra::ops::cuda {
namespace {

using emulator::Array;
using emulator::random_values;

struct AddNormCase {
  int64_t rows;
  int width;
};

class AddNormKernel : public testing::TestWithParam<AddNormCase> {};

TEST_P(AddNormKernel, IsTheFormula) {
  const auto [rows, width] = GetParam();
  const Array<float> x(random_values(rows * width, 1)), y(random_values(rows * width, 2)),
      weight(random_values(width, 3)), bias(random_values(width, 4));
  Array<float> sum(rows * width), normed(rows * width), moments(2 * rows);
  AddNormParams p;
  p.rows = rows, p.width = width, p.eps = 1e-5F;
  p.x = x.data(), p.y = y.data(), p.weight = weight.data(), p.bias = bias.data();
  p.sum = sum.data(), p.normed = normed.data(), p.moments = moments.data();
  lra_cuda_kernels()->add_norm(p, nullptr);
  for (int64_t r = 0; r < rows; ++r) {
    double mean = 0, variance = 0;
    const auto of = [&](int64_t c) { return double{x[r * width + c]} + y[r * width + c]; };
    for (int c = 0; c < width; ++c) mean += of(c) / width;
    for (int c = 0; c < width; ++c) variance += (of(c) - mean) * (of(c) - mean) / width;
    for (int c = 0; c < width; ++c) {
      const double expected = (of(c) - mean) / std::sqrt(variance + 1e-5) * weight[c] + bias[c];
      ASSERT_NEAR(normed[r * width + c], expected, 1e-5) << r << ", " << c;
      ASSERT_NEAR(sum[r * width + c], of(c), 1e-6) << r << ", " << c;
    }
  }
  for (const auto* array : {&sum, &normed, &moments}) array->check_zones();
}

INSTANTIATE_TEST_SUITE_P(Shapes, AddNormKernel,
                         testing::Values(AddNormCase{1, 2}, AddNormCase{9, 64},
                                         AddNormCase{17, 100}, AddNormCase{3, 1000}));

}  // namespace
}  // namespace lra::ops::cuda
