// Which elements a dropout keeps: the bits that ops/cpu/kernels/rows/dropout_bits.h draws.
#pragma once

#include "attention_variants/base/philox.h"
#include "attention_variants/ops/cuda/kernels/rows/device.h"

namespace lra::ops::cuda {

/// A thread's view of a dropout. A draw serves elements 16 apart, eight of each 128 aligned ones: a
/// thread that goes through its elements in steps of 16 n draws once in 128.
class DropoutMask {
 public:
  explicit __device__ DropoutMask(const DropoutStream& stream)
      : stream_(stream),
        seed_(stream.threshold == 0 || stream.device_seed == nullptr ? stream.seed
                                                                     : *stream.device_seed) {}

  /// Of the tensor's element `element`.
  __device__ __forceinline__ bool keeps(int64_t element) {
    if (stream_.threshold == 0) return true;
    const auto at = static_cast<uint64_t>(stream_.first + element);
    const uint64_t counter = at / kBlock * kColumns + at % kColumns;
    if (counter != counter_) draw(counter);
    return (kept_ >> (at % kBlock / kColumns) & 1) != 0;
  }

  /// x * scale where the element is kept, else 0.
  __device__ __forceinline__ float apply(float x, int64_t element) {
    return keeps(element) ? x * stream_.scale : 0.0F;
  }

 private:
  static constexpr uint64_t kColumns = 16, kBlock = 128;

  __device__ __forceinline__ void draw(uint64_t counter) {
    counter_ = counter;
    kept_ = 0;
    uint32_t c0 = static_cast<uint32_t>(counter), c1 = static_cast<uint32_t>(counter >> 32);
    const auto words =
        philox({c0, c1, 0, 0}, {static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32)});
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      kept_ |= ((words[w] & 0xFFFF) >= stream_.threshold ? 1u : 0u) << (2 * w);
      kept_ |= ((words[w] >> 16) >= stream_.threshold ? 2u : 0u) << (2 * w);
    }
  }

  const DropoutStream& stream_;
  const uint64_t seed_;
  uint64_t counter_ = ~uint64_t{0};
  uint32_t kept_ = 0;
};

}  // namespace lra::ops::cuda
