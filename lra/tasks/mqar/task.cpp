// The registration of the task, and its settings as text. See mqar.h.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string_view>

#include "attention_variants/base/text.h"
#include "lra/data/reading.h"
#include "lra/tasks/mqar/mqar.h"

namespace lra::mqar {
namespace {

constexpr std::array<int64_t, 3> kCounts = {100'000, 3'000, 3'000};

void check_size(const Segment& size, int64_t passes) {
  if (size.pairs < 1 || size.pairs >= kVocabulary / 2) {
    throw UsageError(fmt::format("{} positions with {} pairs: there should be from 1 to {} pairs",
                                 size.length, size.pairs, kVocabulary / 2 - 1));
  }
  const int64_t least = 2 * size.pairs * (passes + 1);
  if (size.length % 2 == 0 && size.length >= least && size.length < kVocabulary) return;
  throw UsageError(fmt::format(
      "{0} positions with {1} pairs: the length should be even, at least 2 pairs (passes + 1) = "
      "{2}, and below {3}",
      size.length, size.pairs, least, kVocabulary));
}

// "64x4" or "64x4:1000".
Segment parse_segment(std::string_view text, const std::string& name, bool counted) {
  Segment segment;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto number = [&](int64_t& value) {
    const auto [next, code] = std::from_chars(at, end, value);
    at = next;
    return code == std::errc() && value > 0;
  };
  const auto sign = [&](char wanted) { return at != end && *at++ == wanted; };
  const bool read = number(segment.length) && sign('x') && number(segment.pairs) &&
                    (!counted || (sign(':') && number(segment.count))) && at == end;
  if (read) return segment;
  throw UsageError(fmt::format("{} should be {}, not '{}'", name,
                               counted ? "LENGTHxPAIRS:SAMPLES,..., as 64x4:100000,128x8:20000"
                                       : "LENGTHxPAIRS,..., as 64x4,128x8",
                               text));
}

// Which size sample `index` of a split has: training's by their numbers, the others' in turn.
const Segment& segment_of(const std::vector<Segment>& segments, size_t split, int64_t index) {
  if (split > 0) return segments[static_cast<size_t>(index) % segments.size()];
  auto segment = segments.begin();
  while (std::next(segment) != segments.end() && index >= segment->count)
    index -= (segment++)->count;
  return *segment;
}

// What a mix says already must not be said otherwise beside it.
void check_mix_alone(const PrepareOptions& given) {
  if (given.train >= 0) throw UsageError("--train and mix both say how many samples train has");
  for (const char* key : {"length", "pairs"}) {
    if (given.settings.contains(key)) {
      throw UsageError(fmt::format(
          "--set {0} and mix both say the {0} of training samples: leave one of them out", key));
    }
  }
}

// The settings for the manifest, where a mix stands in place of length and pairs. A manifest from
// before that was so names all: the data are the same.
json told_settings(const Options& options, const std::filesystem::path& out) {
  json settings = write_fields(options);
  if (options.mix.empty()) return settings;
  const std::filesystem::path there = out / "mqar" / kManifestFile;
  if (std::filesystem::exists(there) && Manifest::read(there).options.contains("length"))
    return settings;
  settings.erase("length");
  settings.erase("pairs");
  return settings;
}

void prepare(const PrepareOptions& given) {
  refuse_other_options(given, "mqar", {"settings", "seed"});
  Options options;
  read_fields(given.settings, options, "--set");
  std::array<int64_t, 3> counts = generated_counts(given, "mqar", kCounts);
  std::vector<Segment> train = {{.length = options.length, .pairs = options.pairs}};
  if (options.mix.empty()) {
    check_size(train.front(), options.passes);
  } else {
    check_mix_alone(given);
    train = parse_segments(options.mix, "mix", /*counted=*/true, options.passes);
    counts[0] = 0;
    for (const Segment& segment : train) {
      if (segment.count > kMostSamples - counts[0])
        throw UsageError(fmt::format("mix should ask for at most {} samples in all", kMostSamples));
      counts[0] += segment.count;
    }
  }
  const std::vector<Segment> tested =
      options.test_sizes.empty()
          ? train
          : parse_segments(options.test_sizes, "test_sizes", /*counted=*/false, options.passes);
  write_labelled(
      given,
      {.task = "mqar", .generator = "mqar/1", .vocabulary = kVocabulary, .classes = kVocabulary},
      told_settings(options, given.out), counts,
      [&](CounterRandom& random, size_t split, int64_t index) {
        return draw_sample(random, segment_of(split == 0 ? train : tested, split, index), options);
      });
}

[[maybe_unused]] const bool registered = register_task({
    .name = "mqar",
    .title = "MQAR",
    .classes = kVocabulary,
    .vocabulary = kVocabulary,
    .inputs = 1,
    .length = 64,
    .dev = kCounts[1],
    .position_labels = true,
    .description = "the values of keys that come again, after pairs of a key and a value",
    .prepare = prepare,
    .render = ids_text,
});

}  // namespace

std::vector<Segment> parse_segments(const std::string& text, const std::string& name, bool counted,
                                    int64_t passes) {
  std::vector<Segment> segments;
  for (const std::string& piece : split_at_commas(text)) {
    segments.push_back(parse_segment(piece, name, counted));
    check_size(segments.back(), passes);
  }
  return segments;
}

}  // namespace lra::mqar
