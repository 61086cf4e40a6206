// Arrays in either storage, for tests of kernels that take both.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "attention_variants/base/philox.h"
#include "attention_variants/ops/cuda/kernels/rows/params.h"
#include "tests/cuda_emulator/array.h"
#include "tests/cuda_emulator/testing.h"

namespace lra::ops::cuda {

inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// float32 or bfloat16 in memory, float32 to read: what was given is rounded to the storage.
class Numbers {
 public:
  Numbers(Storage storage, int64_t count) : storage_(storage), f32_(count), b16_(count) {}
  Numbers(Storage storage, const std::vector<float>& values)
      : Numbers(storage, static_cast<int64_t>(values.size())) {
    for (int64_t i = 0; i < f32_.size(); ++i) set(i, values[static_cast<size_t>(i)]);
  }

  void set(int64_t i, float value) {
    f32_[i] = value;
    const auto bits = std::bit_cast<uint32_t>(value);
    b16_[i] = static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
  }
  float operator[](int64_t i) const {
    return storage_ == Storage::f32 ? f32_[i] : std::bit_cast<float>(uint32_t{b16_[i]} << 16);
  }
  void* data() { return storage_ == Storage::f32 ? static_cast<void*>(f32_.data()) : b16_.data(); }
  std::vector<float> values() const {
    std::vector<float> all;
    for (int64_t i = 0; i < f32_.size(); ++i) all.push_back((*this)[i]);
    return all;
  }
  void check_zones() const {
    f32_.check_zones();
    b16_.check_zones();
  }

 private:
  Storage storage_;
  emulator::Array<float> f32_;
  emulator::Array<uint16_t> b16_;
};

inline Numbers random_numbers(Storage storage, int64_t count, uint64_t seed, float scale = 1) {
  return {storage, emulator::random_values(count, seed, scale)};
}

/// Each result, Numbers or an Array, is what float64 gives, by some units of the storage of the
/// largest of them, or of `terms` where they are sums of such that may cancel.
template <class Results>
void expect_near(const Results& results, const std::vector<double>& exact, Storage storage,
                 double units = 8, double terms = 1e-30) {
  double most = terms;
  for (const double x : exact) most = std::max(most, std::abs(x));
  const double unit = storage == Storage::f32 ? 0x1p-23 : 0x1p-9;
  for (size_t i = 0; i < exact.size(); ++i)
    ASSERT_NEAR(results[static_cast<int64_t>(i)], exact[i], units * unit * most) << i;
  results.check_zones();
}

/// Whether philox_dropout() keeps an element, by its definition.
inline bool dropout_keeps(uint64_t seed, uint32_t threshold, int64_t element) {
  const auto at = static_cast<uint64_t>(element), counter = at / 128 * 16 + at % 16,
             half = at % 128 / 16;
  const uint32_t word =
      philox({static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0},
             {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)})[half / 2];
  return (half % 2 == 0 ? word & 0xFFFF : word >> 16) >= threshold;
}

/// [batch,length]: sample 0 all tokens, sample 1 none, then a length each and some holes.
inline std::vector<bool> some_mask(int64_t batch, int64_t length) {
  std::vector<bool> mask;
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t n = 0; n < length; ++n)
      mask.push_back(b == 0 || (b > 1 && n < length * b / (b + 2) + 1 && n % 5 != 3));
  }
  return mask;
}

}  // namespace lra::ops::cuda
