#include "results/tables/profile_speed.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "results/analysis/profile_cells.h"
#include "results/print/table.h"

namespace lra {
namespace {

constexpr size_t kFew = 4;  // rows that may say it of each length

// With as many digits behind the point as the first of the second number takes.
std::string with_error(double value, double error) {
  const double digits = error > 0 ? std::ceil(-std::log10(error)) : 2;
  return fmt::format("{0:.{2}f} ± {1:.{2}f}", value, error,
                     static_cast<int>(std::clamp(digits, 0.0, 3.0)));
}

// "11 ± 2", or, where the interval is far wider to one side or that would lead past 1,
// "11 [9.9, 26]".
std::string with_interval(const stats::Estimate& ratio) {
  const auto& [low, high] = ratio.ci95;
  const double below = ratio.value - low, above = high - ratio.value,
               error = std::max(below, above);
  const bool even = error <= 2 * std::min(below, above) || error <= 0.05 * ratio.value;
  if (even && (low <= 1 || ratio.value - error > 1)) return with_error(ratio.value, error);
  return fmt::format("{} [{}, {}]", short_number(ratio.value), short_number(low),
                     short_number(high));
}

// "" where one of them has no time above 0.
std::string speed_text(const std::string& fast_name, const Profile& fast,
                       const std::string& slow_name, const Profile& slow, const char* per_sample) {
  const std::optional<stats::Estimate> found = time_ratio(slow, fast);
  if (!found) return "";
  const stats::Estimate& ratio = *found;
  const bool few = !has_interval(slow) || !has_interval(fast);
  const std::string text = few ? short_number(ratio.value) : with_interval(ratio);
  const bool noisy = *noise_mark(fast, slow) != 0;
  std::string line = fmt::format("N={}: ", fast.length);
  line += ratio.ci95.low <= 1 ? fmt::format("{} and {} are not told apart{}: {}", fast_name,
                                            slow_name, per_sample, text)
                              : fmt::format("{} is {} times as fast as {}{}", fast_name, text,
                                            slow_name, per_sample);
  return line + (noisy ? " (noisy)" : few ? " (of few samples)" : "");
}

void add_speeds(const ProfileGroup& group, int64_t length, std::vector<std::string>& lines) {
  std::vector<std::pair<std::string, const Profile*>> cells;
  for (const auto& [row, by_length] : group.rows) {
    const Profile* cell = group.at(row, length);
    if (measured(cell) && time_cost(*cell) && !passes_of(*cell).empty())
      cells.emplace_back(row, cell);
  }
  std::ranges::stable_sort(cells, {}, [](const auto& cell) { return *time_cost(*cell.second); });
  for (size_t i = 1; i < cells.size(); ++i) {
    std::string line = speed_text(cells[0].first, *cells[0].second, cells[i].first,
                                  *cells[i].second, group.per_sample());
    if (!line.empty()) lines.push_back(std::move(line));
  }
}

}  // namespace

std::vector<std::string> speed_texts(std::span<const Profile> profiles) {
  std::vector<std::string> lines;
  const std::vector<ProfileGroup> groups = group_profiles(profiles);
  for (const ProfileGroup& group : groups) {
    std::vector<std::string> of_group;
    for (auto length = group.lengths.rbegin(); length != group.lengths.rend(); ++length) {
      std::vector<std::string> of_length;
      add_speeds(group, *length, of_length);
      of_group.insert(of_group.begin(), of_length.begin(), of_length.end());
      if (group.rows.size() > kFew && !of_length.empty()) break;
    }
    if (groups.size() > 1 && !of_group.empty()) lines.push_back(group.setting + ":");
    lines.insert(lines.end(), of_group.begin(), of_group.end());
  }
  return lines;
}

}  // namespace lra
