// The registration of the task. See selective_copying.h.
#include "lra/data/reading.h"
#include "lra/tasks/selective_copying/selective_copying.h"

namespace lra::selective_copying {
namespace {

constexpr std::array<int64_t, 3> kCounts = {100'000, 1'000, 1'000};

void prepare(const PrepareOptions& given) {
  refuse_other_options(given, "selective_copying", {"settings", "seed"});
  Options options;
  read_fields(given.settings, options, "--set");
  write_labelled(
      given,
      {.task = "selective_copying",
       .generator = "selective_copying/1",
       .vocabulary = kVocabulary,
       .classes = kVocabulary},
      write_fields(options), generated_counts(given, "selective_copying", kCounts),
      [&](CounterRandom& random, size_t, int64_t) { return draw_sample(random, options); });
}

[[maybe_unused]] const bool registered = register_task({
    .name = "selective_copying",
    .title = "Selective copying",
    .classes = kVocabulary,
    .vocabulary = kVocabulary,
    .inputs = 1,
    .length = 120,
    .dev = kCounts[1],
    .position_labels = true,
    .description = "the tokens that stood among noise, in their order",
    .prepare = prepare,
    .render = ids_text,
});

}  // namespace
}  // namespace lra::selective_copying
