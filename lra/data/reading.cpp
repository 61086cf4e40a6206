#include "lra/data/reading.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <unordered_set>

namespace lra {
namespace {

// "--resolution and --difficulty": the options that tasks with these of refuse_other_options()
// take, but for --seed, which most do.
std::string own_flags(std::initializer_list<std::string_view> own) {
  std::string flags;
  for (const std::string_view name : own) {
    if (name == "seed") continue;
    if (!flags.empty()) flags += " and ";
    flags += name == "lengths" ? "--min-length and --max-length" : "--" + std::string(name);
  }
  return flags;
}

}  // namespace

void refuse_other_options(const PrepareOptions& options, const std::string& task,
                          std::initializer_list<std::string_view> own) {
  const auto refuse = [&](bool given, std::string_view name, const std::string& flags) {
    if (given && std::ranges::count(own, name) == 0) {
      throw UsageError("the task " + task + " has no " + flags);
    }
  };
  refuse(options.min_length >= 0 || options.max_length >= 0, "lengths",
         "--min-length and --max-length");
  refuse(options.resolution >= 0, "resolution", "--resolution");
  refuse(!options.difficulty.empty(), "difficulty", "--difficulty");
  if (!options.settings.empty() && std::ranges::count(own, "settings") == 0) {
    const std::string flags = own_flags(own);
    throw UsageError(
        "the task " + task + " has no settings of its own for --set; " +
        (flags.empty() ? "it has no options of its own" : "its own options are " + flags));
  }
  refuse(options.synthetic, "synthetic", "--synthetic");
  if (options.seed_given && std::ranges::count(own, "seed") == 0) {
    throw UsageError("the task " + task + " draws nothing" +
                     (options.source.empty() ? "" : " of this --source") + ": leave --seed out");
  }
}

VisitOptions visit_options(const PrepareOptions& options) {
  VisitOptions visit{.progress = {}, .stop = options.stop};
  if (options.progress) {
    visit.progress = [&options, what = "read " + source_name(options)](
                         int64_t done, int64_t total) { options.progress(done, total, what); };
  }
  return visit;
}

std::array<int64_t, 3> split_counts(const PrepareOptions& options,
                                    const std::array<int64_t, 3>& otherwise, int64_t most) {
  std::array<int64_t, 3> counts = options.counts();
  for (size_t i = 0; i < 3; ++i) {
    if (counts[i] < 0) counts[i] = otherwise[i];
    if (counts[i] < 1 || counts[i] > most)
      throw UsageError(
          fmt::format("--{} should be from 1 to {}, not {}", kSplits[i], most, counts[i]));
  }
  return counts;
}

void check_rows(int64_t rows, int64_t limit, const std::string& where, const std::string& split) {
  if (rows == 0) throw Error(where + " holds no rows for " + split);
  if (rows < limit) {
    throw Error(where + " holds " + std::to_string(rows) + " rows, fewer than the --" + split +
                " " + std::to_string(limit) + " asked for");
  }
}

void check_memory(const PrepareOptions& options, int64_t bytes, const std::string& what) {
  const int64_t memory =
      options.memory > 0 ? options.memory : sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGE_SIZE);
  if (bytes <= memory) return;
  throw UsageError(
      fmt::format("{} take {} GiB of memory, more than the {:.3g} {}; give a smaller --train, "
                  "--dev or --test",
                  what, (bytes >> 30) + 1, static_cast<double>(memory) / (1 << 30),
                  options.memory > 0 ? "that are free" : "of this machine"));
}

std::vector<std::string> notes_of_copies(const std::map<std::string, SplitWriter>& splits) {
  std::unordered_set<size_t> before;
  int64_t copies[3] = {};
  for (size_t i = 0; i < 3; ++i) {
    const std::vector<size_t> hashes = splits.at(kSplits[i]).hashes();
    for (const size_t hash : hashes) copies[i] += before.contains(hash) ? 1 : 0;
    before.insert(hashes.begin(), hashes.end());
  }
  if (copies[1] + copies[2] == 0) return {};
  return {fmt::format(
      "WARNING: samples of dev that stand in train: {}, of test that stand in train or dev: {}",
      copies[1], copies[2])};
}

std::vector<std::string> notes_of_rows(const std::map<std::string, SplitWriter>& splits,
                                       const PrepareOptions& options,
                                       const std::array<int64_t, 3>& published) {
  const std::array<int64_t, 3> limits = options.counts();
  std::vector<std::string> notes;
  for (size_t i = 0; i < 3; ++i) {
    const SplitWriter& split = splits.at(kSplits[i]);
    if (limits[i] < 0 && split.size() != published[i]) {
      notes.push_back(fmt::format("WARNING: the source has {} rows for {}; the public data have {}",
                                  split.size(), kSplits[i], published[i]));
    }
  }
  const std::vector<std::string> copies = notes_of_copies(splits);
  notes.insert(notes.end(), copies.begin(), copies.end());
  return notes;
}

std::string source_name(const PrepareOptions& options) {
  // A folder may be given with a slash at its end.
  const std::filesystem::path whole = std::filesystem::absolute(options.source / "");
  return whole.lexically_normal().parent_path().filename().string();
}

}  // namespace lra
