// The tasks pathfinder and pathx: preparation and registration. See pathfinder.h.
#include <fmt/format.h>

#include <array>
#include <numeric>

#include "lra/data/reading.h"
#include "lra/data/task.h"
#include "lra/tasks/pathfinder/pathfinder.h"

namespace lra::pathfinder {
namespace {

struct Kind {
  std::string task;    // and how messages call it
  int64_t resolution;  // where none is given
  bool fixed = false;  // no other resolution
};

struct Chosen {
  int64_t resolution;
  std::string difficulty;
};

Chosen chosen(const PrepareOptions& options, const Kind& kind) {
  refuse_other_options(options, kind.task,
                       {"resolution", "difficulty", seed_if(options.source.empty())});
  const Chosen result{options.resolution < 0 ? kind.resolution : options.resolution,
                      options.difficulty.empty() ? "hard" : options.difficulty};
  if (kind.fixed && result.resolution != kind.resolution) {
    throw UsageError(kind.task + " is Pathfinder at " + std::to_string(kind.resolution) +
                     " pixels a side; for --resolution " + std::to_string(result.resolution) +
                     " prepare the task pathfinder");
  }
  return result;
}

constexpr std::array<int64_t, 3> kDefaults = {160'000, 20'000, 20'000};

void prepare(const PrepareOptions& options, const Kind& kind) {
  const auto [resolution, difficulty] = chosen(options, kind);
  GenerateOptions generator{.config = config(resolution, difficulty),
                            .seed = options.seed,
                            .threads = options.threads,
                            .stop = options.stop};
  Manifest manifest;
  manifest.task = kind.task;
  manifest.vocabulary = 256;
  manifest.classes = 2;
  manifest.options = {{"resolution", resolution}, {"difficulty", difficulty}};
  if (!options.source.empty()) {
    const Release release = read_release(options, resolution, difficulty);
    manifest.source = source_name(options) + " (" + release.part + ")";
    if (release.skipped > 0) {
      manifest.source += ", empty images skipped: " + std::to_string(release.skipped);
    }
    manifest.generator = "pathfinder-release/1";
    manifest.members[release.part] = release.folder;
    manifest.notes = release.notes;
    manifest.split = kReleaseSplit;
    manifest.options["skipped"] = release.skipped;
    for (const char* split : kSplits) manifest.options[split] = release.splits.at(split).size();
    write_prepared(options.out, manifest, release.splits);
    return;
  }

  const std::array<int64_t, 3> counts = split_counts(options, kDefaults, 10'000'000);
  generator.count = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  manifest.source = "generated";
  manifest.generator = "pathfinder/1";
  manifest.options["seed"] = options.seed;
  for (size_t i = 0; i < 3; ++i) manifest.options[kSplits[i]] = counts[i];
  if (already_prepared(options.out, manifest)) return;
  check_memory(options, generator.count * resolution * resolution,
               fmt::format("{} images of {} x {} pixels", generator.count, resolution, resolution));

  std::map<std::string, SplitWriter> splits;
  for (size_t i = 0; i < 3; ++i) splits[kSplits[i]].reserve(counts[i] * resolution * resolution);
  if (options.progress) {
    generator.progress = [&](int64_t done) { options.progress(done, generator.count, "generate"); };
  }
  size_t split = 0;
  generate(generator, [&](const Image& image) {
    while (splits[kSplits[split]].size() == counts[split]) ++split;
    splits[kSplits[split]].tokens(image.pixels);
    splits[kSplits[split]].label(image.label);
  });
  write_prepared(options.out, manifest, splits);
}

Task make_task(const Kind& kind, const std::string& title, const std::string& description) {
  return {.name = kind.task,
          .title = title,
          .classes = 2,
          .vocabulary = 256,
          .inputs = 1,
          .length = kind.resolution * kind.resolution,
          .dev = kDefaults[1],
          .image = true,
          .masked_share = 0.5,
          .public_data = {{"train", kDefaults[0]},
                          {"dev", kDefaults[1]},
                          {"test", kDefaults[2]},
                          {"resolution", kind.resolution},
                          {"difficulty", "hard"}},
          .description = description,
          .prepare = [kind](const PrepareOptions& options) { prepare(options, kind); },
          .render = render};
}

[[maybe_unused]] const bool pathfinder_registered =
    register_task(make_task({"pathfinder", 32}, "Pathfinder",
                            "are two points ends of one dashed curve? 32 x 32 grey pixels")) &&
    register_task(
        make_task({"pathx", 128, /*fixed=*/true}, "Path-X", "Pathfinder at 128 x 128 grey pixels"));

}  // namespace
}  // namespace lra::pathfinder
