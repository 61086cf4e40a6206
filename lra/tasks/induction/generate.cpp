#include <algorithm>

#include "lra/tasks/induction/induction.h"

namespace lra::induction {
namespace {

// Of the triggers but the last, rising; each further behind the one before than the copied tokens
// reach.
std::vector<int64_t> draw_triggers(CounterRandom& random, int64_t tokens, const Options& options) {
  const int64_t drawn = random.below(2) == 0 ? 1 : options.num_triggers;
  std::vector<int64_t> places;
  for (int64_t i = 0; i < drawn; ++i)
    places.push_back(random.below(static_cast<uint32_t>(tokens - 1 - options.copied)));
  std::ranges::sort(places);
  std::vector<int64_t> kept;
  for (const int64_t place : places) {
    if (kept.empty() || place - kept.back() > options.copied) kept.push_back(place);
  }
  return kept;
}

}  // namespace

LabelledTokens draw_sample(CounterRandom& random, int64_t length, const Options& options,
                           TrainLabels labels) {
  const int64_t tokens = length - options.copied;  // before the last trigger
  std::vector<uint16_t> all(static_cast<size_t>(length) + 1);
  for (int64_t i = 0; i < tokens; ++i)
    all[static_cast<size_t>(i)] = static_cast<uint16_t>(1 + random.below(kTrigger - 1));
  std::vector<int64_t> triggers = draw_triggers(random, tokens, options);
  const auto behind_first = all.begin() + triggers.front() + 1;
  const std::vector<uint16_t> copied(behind_first, behind_first + options.copied);
  triggers.push_back(tokens);
  for (const int64_t trigger : triggers) {
    const auto at = all.begin() + trigger;
    *at = kTrigger;
    std::ranges::copy(copied, at + 1);
  }
  LabelledTokens sample(length);
  for (int64_t i = 0; i < length; ++i) {
    sample.set(i, all[static_cast<size_t>(i)]);
    if (labels == TrainLabels::all || i >= tokens) sample.label(i, all[static_cast<size_t>(i) + 1]);
  }
  return sample;
}

}  // namespace lra::induction
