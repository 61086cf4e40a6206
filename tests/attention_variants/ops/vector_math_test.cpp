// The vector functions of the kernels against those of the C++ library in float64.
#include "attention_variants/ops/cpu/kernels/rows/vector_math.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "attention_variants/ops/cpu/kernels/rows/simd.h"

namespace lra {
namespace {

TEST(VectorMath, ExpIsWithinTwoUlps) {
  double worst = 0;
  for (double x = -87.2; x < 88; x += 0.00037) {
    const auto given = static_cast<float>(x);
    const double exact = std::exp(static_cast<double>(given));
    worst = std::max(worst, std::abs(ops::cpu::exp(given) - exact) / exact);
  }
  EXPECT_LT(worst, 2 * 0x1p-23);
  EXPECT_EQ(ops::cpu::exp(-std::numeric_limits<float>::infinity()), 0.0F);
  EXPECT_EQ(ops::cpu::exp(-200.0F), 0.0F);
  EXPECT_EQ(ops::cpu::exp(0.0F), 1.0F);
  EXPECT_TRUE(std::isfinite(ops::cpu::exp(1000.0F)));
  EXPECT_TRUE(std::isnan(ops::cpu::exp(std::nanf(""))));
}

template <int64_t kWidth>
void expect_powers_of_two() {
  using C = ops::cpu::Simd<kWidth>;
  const auto power = [](float given) {
    float x[kWidth];
    std::fill(x, x + kWidth, given);
    C::exp2_in_place(C::at(x));
    for (const float lane : x)
      EXPECT_EQ(std::bit_cast<uint32_t>(lane), std::bit_cast<uint32_t>(x[0]));
    return x[0];
  };
  double worst = 0;
  for (double x = -126; x <= 126; x += 0.00137) {
    const auto given = static_cast<float>(x);
    const double exact = std::exp2(static_cast<double>(given));
    worst = std::max(worst, std::abs(power(given) - exact) / exact);
  }
  EXPECT_LT(worst, 2 * 0x1p-23);
  EXPECT_EQ(power(0.0F), 1.0F);
  EXPECT_EQ(power(-126.0F), 0x1p-126F);
  EXPECT_EQ(power(-1000.0F), 0.0F);
  EXPECT_EQ(power(-std::numeric_limits<float>::infinity()), 0.0F);
  EXPECT_TRUE(std::isnan(power(std::nanf(""))));
  EXPECT_TRUE(std::isnan(power(std::nanf("12345"))));
}

TEST(VectorMath, PowersOfTwoAreWithinTwoUlps) {
  expect_powers_of_two<16>();
  expect_powers_of_two<8>();
  expect_powers_of_two<4>();
  expect_powers_of_two<1>();
}

TEST(VectorMath, ErfIsWithinTwoUlps) {
  double worst = 0;
  for (double x = -6; x < 6; x += 0.00013) {
    const auto given = static_cast<float>(x);
    const double exact = std::erf(static_cast<double>(given));
    if (exact != 0) worst = std::max(worst, std::abs((ops::cpu::erf(given) - exact) / exact));
  }
  EXPECT_LT(worst, 2 * 0x1p-23);
  EXPECT_EQ(ops::cpu::erf(100.0F), 1.0F);
  EXPECT_EQ(ops::cpu::erf(-100.0F), -1.0F);
  EXPECT_TRUE(std::isnan(ops::cpu::erf(std::nanf(""))));
}

}  // namespace
}  // namespace lra
