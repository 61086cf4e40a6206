#include "lra/data/reading.h"

#include <algorithm>

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

void check_rows(int64_t rows, int64_t limit, const std::string& where, const std::string& split) {
  if (rows == 0) throw Error(where + " holds no rows");
  if (rows < limit) {
    throw Error(where + " holds " + std::to_string(rows) + " rows, fewer than the --" + split +
                " " + std::to_string(limit) + " asked for");
  }
}

std::string source_name(const PrepareOptions& options) {
  // A folder may be given with a slash at its end.
  const std::filesystem::path whole = std::filesystem::absolute(options.source / "");
  return whole.lexically_normal().parent_path().filename().string();
}

}  // namespace lra
