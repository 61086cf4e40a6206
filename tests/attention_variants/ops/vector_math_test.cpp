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

TEST(VectorMath, TheNormalDistributionIsThatOfTheLibrary) {
  double below = 0, bell = 0, left = 0;
  for (double x = -14; x < 14; x += 0.00013) {
    const auto given = static_cast<float>(x);
    const double exact_x = given, exact = std::erfc(-exact_x * std::sqrt(0.5)) / 2,
                 exact_bell = std::exp(-exact_x * exact_x / 2);
    const ops::cpu::Normal normal = ops::cpu::normal_at(given);
    below = std::max(below, std::abs(normal.below - exact));
    bell = std::max(bell, std::abs(normal.bell - exact_bell));
    if (x < -3 && x > -4) left = std::max(left, std::abs(normal.below - exact) / exact);
  }
  EXPECT_LT(below, 1.7e-7);
  EXPECT_LT(bell, 1.7e-7);
  EXPECT_LT(left, 1e-3);  // where 1 + erf(x) has lost its digits
  for (const float far : {20.0F, 1e4F, std::numeric_limits<float>::infinity()}) {
    EXPECT_EQ(ops::cpu::normal_at(far).below, 1.0F);
    EXPECT_EQ(ops::cpu::normal_at(-far).below, 0.0F);
    EXPECT_EQ(ops::cpu::normal_at(far).bell, 0.0F);
  }
  EXPECT_NEAR(ops::cpu::normal_at(0.0F).below, 0.5F, 0x1p-23);
  EXPECT_TRUE(std::isnan(ops::cpu::normal_at(std::nanf("")).below));
}

template <int64_t kWidth>
void expect_sums_of_lanes() {
  using C = ops::cpu::Simd<kWidth>;
  typename C::Vector x[kWidth];
  for (int64_t i = 0; i < kWidth; ++i) {
    for (int64_t l = 0; l < kWidth; ++l) x[i][l] = static_cast<float>(100 * i + l * l);
  }
  ops::cpu::sum_lanes<kWidth>(x);
  for (int64_t i = 0; i < kWidth; ++i) {
    EXPECT_EQ(x[0][i],
              static_cast<float>(kWidth * 100 * i + (kWidth - 1) * kWidth * (2 * kWidth - 1) / 6))
        << kWidth << " lanes, " << i;
  }
}

TEST(VectorMath, EachLaneIsTheSumOfAVector) {
  expect_sums_of_lanes<16>();
  expect_sums_of_lanes<8>();
  expect_sums_of_lanes<4>();
}

}  // namespace
}  // namespace lra
