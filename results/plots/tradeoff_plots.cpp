// Accuracy against cost, as plots.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "results/analysis/accuracy_cells.h"
#include "results/plots/plots.h"
#include "results/plots/recipe_title_lines.h"
#include "results/print/terminal.h"
#include "results/statistics/statistics.h"

namespace lra {
namespace {

using CostPoint = std::array<double, 4>;

struct Cost {
  double x = 0, y = 0;  // cost and accuracy
  stats::Interval ci;
  LearnedCount learned;
  bool noisy = false;  // the cost: others took processor time from a run
};

using CostRows = std::map<std::string, Cost>;  // by row

// From the cheapest on, each that is better than all before. A mean of seeds of which some did not
// learn the task is never the best.
std::vector<CostPoint> pareto_front(const CostRows& rows) {
  std::vector<Cost> costs;
  for (const auto& [name, cost] : rows) {
    if (cost.learned.all()) costs.push_back(cost);
  }
  std::ranges::sort(costs, [](const Cost& one, const Cost& other) {
    return one.x != other.x ? one.x < other.x : one.y > other.y;
  });
  std::vector<CostPoint> front;
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
    struct Costs {
      std::vector<double> rates, mib;
      bool noisy = false;
    };
    std::map<std::string, Costs> machines;
    for (const Result* r : cell.ok) {
      auto& [rates, mib, noisy] = machines[machine_setting_text(*r)];
      noisy |= r->training.noisy();
      const auto rate = r->training.steps_per_second, peak = r->training.peak_memory_mib;
      if (rate && knows_threads(*r) && *rate > 1 / kDrawable && *rate < kDrawable)
        rates.push_back(*rate);
      if (peak && *peak > 1 / kDrawable && *peak < kDrawable) mib.push_back(*peak);
    }
    for (const auto& [machine, costs] : machines) {
      const Cost cost{.y = cell.percent(), .ci = cell.interval(), .learned = cell.learned_count()};
      const auto place = [&](TaskCosts& of, double x, bool noisy) {
        Cost& mine = of[{key.second, machine}][key.first];
        mine = cost;
        mine.x = x;
        mine.noisy = noisy;
      };
      // Of the median rate, as tables have it: between two seeds the median time is another.
      if (!costs.rates.empty())
        place(all.times, 1000 / stats::quantile(costs.rates, 0.5), costs.noisy);
      if (!costs.mib.empty()) place(all.memories, stats::quantile(costs.mib, 0.5), /*noisy=*/false);
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
            .width = kHalfWidth,
            .height = kHalfHeight};
  set_cost_axis(rows, plot);
  for (const auto& [row, cost] : rows) {
    plot.series.push_back({.name = cost.learned.named(row),
                           .points = {{cost.x, cost.y, cost.ci.low, cost.ci.high}},
                           .style = PlotStyle::points,
                           .attention = row});
  }
  std::vector<CostPoint> front = pareto_front(rows);
  PlotSeries noisy{.name = "~ noisy", .style = PlotStyle::rings};
  for (const auto& [row, cost] : rows) {
    if (cost.noisy) noisy.points.push_back({cost.x, cost.y, cost.y, cost.y});
  }
  if (!noisy.points.empty()) plot.series.push_back(std::move(noisy));
  if (front.size() > 1)
    plot.series.push_back(
        {.name = "Pareto front", .points = std::move(front), .style = PlotStyle::steps});
  return plot;
}

}  // namespace

std::vector<std::string> recipe_title_lines(const std::string& what, const RecipeGroup& group,
                                            const std::string& task) {
  std::vector<std::string> lines{what};
  for (std::string& line : wrapped(recipe_text(group, {task}), kTitleLetters))
    lines.push_back(std::move(line));
  return lines;
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
        auto lines =
            recipe_title_lines(fmt::format("{}: accuracy against {}", task, title), group, task);
        for (std::string& line : wrapped(machine, kTitleLetters)) lines.push_back(std::move(line));
        plots.push_back(tradeoff_plot(fmt::format("tradeoff-{}-{}", count, name), title,
                                      std::move(lines), rows));
        plots.back().data = other_data_text(group, {task});
      };
      add("time", "time of a training step, ms", times);
      add("memory", "peak memory of training, MiB", costs.memories[key]);
    }
  }
  return plots;
}

}  // namespace lra
