#include "results/plots/plots.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "results/analysis/accuracy_cells.h"
#include "results/analysis/run_names.h"
#include "results/statistics/statistics.h"

namespace lra {
namespace {

using PlotPoint = std::array<double, 4>;
using Value = double (*)(const LogLine&);

double loss(const LogLine& line) { return line.loss; }
double percent(const LogLine& line) { return 100 * line.accuracy; }

constexpr size_t kMostPoints = 150;         // of a line: more are not seen
constexpr int kWidth = 600, kHeight = 430;  // pixels: two stand beside each other

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

// What is drawn, and the recipe below it, in lines that fit above a picture of kWidth.
std::vector<std::string> titles(const std::string& what, const RecipeGroup& group,
                                const std::string& task) {
  constexpr size_t kLetters = 84;
  std::vector<std::string> lines{what, ""};
  std::istringstream words(recipe_text(group, {task}));
  for (std::string word; words >> word;) {
    std::string& line = lines.back();
    if (!line.empty() && line.size() + word.size() > kLetters) {
      lines.push_back(word);
    } else {
      line += (line.empty() ? "" : " ") + word;
    }
  }
  return lines;
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

struct Cost {
  double x = 0, y = 0;  // cost and accuracy
  stats::Interval ci;
};

using CostRows = std::map<std::string, Cost>;  // by row

// From the cheapest on, each that is better than all before.
std::vector<PlotPoint> pareto_front(const CostRows& rows) {
  std::vector<Cost> costs;
  for (const auto& [name, cost] : rows) costs.push_back(cost);
  std::ranges::sort(costs, [](const Cost& one, const Cost& other) {
    return one.x != other.x ? one.x < other.x : one.y > other.y;
  });
  std::vector<PlotPoint> front;
  for (const Cost& cost : costs) {
    if (front.empty() || cost.y > front.back()[1])
      front.push_back({cost.x, cost.y, cost.y, cost.y});
  }
  return front;
}

using TaskCosts = std::map<std::pair<std::string, std::string>, CostRows>;  // (task, machine)

// The time of a training step and the peak memory of training; medians over seeds.
struct TradeoffCosts {
  TaskCosts times, memories;
};

TradeoffCosts tradeoff_costs(const RecipeGroup& group) {
  TradeoffCosts all;
  for (const auto& [key, cell] : accuracy_cells(group)) {
    std::map<std::string, std::pair<std::vector<double>, std::vector<double>>> machines;
    for (const Result* r : cell.ok) {
      auto& [seconds, mib] = machines[machine_setting_text(*r)];
      const auto rate = r->training.steps_per_second, peak = r->training.peak_memory_mib;
      if (rate && *rate > 1 / kDrawable && *rate < kDrawable) seconds.push_back(1000 / *rate);
      if (peak && *peak > 1 / kDrawable && *peak < kDrawable) mib.push_back(*peak);
    }
    for (const auto& [machine, costs] : machines) {
      const Cost cost{.y = cell.percent(), .ci = cell.interval()};
      const auto place = [&](TaskCosts& of, const std::vector<double>& values) {
        if (values.empty()) return;
        Cost& mine = of[{key.second, machine}][key.first];
        mine = cost;
        mine.x = stats::quantile(values, 0.5);
      };
      place(all.times, costs.first);
      place(all.memories, costs.second);
    }
  }
  return all;
}

// The axis of the costs: of powers of two only where it would have more than a mark or two.
void set_cost_axis(const CostRows& rows, Plot& plot) {
  PlotRange range{rows.begin()->second.x, rows.begin()->second.x};
  for (const auto& [row, cost] : rows)
    range = {std::min(range.low, cost.x), std::max(range.high, cost.x)};
  plot.log_x = range.high > 8 * range.low;
  plot.x_range =
      plot.log_x ? PlotRange{range.low / 1.3, range.high * 1.3} : PlotRange{0, range.high * 1.1};
}

Plot tradeoff_plot(const std::string& name, const char* cost_title, std::vector<std::string> title,
                   const CostRows& rows) {
  Plot plot{.name = name,
            .title = std::move(title),
            .x_title = cost_title,
            .y_title = "test accuracy, % (95 % interval)",
            .log_y = false,
            .powers = false,
            .width = kWidth,
            .height = kHeight};
  set_cost_axis(rows, plot);
  for (const auto& [row, cost] : rows) {
    plot.series.push_back({.name = row,
                           .points = {{cost.x, cost.y, cost.ci.low, cost.ci.high}},
                           .style = PlotStyle::points});
  }
  std::vector<PlotPoint> front = pareto_front(rows);
  if (front.size() > 1)
    plot.series.push_back(
        {.name = "Pareto front", .points = std::move(front), .style = PlotStyle::steps});
  return plot;
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
        plots.push_back({.name = fmt::format("curves-{}-{}", count + 1, name),
                         .title = titles(fmt::format("{}: {}", task, title), group, task),
                         .x_title = "steps",
                         .y_title = title,
                         .log_x = false,
                         .log_y = false,
                         .powers = false,
                         .series = std::move(series),
                         .width = kWidth,
                         .height = kHeight});
      };
      add("dev-accuracy", "dev accuracy, %", LogSplit::dev, percent);
      add("dev-loss", "dev loss", LogSplit::dev, loss);
      add("train-loss", "training loss", LogSplit::train, loss);
      count += plots.size() > before ? 1 : 0;
    }
  }
  return plots;
}

std::vector<Plot> tradeoff_plots(std::span<const Result> results) {
  std::vector<Plot> plots;
  int count = 0;
  for (const RecipeGroup& group : group_by_recipe(results)) {
    TradeoffCosts costs = tradeoff_costs(group);
    for (const auto& [key, times] : costs.times) {
      const auto& [task, machine] = key;
      ++count;
      const auto add = [&](const char* name, const char* title, const CostRows& rows) {
        if (rows.size() < 2) return;
        auto lines = titles(fmt::format("{}: accuracy against {}", task, title), group, task);
        lines.push_back(machine);
        plots.push_back(tradeoff_plot(fmt::format("tradeoff-{}-{}", count, name), title,
                                      std::move(lines), rows));
      };
      add("time", "time of a training step, ms", times);
      add("memory", "peak memory of training, MiB", costs.memories[key]);
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
