// Arrays as a GPU's memory is: nothing stands in them that nothing has written, and on both sides
// of them is memory that is not theirs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "tests/cuda_emulator/emulator.h"

namespace lra::emulator {

/// T of 1, 2, 4 or 8 bytes. Unwritten elements are NaN, as what is beside the array.
template <class T>
class Array {
 public:
  Array() : Array(0) {}
  explicit Array(int64_t count)
      : count_(static_cast<size_t>(count)), bytes_(2 * kZone + count_ * sizeof(T)) {
    for (size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = unwritten(i);
  }
  explicit Array(const std::vector<T>& values) : Array(static_cast<int64_t>(values.size())) {
    std::copy(values.begin(), values.end(), data());
  }

  T* data() { return reinterpret_cast<T*>(bytes_.data() + kZone); }
  const T* data() const { return reinterpret_cast<const T*>(bytes_.data() + kZone); }
  int64_t size() const { return static_cast<int64_t>(count_); }
  T& operator[](int64_t i) { return data()[i]; }
  const T& operator[](int64_t i) const { return data()[i]; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + count_; }

  /// Throws Fault where something was written beside the array.
  void check_zones() const {
    for (size_t i = 0; i < bytes_.size(); ++i) {
      const bool inside = i >= kZone && i < kZone + count_ * sizeof(T);
      if (!inside && bytes_[i] != unwritten(i)) throw Fault("a kernel writes beside an array");
    }
  }

 private:
  static constexpr size_t kZone = 256;  // bytes on each side
  static unsigned char unwritten(size_t i) {
    return reinterpret_cast<const unsigned char*>(&kUnwritten)[i % 4];
  }

  size_t count_;
  std::vector<unsigned char> bytes_;
};

}  // namespace lra::emulator
