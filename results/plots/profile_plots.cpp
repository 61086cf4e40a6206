// Time and memory against length, as plots.
#include <fmt/format.h>

#include <map>

#include "results/analysis/profile_cells.h"
#include "results/plots/plots.h"
#include "results/tables/profile_table.h"

namespace lra {
namespace {

enum class Quantity { time, memory };

std::optional<std::array<double, 4>> point(const Profile& p, Quantity quantity) {
  const double x = static_cast<double>(p.length);
  const auto cost = quantity == Quantity::time ? time_cost(p) : memory_cost(p);
  if (!cost) return std::nullopt;  // has no place on a logarithmic axis
  const double y = *cost;
  const auto ci = quantity == Quantity::time ? shown_interval(p) : std::nullopt;
  if (!ci) return {{x, y, y, y}};
  const double scale = y / p.time->median;
  return {{x, y, ci->low > 0 ? ci->low * scale : y / 10, ci->high * scale}};
}

std::vector<PlotSeries> series_of(const ProfileGroup& group, std::span<const Published> references,
                                  Quantity quantity) {
  std::vector<PlotSeries> all;
  PlotSeries noisy{.name = "~ noisy", .style = PlotStyle::rings};
  std::map<std::string, size_t> foreign;  // series so far, by attention
  const auto add = [&](PlotSeries series) {
    if (series.points.empty()) return;
    if (series.dashed || series.dotted) series.variant = ++foreign[series.attention];
    all.push_back(std::move(series));
  };
  for (const auto& [name, cells] : group.rows) {
    PlotSeries series{.name = name,
                      .dashed = !cells.begin()->second->package.empty(),
                      .attention = cells.begin()->second->package.empty()
                                       ? name
                                       : cells.begin()->second->attention.label};
    for (const auto& [length, p] : cells) {
      if (!measured(p)) continue;
      const auto at = point(*p, quantity);
      if (!at) continue;
      series.points.push_back(*at);
      if (quantity == Quantity::time && !p->noisy.empty()) noisy.points.push_back(*at);
    }
    add(std::move(series));
  }
  for (const Published& reference : references) {
    if (!reference.cost || !comparable(*reference.cost, *group.front)) continue;
    const PublishedCost& cost = *reference.cost;
    for (const PublishedCost::Row& row : cost.rows) {
      PlotSeries series{.name = fmt::format("{}, published ({})", row.name, cost.machine),
                        .dotted = true,
                        .attention = row.variant.name};
      for (size_t i = 0; i < cost.lengths.size(); ++i) {
        const double y = quantity == Quantity::time ? row.time[i] : row.memory[i];
        if (group.lengths.contains(cost.lengths[i]) && y > 0)
          series.points.push_back({static_cast<double>(cost.lengths[i]), y, y, y});
      }
      add(std::move(series));
    }
  }
  if (!noisy.points.empty()) all.push_back(std::move(noisy));
  return all;
}

}  // namespace

std::vector<Plot> profile_plots(std::span<const Profile> profiles,
                                std::span<const Published> references) {
  std::vector<Plot> plots;
  int count = 0;
  for (const ProfileGroup& group : group_profiles(profiles)) {
    if (group.lengths.size() < 2) continue;
    ++count;
    const auto add = [&](const char* what, const std::string& title, Quantity quantity) {
      const std::string name = fmt::format("profile-{}-{}", count, what);
      std::vector<PlotSeries> series = series_of(group, references, quantity);
      if (series.empty()) return;
      plots.push_back({.name = name,
                       .title = {title, group.setting},
                       .x_title = "sequence length",
                       .y_title = title,
                       .powers = false,
                       .x_marks = {group.lengths.begin(), group.lengths.end()},
                       .series = std::move(series)});
    };
    add("time", fmt::format("time{}, ms (median, 95 % interval)", group.per_sample()),
        Quantity::time);
    add("memory", fmt::format("peak memory{}, MiB (published: as printed)", group.per_sample()),
        Quantity::memory);
  }
  return plots;
}

}  // namespace lra
