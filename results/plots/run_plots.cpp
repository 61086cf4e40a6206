// Learning curves, as plots.
#include "results/plots/plots.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "results/analysis/accuracy_cells.h"
#include "results/analysis/run_names.h"
#include "results/plots/recipe_title_lines.h"

namespace lra {
namespace {

using PlotPoint = std::array<double, 4>;
using Value = double (*)(const LogLine&);

double loss(const LogLine& line) { return line.loss; }
double percent(const LogLine& line) { return 100 * line.accuracy; }

constexpr size_t kMostPoints = 150;  // of a line: more are not seen

// One split's values, the mean of neighbouring lines where there are too many.
std::vector<PlotPoint> curve(const std::vector<LogLine>& log, LogSplit split, Value value) {
  std::vector<PlotPoint> points;
  for (const LogLine& line : log) {
    const double y = value(line);
    if (line.split == split && y < kDrawable)
      points.push_back({static_cast<double>(line.step), y, y, y});
  }
  const size_t part = (points.size() + kMostPoints - 1) / kMostPoints;
  if (part < 2) return points;
  std::vector<PlotPoint> fewer;
  for (size_t begin = 0; begin < points.size(); begin += part) {
    const size_t end = std::min(begin + part, points.size());
    double sum = 0;
    for (size_t i = begin; i < end; ++i) sum += points[i][1];
    const double y = sum / static_cast<double>(end - begin);
    fewer.push_back({points[end - 1][0], y, y, y});
  }
  return fewer;
}

// The mean over runs, at the x that all of them have.
std::vector<PlotPoint> mean_curve(const std::vector<std::vector<PlotPoint>>& curves) {
  std::map<double, std::pair<double, size_t>> sums;  // x -> sum of y, how many
  for (const auto& points : curves) {
    for (const PlotPoint& point : points) {
      auto& [sum, count] = sums[point[0]];
      sum += point[1];
      ++count;
    }
  }
  std::vector<PlotPoint> means;
  for (const auto& [x, entry] : sums) {
    const double y = entry.first / static_cast<double>(entry.second);
    if (entry.second >= curves.size()) means.push_back({x, y, y, y});
  }
  return means;
}

std::vector<PlotSeries> curve_series(const RecipeGroup& group, const std::string& task,
                                     LogSplit split, Value value) {
  std::map<std::string, std::vector<std::vector<PlotPoint>>> rows;
  std::map<std::string, std::string> folders;  // of a row's last run
  const auto names = row_names(group);
  for (const Result* r : group.results) {
    if (r->task != task || !r->log) continue;
    std::vector<PlotPoint> points = curve(*r->log, split, value);
    if (points.empty()) continue;
    rows[names.at(r)].push_back(std::move(points));
    folders[names.at(r)] = given_name(*r);
  }
  std::vector<PlotSeries> all;
  for (const auto& [name, curves] : rows) {
    const std::string folder = curves.size() == 1 ? folders.at(name) : "";
    PlotSeries series{
        .name = folder.empty() || folder == name ? name : fmt::format("{} ({})", name, folder),
        .points = mean_curve(curves),
        .style = PlotStyle::line,
        .attention = name};
    if (!series.points.empty()) all.push_back(std::move(series));
  }
  return all;
}

}  // namespace

std::vector<Plot> curve_plots(std::span<const Result> results) {
  std::vector<Plot> plots;
  int count = 0;
  for (const RecipeGroup& group : group_by_recipe(results)) {
    for (const std::string& task : task_order(group, {})) {
      const size_t before = plots.size();
      const auto add = [&](const char* name, const char* title, LogSplit split, Value value) {
        std::vector<PlotSeries> series = curve_series(group, task, split, value);
        if (series.empty()) return;
        plots.push_back(
            {.name = fmt::format("curves-{}-{}", count + 1, name),
             .title = recipe_title_lines(fmt::format("{}: {}", task, title), group, task),
             .x_title = "steps",
             .y_title = title,
             .log_x = false,
             .log_y = false,
             .powers = false,
             .series = std::move(series),
             .width = kHalfWidth,
             .height = kHalfHeight});
      };
      add("dev-accuracy", "dev accuracy, %", LogSplit::dev, percent);
      add("dev-loss", "dev loss", LogSplit::dev, loss);
      add("train-loss", "training loss", LogSplit::train, loss);
      count += plots.size() > before ? 1 : 0;
    }
  }
  return plots;
}

std::vector<Plot> run_plots(const Result& result, const std::string& name) {
  std::vector<Plot> plots;
  if (!result.log) return plots;
  const auto add = [&](const char* what, const char* title, Value value) {
    Plot plot{.name = name + "-" + what,
              .title = {},
              .x_title = "steps",
              .y_title = title,
              .log_x = false,
              .log_y = false,
              .powers = false,
              .width = 560,
              .height = 340,
              .pdf = false};
    for (const LogSplit split : all_values<LogSplit>()) {
      std::vector<PlotPoint> points = curve(*result.log, split, value);
      if (!points.empty())
        plot.series.push_back({.name = split == LogSplit::train ? "training" : "dev",
                               .points = std::move(points),
                               .style = PlotStyle::line});
    }
    if (!plot.series.empty()) plots.push_back(std::move(plot));
  };
  add("loss", "loss", loss);
  add("accuracy", "accuracy, %", percent);
  return plots;
}

}  // namespace lra
