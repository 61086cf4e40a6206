// Products by a warp, emulated: fragments as kernels/mma.h says them, against float64.
#include "attention_variants/ops/cuda/kernels/rows/mma.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "attention_variants/ops/cuda/kernels/heads/tile_product.h"
#include "tests/cuda_emulator/array.h"
#include "tests/cuda_emulator/testing.h"

namespace lra::ops::cuda {
namespace {

using emulator::Array;
using emulator::random_values;

struct ProductParams {
  const float *a, *b;  // [16,8], [8,8]
  float* d;            // [16,8], added to
};

void read_sums(const ProductParams& p, float (&d)[4]) {
  const int g = emulator::lane() / 4, t = emulator::lane() % 4;
  for (int i = 0; i < 4; ++i) d[i] = p.d[(g + i / 2 * 8) * 8 + 2 * t + i % 2];
}

void write_sums(const ProductParams& p, const float (&d)[4]) {
  const int g = emulator::lane() / 4, t = emulator::lane() % 4;
  for (int i = 0; i < 4; ++i) p.d[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = d[i];
}

// By one TF32 product, or by three.
template <bool three>
void product_of_float(ProductParams p) {
  const int g = emulator::lane() / 4, t = emulator::lane() % 4;
  const float a[4] = {p.a[g * 8 + t], p.a[(g + 8) * 8 + t], p.a[g * 8 + t + 4],
                      p.a[(g + 8) * 8 + t + 4]};
  const float b[2] = {p.b[t * 8 + g], p.b[(t + 4) * 8 + g]};
  float d[4];
  read_sums(p, d);
  if (three) {
    float sums[1][4] = {{d[0], d[1], d[2], d[3]}};
    multiply_add<true, 1>({p.a, 8, 1}, {p.b, 8, 1}, 8, sums);
    std::ranges::copy(sums[0], d);
  } else {
    mma_m16n8k8_tf32(d, {tf32(a[0]), tf32(a[1]), tf32(a[2]), tf32(a[3])}, {tf32(b[0]), tf32(b[1])});
  }
  write_sums(p, d);
}

// The largest difference from the product in float64.
double error_of(void (*kernel)(ProductParams)) {
  constexpr int k = 8;
  const Array<float> a(random_values(16 * k, 1)), b(random_values(k * 8, 2));
  const std::vector<float> before = random_values(16 * 8, 3);
  Array<float> d(before);
  launch(kernel, {}, {kWarp}, 0, nullptr, ProductParams{a.data(), b.data(), d.data()});
  double worst = 0;
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 8; ++column) {
      const int at = row * 8 + column;
      double sum = before[static_cast<size_t>(at)];
      for (int i = 0; i < k; ++i) sum += double{a[row * k + i]} * b[i * 8 + column];
      worst = std::max(worst, std::abs(sum - d[at]));
    }
  }
  return worst;
}

// 8 products below 1, each with factors rounded to 11 or some 21 bits.
TEST(Mma, IsAProductOfTf32) {
  const double error = error_of(product_of_float<false>);
  EXPECT_LE(error, 8 * 0x1p-11);
  EXPECT_GE(error, 0x1p-16);  // and no better than TF32 is
}
TEST(Mma, IsAProductOfFloat32ByThree) { EXPECT_LE(error_of(product_of_float<true>), 0x1p-20); }

// As a product reads the parts: without their last 13 bits.
float read_as_tf32(uint32_t bits) { return std::bit_cast<float>(bits & 0xFFFFE000U); }

TEST(SplitTf32, SumsToTheNumberToTwentyOneBits) {
  for (float x : random_values(1000, 4, 3.0F)) {
    const SplitFloat parts = split_tf32<true>(x);
    EXPECT_EQ(read_as_tf32(parts.high), std::bit_cast<float>(parts.high)) << "nothing is left out";
    const double sum = double{read_as_tf32(parts.high)} + read_as_tf32(parts.low);
    EXPECT_LE(std::abs(sum - x), 0x1p-21 * std::abs(x)) << x;
  }
  EXPECT_EQ(split_tf32<true>(0).high, 0U);
  EXPECT_EQ(split_tf32<true>(0).low, 0U);
}

// The NaN of a GPU's arithmetic has all bits but the sign's: rounded like a number it would be -0.
TEST(SplitTf32, KeepsANan) {
  for (const uint32_t bits : {0x7FFFFFFFU, 0x7FC00000U, 0x7F800001U, 0xFFFFFFFFU}) {
    const SplitFloat parts = split_tf32<true>(std::bit_cast<float>(bits));
    EXPECT_TRUE(std::isnan(read_as_tf32(parts.high) + read_as_tf32(parts.low))) << bits;
  }
}

}  // namespace
}  // namespace lra::ops::cuda
