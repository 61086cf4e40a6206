#include "results/tables/profile_compare.h"

#include <fmt/format.h>

#include <map>
#include <optional>

#include "results/analysis/profile_cells.h"

namespace lra {
namespace {

struct Verdict {
  std::string text;
  bool worse = false;
};

// Of now / before; absent where a record does not hold its samples.
std::optional<stats::BootstrapEstimate> time_ratio(const Profile& before, const Profile& now) {
  const auto above = passes_of(now), below = passes_of(before);
  if (above.empty() || below.empty()) return std::nullopt;
  return stats::ratio_over_passes(above, below);
}

Verdict time_verdict(const std::optional<stats::BootstrapEstimate>& ratio, double tolerance) {
  const double high = 1 + tolerance, low = 1 / high;
  if (!ratio) return {"ambiguous"};
  if (ratio->ci95.low > high) return {"slower", true};
  if (ratio->ci95.high < low) return {"faster"};
  if (ratio->ci95.low >= low && ratio->ci95.high <= high) return {"same"};
  return {"ambiguous"};
}

Verdict memory_verdict(const std::optional<double>& before, const std::optional<double>& now,
                       double tolerance) {
  if (!before || !now) return {""};
  if (*now > *before * (1 + tolerance)) return {"more memory", true};
  if (*now * (1 + tolerance) < *before) return {"less memory"};
  return {""};
}

std::string memory_ratio(const Profile& before, const Profile& now) {
  if (!now.memory->peak || !(before.memory->peak.value_or(0) > 0)) return "–";
  return fmt::format("{:.3f}", *now.memory->peak / *before.memory->peak);
}

}  // namespace

Comparison compare_profiles(std::span<const Profile> before, std::span<const Profile> now,
                            double tolerance) {
  std::map<std::string, const Profile*> known;
  for (const Profile& p : before) known[identity(p)] = &p;  // the later line stands
  Comparison comparison;
  comparison.table = {
      .title = "Time now / before",
      .columns = {{"attention", Align::kLeft},
                  {"length"},
                  {"scope"},
                  {"mode"},
                  {"before, ms"},
                  {"now, ms"},
                  {"ratio [95 % interval]"},
                  {"memory ratio"},
                  {"verdict", Align::kLeft}},
      .rows = {},
      .notes = {fmt::format(
          "slower (faster): the ratio's whole interval is beyond {:g} % of change; same: within "
          "it; ambiguous: neither, measure longer",
          100 * tolerance)}};
  for (const Profile& p : now) {
    const auto it = known.find(identity(p));
    if (it == known.end()) continue;
    const Profile& old = *it->second;
    std::vector<std::string> row = {p.attention.label, fmt::format("{}", p.length),
                                    to_string(p.scope), to_string(p.mode)};
    if (!measured(&old) || !measured(&p)) {
      const bool fails = measured(&old) && !measured(&p);
      row.insert(row.end(),
                 {measured(&old) ? short_number(old.time->median) : to_string(old.status),
                  measured(&p) ? short_number(p.time->median) : to_string(p.status), "–", "–",
                  fails          ? "fails"
                  : measured(&p) ? "runs now"
                                 : "–"});
      comparison.worse += fails ? 1 : 0;
    } else {
      const std::optional<stats::BootstrapEstimate> ratio = time_ratio(old, p);
      const Verdict time = time_verdict(ratio, tolerance),
                    memory = memory_verdict(old.memory->peak, p.memory->peak, tolerance);
      const bool noisy = !p.noisy.empty() || !old.noisy.empty();
      row.insert(row.end(), {short_number(old.time->median), short_number(p.time->median),
                             ratio ? fmt::format("{:.3f} [{:.3f}, {:.3f}]", ratio->value,
                                                 ratio->ci95.low, ratio->ci95.high)
                                   : "–",
                             memory_ratio(old, p),
                             time.text + (memory.text.empty() ? "" : ", " + memory.text) +
                                 (noisy ? " (noisy)" : "")});
      comparison.worse += time.worse || memory.worse ? 1 : 0;
    }
    comparison.table.rows.push_back(row);
  }
  return comparison;
}

}  // namespace lra
