// What tests of kernels share.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/cuda_emulator/array.h"

namespace lra::emulator {

/// Uniform in [-scale, scale), the same on every machine.
std::vector<float> random_values(int64_t count, uint64_t seed, float scale = 1);

/// Threads and blocks in ascending, descending and two random orders.
const std::vector<Schedule>& all_orders();

/// Whether run(), which gives a std::vector or an Array, gives the same bits in all orders.
template <class Run>
bool same_in_every_order(const Run& run) {
  const auto first = run();
  for (const Schedule& schedule : all_orders()) {
    const WithSchedule with(schedule);
    const auto again = run();
    if (again.size() != first.size() ||
        std::memcmp(again.data(), first.data(), first.size() * sizeof(*first.data())) != 0)
      return false;
  }
  return true;
}

}  // namespace lra::emulator
