// Results and gradients of kernels against a formula in float64, whose gradients are taken by
// differences.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include "attention_variants/ops/cuda/kernels/rows/head_rows.h"
#include "tests/cuda_emulator/array.h"
#include "tests/cuda_emulator/testing.h"

namespace lra::ops::cuda {

using Doubles = std::vector<double>;
/// Inputs -> result.
using Formula = std::function<Doubles(const std::vector<Doubles>&)>;

inline Doubles widened(const emulator::Array<float>& x) { return {x.begin(), x.end()}; }

/// A contiguous x [B,H,N,d].
template <class Pointer>
HeadsOf<Pointer> contiguous_heads(Pointer x, int64_t heads, int64_t length, int64_t depth) {
  return {x, heads * length * depth, length * depth, depth};
}

/// Of numbers of size 1, to within `tolerance` of the largest.
inline void expect_near(const emulator::Array<float>& given, const Doubles& expected,
                        double tolerance) {
  ASSERT_EQ(given.size(), std::ssize(expected));
  double most = 1;
  for (const double x : expected) most = std::max(most, std::abs(x));
  for (int64_t i = 0; i < given.size(); ++i)
    ASSERT_NEAR(given[i], expected[static_cast<size_t>(i)], tolerance * most) << i;
  given.check_zones();
}

/// Every `step`th element of the gradient of Σ grad_out · formula(inputs) by input `number`.
inline void expect_slopes(const emulator::Array<float>& given, const Formula& formula,
                          std::vector<Doubles> inputs, size_t number, const Doubles& grad_out,
                          size_t step, double tolerance) {
  const auto loss = [&] {
    const Doubles out = formula(inputs);
    double sum = 0;
    for (size_t i = 0; i < out.size(); ++i) sum += out[i] * grad_out[i];
    return sum;
  };
  for (size_t i = 0; i < inputs[number].size(); i += step) {
    const double before = inputs[number][i], difference = 1e-5;
    inputs[number][i] = before + difference;
    const double above = loss();
    inputs[number][i] = before - difference;
    const double slope = (above - loss()) / (2 * difference);
    inputs[number][i] = before;
    ASSERT_NEAR(given[static_cast<int64_t>(i)], slope, tolerance * std::max(1.0, std::abs(slope)))
        << "input " << number << ", " << i;
  }
  given.check_zones();
}

}  // namespace lra::ops::cuda
