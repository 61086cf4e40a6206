// Elements of rows, shared out so that a draw of a dropout serves eight of them.
#pragma once

#include "attention_variants/ops/cuda/kernels/rows/device.h"

namespace lra::ops::cuda {

/// Eight elements 16 apart, of [rows,width], whose random numbers come from one draw.
class DropoutDraw {
 public:
  /// The numbers of the draws that serve elements [begin, end): [first, last).
  static __host__ __device__ int64_t first(const DropoutStream& dropout, int64_t begin) {
    return (dropout.first + begin) / kBlock * kLanes;
  }
  static __host__ __device__ int64_t last(const DropoutStream& dropout, int64_t end) {
    return ceil_div<int64_t>(dropout.first + end, kBlock) * kLanes;
  }

  __device__ DropoutDraw(const DropoutStream& dropout, int width, int64_t number)
      : width_(width),
        element_(number / kLanes * kBlock + number % kLanes - dropout.first),
        row_(element_ < 0 ? 0 : element_ / width),
        column_(static_cast<int>(element_ - row_ * width)) {}

  /// Calls body(element, row, column) of those in [begin, end).
  template <class Body>
  __device__ __forceinline__ void each(int64_t begin, int64_t end, const Body& body) {
#pragma unroll
    for (int i = 0; i < kBlock / kLanes; ++i) {
      if (element_ >= begin && element_ < end) body(element_, row_, column_);
      element_ += kLanes;
      column_ += kLanes;
      for (; column_ >= width_; column_ -= width_) ++row_;
    }
  }

 private:
  static constexpr int kLanes = 16, kBlock = 128;
  const int width_;
  int64_t element_, row_;
  int column_;
};

}  // namespace lra::ops::cuda
