#include <cmath>
#include <numeric>

#include "lra/tasks/mqar/mqar.h"

namespace lra::mqar {
namespace {

// Uniform in [0,1), of 53 bits.
double uniform(CounterRandom& random) {
  const uint64_t high = random.bits() >> 5, low = random.bits() >> 6;
  return static_cast<double>(high << 26 | low) * 0x1p-53;
}

// `count` different ids from `begin` to below `end`, in the order in which they are drawn.
std::vector<uint16_t> draw_different(CounterRandom& random, int64_t count, int64_t begin,
                                     int64_t end) {
  std::vector<bool> drawn(static_cast<size_t>(end - begin), false);
  std::vector<uint16_t> ids;
  while (std::ssize(ids) < count) {
    const uint32_t id = random.below(static_cast<uint32_t>(end - begin));
    if (drawn[id]) continue;
    drawn[id] = true;
    ids.push_back(static_cast<uint16_t>(begin + id));
  }
  return ids;
}

// `count` different slots, one after another, each by its share of the chances that are left.
std::vector<int64_t> draw_slots(CounterRandom& random, int64_t count, std::vector<double> chances) {
  std::vector<int64_t> slots;
  while (std::ssize(slots) < count) {
    double rest = uniform(random) * std::accumulate(chances.begin(), chances.end(), 0.0);
    int64_t slot = -1;
    for (size_t i = 0; i < chances.size(); ++i) {
      if (chances[i] == 0) continue;
      slot = static_cast<int64_t>(i);  // the last one left, where rounding leaves a rest
      rest -= chances[i];
      if (rest < 0) break;
    }
    slots.push_back(slot);
    chances[static_cast<size_t>(slot)] = 0;
  }
  return slots;
}

}  // namespace

std::vector<double> slot_chances(int64_t count, double power) {
  std::vector<double> chances(static_cast<size_t>(count));
  for (size_t i = 0; i < chances.size(); ++i)
    chances[i] = std::pow(static_cast<double>(i + 1), power - 1);
  const double all = std::accumulate(chances.begin(), chances.end(), 0.0);
  for (double& chance : chances) chance /= all;
  return chances;
}

LabelledTokens draw_sample(CounterRandom& random, const Segment& size, const Options& options) {
  const int64_t context = 2 * size.pairs * options.passes, slots = (size.length - context) / 2;
  const std::vector<uint16_t> keys = draw_different(random, size.pairs, 1, kVocabulary / 2),
                              values =
                                  draw_different(random, size.pairs, kVocabulary / 2, kVocabulary);
  LabelledTokens sample(size.length);
  if (options.random_non_queries) {
    for (int64_t at = context; at < size.length; ++at)
      sample.set(at, static_cast<uint16_t>(random.below(kVocabulary)));
  }
  for (int64_t at = 0; at < context; at += 2) {
    const auto pair = static_cast<size_t>(at / 2 % size.pairs);
    sample.set(at, keys[pair]);
    sample.set(at + 1, values[pair]);
  }
  const std::vector<int64_t> drawn =
      draw_slots(random, size.pairs, slot_chances(slots, options.power));
  for (size_t pair = 0; pair < drawn.size(); ++pair) {
    const int64_t at = context + 2 * drawn[pair];
    sample.set(at, keys[pair]);
    sample.label(at, values[pair]);
  }
  return sample;
}

}  // namespace lra::mqar
