#include "harness/commands/profile_comparison.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

#include "attention_variants/base/error.h"
#include "harness/host/terminal.h"
#include "harness/profile/store.h"
#include "results/print/terminal.h"
#include "results/tables/profile_compare.h"

namespace lra {

namespace {

// "; of AMD EPYC, 2 cores there, Intel Xeon, 4 cores here", of the first of each; "" where they
// agree.
std::string machines_apart(const std::vector<Profile>& earlier, const std::vector<Profile>& now) {
  if (earlier.empty() || now.empty()) return "";
  const Machine &there = earlier.front().machine, &here = now.front().machine;
  std::string a = machine_text(there), b = machine_text(here);
  if (a == b && !there.processor_model.empty() && !here.processor_model.empty()) {
    a = there.processor_model;
    b = here.processor_model;
  }
  return a == b ? "" : fmt::format("; of {} there, {} here", a, b);
}

Comparison compared(const std::vector<Profile>& earlier, const std::vector<Profile>& now,
                    const ComparisonOptions& options) {
  Comparison comparison = compare_profiles(earlier, now, options.tolerance);
  if (!comparison.table.rows.empty()) return comparison;
  throw Error(fmt::format(
      "--compare {}: has no cell in common with {}: {}{}", options.earlier, options.now,
      comparison.apart.empty()
          ? "attention, options, length, sizes, scope, mode, type, protocol, task, --set, threads "
            "and machine must agree"
          : fmt::format("those of another setting are not compared: {}",
                        fmt::join(comparison.apart, "; ")),
      machines_apart(earlier, now)));
}

}  // namespace

std::vector<Profile> read_earlier(const std::string& file) {
  if (!std::filesystem::exists(file)) throw UsageError("--compare " + file + ": no such file");
  if (!std::filesystem::is_regular_file(file))
    throw UsageError("--compare " + file + " is no file; name what an earlier --out wrote");
  try {
    return profile::read_profile(file);
  } catch (const Error& error) {
    throw UsageError(fmt::format("--compare: {}", error.what()));
  }
}

void check_comparable(const std::vector<Profile>& earlier, const std::vector<Profile>& planned,
                      const ComparisonOptions& options) {
  compared(earlier, planned, options);
}

void print_comparison(const std::vector<Profile>& earlier, const std::vector<Profile>& now,
                      const ComparisonOptions& options) {
  const Comparison comparison = compared(earlier, now, options);
  fmt::print("{}", to_terminal(comparison.table, host::table_columns()));
  if (comparison.worse > 0) {
    throw Error(fmt::format("{} of {} cells are worse than in {} by more than {:g} %",
                            comparison.worse, comparison.table.rows.size(), options.earlier,
                            100 * options.tolerance));
  }
}

}  // namespace lra
