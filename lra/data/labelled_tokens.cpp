#include "lra/data/labelled_tokens.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "lra/data/reading.h"

namespace lra {
namespace {

constexpr int kSplitShift = 40;  // streams of a split: its index above, the sample's below

// Of all samples, by the mean of some of each split: they need not be of one length.
int64_t tokens_of(const std::array<int64_t, 3>& counts, const DrawSample& draw) {
  constexpr int64_t kTried = 64;
  CounterRandom random(0, 0);
  int64_t tokens = 0;
  for (size_t split = 0; split < 3; ++split) {
    const int64_t tried = std::min(kTried, counts[split]);
    int64_t sum = 0;
    for (int64_t i = 0; i < tried; ++i)
      sum += std::ssize(
          draw(random, split, random.below(static_cast<uint32_t>(counts[split]))).tokens);
    tokens += counts[split] * sum / tried;
  }
  return tokens;
}

}  // namespace

std::array<int64_t, 3> generated_counts(const PrepareOptions& options, const std::string& task,
                                        const std::array<int64_t, 3>& otherwise) {
  if (!options.source.empty())
    throw UsageError("the task " + task + " is generated: it has no --source");
  return split_counts(options, otherwise, kMostSamples);
}

void write_labelled(const PrepareOptions& options, Manifest manifest, const json& settings,
                    const std::array<int64_t, 3>& counts, const DrawSample& draw) {
  manifest.source = "generated";
  manifest.position_labels = true;
  manifest.options = {{"seed", options.seed}};
  for (size_t i = 0; i < 3; ++i) manifest.options[kSplits[i]] = counts[i];
  manifest.options.update(settings);
  if (already_prepared(options.out, manifest)) return;

  const int64_t total = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  const int64_t tokens = tokens_of(counts, draw);
  check_memory(options, tokens * static_cast<int64_t>(sizeof(uint16_t) + sizeof(int32_t)),
               fmt::format("{} samples of about {} tokens", total, tokens / total));
  int64_t done = 0;
  std::map<std::string, SplitWriter> splits;
  for (size_t split = 0; split < 3; ++split) {
    SplitWriter& writer = splits[kSplits[split]];
    for (int64_t i = 0; i < counts[split]; ++i) {
      if (options.stop != nullptr && *options.stop)
        throw Error("stopped while generating " + manifest.task + "; nothing was written");
      CounterRandom random(options.seed, (uint64_t{split} << kSplitShift) | uint64_t(i));
      const LabelledTokens sample = draw(random, split, i);
      writer.tokens(sample.tokens);
      writer.labels(sample.labels);
      if (options.progress && ++done % 4096 == 0) options.progress(done, total, "generate");
    }
  }
  manifest.notes = notes_of_copies(splits);
  write_prepared(options.out, manifest, splits);
}

std::string ids_text(std::span<const uint16_t> ids) {
  return fmt::format("{}", fmt::join(ids, " "));
}

}  // namespace lra
