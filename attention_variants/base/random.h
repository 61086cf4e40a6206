// Streams of random numbers that are the same on every machine.
#pragma once

#include <array>
#include <cstdint>

#include "attention_variants/base/philox.h"

namespace lra {

/// Stream number `stream` of the generator seeded with `seed`; streams are independent of each
/// other.
class CounterRandom {
 public:
  CounterRandom(uint64_t seed, uint64_t stream)
      : key_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)},
        stream_{static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)} {}

  /// 32 random bits.
  uint32_t bits() {
    if (used_ == 4) {
      block_ = philox({static_cast<uint32_t>(count_), static_cast<uint32_t>(count_ >> 32),
                       stream_[0], stream_[1]},
                      key_);
      ++count_;
      used_ = 0;
    }
    return block_[used_++];
  }

  /// Uniform in 0..n-1, without bias (Lemire 2019); n from 1 to 2^32 - 1.
  uint32_t below(uint32_t n) {
    uint64_t product = uint64_t{bits()} * n;
    if (static_cast<uint32_t>(product) < n) {
      const uint32_t threshold = -n % n;
      while (static_cast<uint32_t>(product) < threshold) product = uint64_t{bits()} * n;
    }
    return static_cast<uint32_t>(product >> 32);
  }

 private:
  std::array<uint32_t, 2> key_, stream_;
  std::array<uint32_t, 4> block_{};
  uint64_t count_ = 0;
  int used_ = 4;
};

}  // namespace lra
