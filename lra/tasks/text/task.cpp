// The task text: preparation and registration. See imdb.h.
#include "lra/data/task.h"

#include <map>

#include "attention_variants/base/text.h"
#include "lra/data/byte_tokens.h"
#include "lra/data/reading.h"
#include "lra/tasks/text/imdb.h"

namespace lra::text {
namespace {

void prepare_text(const PrepareOptions& options) {
  refuse_other_options(options, "text", {"seed"});
  if (options.source.empty()) {
    throw UsageError(
        "text is made of the reviews of aclImdb_v1.tar.gz "
        "(https://ai.stanford.edu/~amaas/data/sentiment/): give the archive, or its folder "
        "aclImdb, "
        "with --source");
  }
  const Reviews reviews = read(options);
  const Splits splits = split(reviews, options);
  Manifest manifest;
  manifest.task = "text";
  manifest.source = "IMDB reviews, from " + source_name(options);
  manifest.generator = "imdb/2";
  manifest.vocabulary = kByteVocabulary;
  manifest.classes = 2;
  manifest.options = {{"seed", options.seed}};
  std::map<std::string, SplitWriter> writers;
  const auto write = [&](const char* name, const std::vector<Review>& from,
                         const std::vector<size_t>& chosen) {
    manifest.options[name] = chosen.size();
    for (const size_t i : chosen) {
      writers[name].tokens(byte_ids(from[i].text));
      writers[name].label(from[i].label);
    }
  };
  write("train", reviews.train, splits.train);
  write("dev", reviews.train, splits.dev);
  write("test", reviews.test, splits.test);
  manifest.options["empty_files_skipped"] = reviews.empty;
  const Repeats copies = repeats(reviews, splits);
  manifest.options["test_reviews_in_train"] = copies.test_in_train;
  manifest.split = kSplit;
  manifest.notes = notes_of(reviews, copies);
  write_prepared(options.out, manifest, writers);
}

[[maybe_unused]] const bool text_registered = register_task({
    .name = "text",
    .title = "Text",
    .classes = 2,
    .vocabulary = kByteVocabulary,
    .inputs = 1,
    .length = 4096,
    .dev = 2'500,
    .public_data = {{"train+dev", 25'000}, {"test", 25'000}},
    .description = "is a film review positive? IMDB, byte by byte",
    .source = "aclImdb_v1.tar.gz or its folder aclImdb",
    .prepare = prepare_text,
    .render = render_bytes,
    .read_text = [](std::string_view text) { return byte_ids(strip(text)); },
});

}  // namespace
}  // namespace lra::text
