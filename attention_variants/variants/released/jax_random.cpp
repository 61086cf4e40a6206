#include "attention_variants/variants/released/jax_random.h"

#include <array>
#include <bit>
#include <cmath>
#include <vector>

namespace lra::released {
namespace {

using Pair = std::array<uint32_t, 2>;

Pair threefry(const Pair& key, Pair x) {
  constexpr int kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  const uint32_t keys[3] = {key[0], key[1], key[0] ^ key[1] ^ 0x1BD11BDA};
  x = {x[0] + keys[0], x[1] + keys[1]};
  for (uint32_t round = 0; round < 5; ++round) {
    for (const int by : kRotations[round % 2]) {
      x[0] += x[1];
      x[1] = std::rotl(x[1], by) ^ x[0];
    }
    x[0] += keys[(round + 1) % 3];
    x[1] += keys[(round + 2) % 3] + round + 1;
  }
  return x;
}

// Counter i of the first half goes with the one as far into the second.
std::vector<uint32_t> bits(const Pair& key, uint32_t count) {
  const uint32_t half = (count + 1) / 2;
  std::vector<uint32_t> words(2 * half);
  for (uint32_t i = 0; i < half; ++i) {
    const uint32_t other = half + i < count ? half + i : 0;
    const Pair x = threefry(key, {i, other});
    words[i] = x[0];
    words[half + i] = x[1];
  }
  words.resize(count);
  return words;
}

}  // namespace

torch::Tensor jax_normal(int64_t count) {
  const Pair key = threefry({0, 0}, {0, 1});
  const std::vector<uint32_t> words = bits(key, static_cast<uint32_t>(count));
  torch::Tensor uniform = torch::empty({count}, torch::kFloat);
  const float low = std::nextafter(-1.0F, 0.0F);
  for (int64_t i = 0; i < count; ++i) {
    const float unit =
        std::bit_cast<float>(words[static_cast<size_t>(i)] >> 9 | 0x3F800000U) - 1;  // [0, 1)
    uniform.data_ptr<float>()[i] = std::max(low, unit * (1 - low) + low);
  }
  return std::sqrt(2.0) * torch::erfinv(uniform);
}

}  // namespace lra::released
