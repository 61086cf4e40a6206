// A counter-based random generator: the same numbers on every machine, at any position, for any
// number of threads.
//
// Philox4x32-10 (Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3").
#pragma once

#include <array>
#include <cstdint>

namespace lra {

inline constexpr std::array<uint32_t, 2> kPhiloxMultipliers = {0xD2511F53, 0xCD9E8D57},
                                         kPhiloxKeySteps = {0x9E3779B9, 0xBB67AE85};

/// Ten rounds of Philox over a 128-bit counter under a 64-bit key.
[[gnu::always_inline]] constexpr std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter,
                                                                std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{kPhiloxMultipliers[0]} * counter[0];
    const uint64_t b = uint64_t{kPhiloxMultipliers[1]} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += kPhiloxKeySteps[0];
    key[1] += kPhiloxKeySteps[1];
  }
  return counter;
}

}  // namespace lra
