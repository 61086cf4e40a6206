// The registration of the task. See induction.h.
#include "lra/data/reading.h"
#include "lra/tasks/induction/induction.h"

namespace lra::induction {
namespace {

constexpr std::array<int64_t, 3> kCounts = {100'000, 1'000, 1'000};

// The last trigger, the copied tokens twice, and a place for the first.
void check_length(const char* name, int64_t length, const Options& options) {
  const int64_t least = 2 * options.copied + 2;
  if (length < least)
    throw UsageError(std::string(name) + " should be at least 2 copied + 2 = " +
                     std::to_string(least) + ", not " + std::to_string(length));
}

void prepare(const PrepareOptions& given) {
  refuse_other_options(given, "induction", {"settings", "seed"});
  Options options;
  read_fields(given.settings, options, "--set");
  const int64_t tested = options.test_length == 0 ? options.length : options.test_length;
  check_length("length", options.length, options);
  check_length("test_length", tested, options);
  write_labelled(given,
                 {.task = "induction",
                  .generator = "induction/1",
                  .vocabulary = kVocabulary,
                  .classes = kVocabulary},
                 write_fields(options), generated_counts(given, "induction", kCounts),
                 [&](CounterRandom& random, size_t split, int64_t) {
                   return split == 0
                              ? draw_sample(random, options.length, options, options.train_labels)
                              : draw_sample(random, tested, options, TrainLabels::copied);
                 });
}

[[maybe_unused]] const bool registered = register_task({
    .name = "induction",
    .title = "Induction heads",
    .classes = kVocabulary,
    .vocabulary = kVocabulary,
    .inputs = 1,
    .length = 256,
    .dev = kCounts[1],
    .position_labels = true,
    .description = "what stood behind a trigger, behind the next one",
    .prepare = prepare,
    .render = ids_text,
});

}  // namespace
}  // namespace lra::induction
