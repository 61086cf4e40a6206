// Plots in words, for who does not see them.
#include <fmt/format.h>

#include <algorithm>

#include "results/print/gnuplot.h"
#include "results/print/table.h"

namespace lra {
namespace {

// "nystrom: products 4.5, copies 1."
std::string bars_text(const Plot& plot, size_t most) {
  std::string text;
  for (size_t row = 0; row < std::min(plot.rows.size(), most); ++row) {
    std::string parts;
    for (const PlotSeries& series : plot.series) {
      for (const auto& [end, y, from, to] : series.points) {
        if (y == static_cast<double>(row))
          parts += fmt::format("{} {} {}", parts.empty() ? ":" : ",", series.name,
                               short_number(to - from));
      }
    }
    text += fmt::format(" {}{}.", plot.rows[row], parts);
  }
  if (plot.rows.size() > most) text += fmt::format(" And {} more.", plot.rows.size() - most);
  return text;
}

}  // namespace

std::string alt_text(const Plot& plot) {
  constexpr size_t kMostSeries = 24;
  std::string text = plot.title.empty() ? plot.y_title : plot.title.front();
  if (!plot.data.empty()) text += ", " + plot.data;
  if (!plot.rows.empty())
    return fmt::format("{}. Across: {}.{}", text, plot.x_title, bars_text(plot, kMostSeries));
  text += fmt::format(". Across: {}; up: {}.", plot.x_title, plot.y_title);
  size_t told = 0;
  for (const PlotSeries& series : plot.series) {
    if (series.points.empty() || series.style == PlotStyle::steps) continue;
    if (++told > kMostSeries) continue;
    if (series.style == PlotStyle::rings) {
      text += fmt::format(" {}: {} of the points.", series.name, series.points.size());
      continue;
    }
    const auto& first = series.points.front();
    const auto& last = series.points.back();
    text +=
        fmt::format(" {}: {} at {}", series.name, short_number(first[1]), short_number(first[0]));
    if (series.points.size() > 1)
      text += fmt::format(" to {} at {}", short_number(last[1]), short_number(last[0]));
    text += ".";
  }
  if (told > kMostSeries) text += fmt::format(" And {} more.", told - kMostSeries);
  return text;
}

}  // namespace lra
