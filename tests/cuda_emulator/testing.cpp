#include "tests/cuda_emulator/testing.h"

#include "attention_variants/base/philox.h"

namespace lra::emulator {

std::vector<float> random_values(int64_t count, uint64_t seed, float scale) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    const uint32_t bits = philox({static_cast<uint32_t>(i), static_cast<uint32_t>(i >> 32), 0, 0},
                                 {static_cast<uint32_t>(seed), 0})[0];
    values[i] = scale * (static_cast<float>(bits >> 8) * 0x1p-23F - 1);
  }
  return values;
}

const std::vector<Schedule>& all_orders() {
  static const std::vector<Schedule> all = {
      {.threads = Order::ascending, .blocks = Order::ascending},
      {.threads = Order::descending, .blocks = Order::descending},
      {.threads = Order::random, .blocks = Order::random, .seed = 1},
      {.threads = Order::random, .blocks = Order::random, .seed = 2}};
  return all;
}

}  // namespace lra::emulator
