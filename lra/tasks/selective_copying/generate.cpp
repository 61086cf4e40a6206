#include "lra/tasks/selective_copying/selective_copying.h"

namespace lra::selective_copying {

LabelledTokens draw_sample(CounterRandom& random, const Options& options) {
  const int64_t context = options.noise + options.tokens;
  LabelledTokens sample(context + options.tokens);
  int64_t kept = 0;
  for (int64_t at = 0; at < context; ++at) {
    // Selection sampling: each of the places left is as likely as another.
    const auto places = static_cast<uint32_t>(context - at);
    if (static_cast<int64_t>(random.below(places)) >= options.tokens - kept) continue;
    const auto token =
        static_cast<uint16_t>(1 + random.below(static_cast<uint32_t>(options.alphabet - 2)));
    sample.set(at, token);
    sample.set(context + kept, static_cast<uint16_t>(options.alphabet - 1));
    sample.label(context + kept, token);
    ++kept;
  }
  return sample;
}

}  // namespace lra::selective_copying
