// Where a step's time goes, as bars.
#include <fmt/format.h>

#include <algorithm>

#include "results/plots/plots.h"
#include "results/print/table.h"
#include "results/print/terminal.h"
#include "results/where/groups.h"

namespace lra {
namespace {

constexpr int kBarsWidth = 560;  // pixels: its letters can be read on a telephone
constexpr int kBarHeight = 44;   // with the name above
constexpr size_t kBarsLetters = 76;

// The colours of the kinds, kOutside's last.
constexpr std::array<size_t, 8> kKindLooks = {5, 6, 3, 1, 2, 4, 7, 0};
static_assert(names(WorkKind{}).size() + 1 == kKindLooks.size());

// A series a kind that takes time in some row, its part of each row's bar behind those of the kinds
// before it.
std::vector<PlotSeries> bar_series(const WhereGroup& group) {
  std::vector<std::string> kinds = all_names<WorkKind>();
  kinds.emplace_back(kOutside);
  std::vector<double> ends(group.rows.size());
  std::vector<PlotSeries> all;
  for (size_t k = 0; k < kinds.size(); ++k) {
    PlotSeries series{.name = kinds[k], .style = PlotStyle::bars, .look = kKindLooks[k]};
    for (size_t row = 0; row < group.rows.size(); ++row) {
      const WhereSums sums = sums_by_kind(*group.rows[row].second);
      const auto it = sums.find(kinds[k]);
      if (it == sums.end() || !(it->second > 0)) continue;
      const double from = ends[row];
      ends[row] += it->second;
      series.points.push_back({ends[row], static_cast<double>(row), from, ends[row]});
    }
    if (!series.points.empty()) all.push_back(std::move(series));
  }
  return all;
}

// From 0 to a little beyond the longest bar that can be drawn.
PlotRange bars_range(const std::vector<PlotSeries>& series) {
  double longest = 0;
  for (const PlotSeries& one : series) {
    for (const auto& point : one.points) {
      if (point[0] < kDrawable) longest = std::max(longest, point[0]);
    }
  }
  return {0, longest > 0 ? 1.03 * longest : 1};
}

}  // namespace

std::vector<Plot> where_plots(std::span<const Where> records) {
  std::vector<Plot> plots;
  for (const WhereGroup& group : where_groups(records)) {
    Plot plot{.name = fmt::format("where-{}", plots.size() + 1),
              .title = {"Self time of a step by kind of work"},
              .x_title = "ms of a recorded step",
              .log_x = false,
              .log_y = false,
              .powers = false,
              .series = bar_series(group),
              .width = kBarsWidth};
    for (std::string& line : wrapped(group.setting, kBarsLetters))
      plot.title.push_back(std::move(line));
    plot.x_range = bars_range(plot.series);
    for (const auto& [name, record] : group.rows)
      plot.rows.push_back(fmt::format("{}: step {} ms", name, short_number(record->step_ms)));
    plot.height = 150 + 20 * static_cast<int>(plot.title.size()) +
                  kBarHeight * static_cast<int>(plot.rows.size());
    plots.push_back(std::move(plot));
  }
  return plots;
}

}  // namespace lra
