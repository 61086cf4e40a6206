#include "results/tables/profile_compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

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

// Fills in what both say of a cell.
void add_compared(const Profile& old, const Profile& now, double tolerance,
                  Comparison& comparison) {
  std::vector<std::string> row = {now.attention.label, fmt::format("{}", now.length),
                                  to_string(now.scope), to_string(now.mode)};
  if (!measured(&old) || !measured(&now)) {
    const bool fails = measured(&old) && !measured(&now);
    row.insert(row.end(),
               {measured(&old) ? short_number(old.time->median) : to_string(old.status),
                measured(&now) ? short_number(now.time->median) : to_string(now.status), "–", "–",
                fails            ? "fails"
                : measured(&now) ? "runs now"
                                 : "–"});
    comparison.worse += fails ? 1 : 0;
  } else {
    const std::optional<stats::BootstrapEstimate> ratio = time_ratio(old, now);
    const Verdict time = time_verdict(ratio, tolerance),
                  memory = memory_verdict(old.memory->peak, now.memory->peak, tolerance);
    const bool noisy = !now.noisy.empty() || !old.noisy.empty();
    row.insert(row.end(), {short_number(old.time->median), short_number(now.time->median),
                           ratio ? fmt::format("{:.3f} [{:.3f}, {:.3f}]", ratio->value,
                                               ratio->ci95.low, ratio->ci95.high)
                                 : "–",
                           memory_ratio(old, now),
                           time.text + (memory.text.empty() ? "" : ", " + memory.text) +
                               (noisy ? " (noisy)" : "")});
    comparison.worse += time.worse || memory.worse ? 1 : 0;
  }
  comparison.table.rows.push_back(std::move(row));
}

// "standard at 512 (and 3 more): protocol mine, protocol_sha256 1a2b3c4d before, 5e6f7a8b now".
std::vector<std::string> cells_texts(const std::map<std::string, std::vector<std::string>>& cells) {
  std::vector<std::string> texts;
  for (const auto& [difference, names] : cells) {
    const size_t more = names.size() - 1;
    texts.push_back(fmt::format("{}{}: {}", names.front(),
                                more > 0 ? fmt::format(" (and {} more)", more) : "", difference));
  }
  return texts;
}

}  // namespace

Comparison compare_profiles(std::span<const Profile> before, std::span<const Profile> now,
                            double tolerance) {
  std::map<std::string, std::vector<const Profile*>> known;
  for (const Profile& p : before) known[identity(p)].push_back(&p);
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
  std::map<std::string, std::vector<std::string>> apart, kernels;  // in what -> which cells
  for (const Profile& p : now) {
    const auto it = known.find(identity(p));
    if (it == known.end()) continue;
    const auto difference = [&p](const Profile* old) {
      return other_values(setup_marks(*old), setup_marks(p));
    };
    const auto& all = it->second;
    const auto old = std::find_if(all.rbegin(), all.rend(),
                                  [&](const Profile* one) { return difference(one).empty(); });
    const std::string cell = fmt::format("{} at {}", p.attention.label, p.length);
    if (old == all.rend()) {
      apart[fmt::format("protocol {}, {}", p.protocol, difference(all.back()))].push_back(cell);
      continue;
    }
    if (const std::string text = other_kernels(setup_marks(**old), setup_marks(p)); !text.empty())
      kernels[text].push_back(cell);
    add_compared(**old, p, tolerance, comparison);
  }
  for (const std::string& text : cells_texts(kernels))
    comparison.table.notes.push_back("other sets of the CPU's kernels: " + text);
  comparison.apart = cells_texts(apart);
  for (const std::string& text : comparison.apart)
    comparison.table.notes.push_back("not compared, of other values of the protocol: " + text);
  return comparison;
}

}  // namespace lra
