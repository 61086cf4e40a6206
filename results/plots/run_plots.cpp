// Learning curves, as plots.
#include "results/plots/plots.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "attention_variants/base/text.h"
#include "results/analysis/accuracy_cells.h"
#include "results/analysis/run_names.h"
#include "results/plots/recipe_title_lines.h"
#include "results/tables/accuracy_notes.h"

namespace lra {
namespace {

using PlotPoint = std::array<double, 4>;
using Value = double (*)(const LogLine&);

double loss(const LogLine& line) { return line.loss; }
double percent(const LogLine& line) { return 100 * line.accuracy; }

constexpr size_t kMostPoints = 150;  // of a line: more are not seen
constexpr size_t kMostInAll = 6000;  // of the lines of a picture, but 30 of each

// One split's values, the mean of neighbouring lines where there are more than `most`.
std::vector<PlotPoint> curve(const std::vector<LogLine>& log, LogSplit split, Value value,
                             size_t most = kMostPoints) {
  std::vector<PlotPoint> points;
  for (const LogLine& line : log) {
    const double y = value(line);
    if (line.split == split && y < kDrawable)
      points.push_back({static_cast<double>(line.step), y, y, y});
  }
  const size_t part = (points.size() + most - 1) / most;
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

using CurveRows = std::map<std::string, std::vector<const Result*>>;  // runs with a log, by row

CurveRows curve_rows(const RecipeGroup& group, const std::string& task) {
  CurveRows rows;
  const auto names = row_names(group);
  for (const Result* r : group.results) {
    if (r->task == task && r->log) rows[names.at(r)].push_back(r);
  }
  return rows;
}

// What an attention is called in the key: "a (3 seeds, 1 never left majority)", "a (folder)".
std::string curves_key(const std::string& name, const std::vector<const Result*>& drawn) {
  const auto stuck = std::ranges::count_if(drawn, &Result::never_left_majority);
  std::set<uint64_t> seeds;
  for (const Result* r : drawn) seeds.insert(r->seed);
  std::string what = given_name(*drawn.front());
  if (drawn.size() > 1) {
    what = count_text(seeds.size(), "seed");
    if (seeds.size() < drawn.size()) what += fmt::format(", {} runs", drawn.size());
  }
  if (what == name) what = "";
  if (stuck > 0) {
    what += what.empty() ? "" : ", ";
    what += drawn.size() > 1 ? fmt::format("{} never left majority", stuck) : "never left majority";
  }
  return what.empty() ? name : fmt::format("{} ({})", name, what);
}

// A line a run: a mean would hide that some seeds learned the task and others did not.
std::vector<PlotSeries> curve_series(const CurveRows& rows, LogSplit split, Value value) {
  size_t runs = 0;
  for (const auto& [name, of_row] : rows) runs += of_row.size();
  const size_t most = std::clamp<size_t>(kMostInAll / std::max<size_t>(runs, 1), 30, kMostPoints);
  std::vector<PlotSeries> all;
  for (const auto& [name, of_row] : rows) {
    std::vector<const Result*> drawn;
    const size_t first = all.size();
    for (const Result* r : of_row) {
      std::vector<PlotPoint> points = curve(*r->log, split, value, most);
      if (points.empty()) continue;
      drawn.push_back(r);
      all.push_back({.name = fmt::format("{}, seed {}", name, r->seed),
                     .points = std::move(points),
                     .style = PlotStyle::line,
                     .attention = name,
                     .key = ""});
    }
    if (drawn.empty()) continue;
    all[first].key = curves_key(name, drawn);
    if (drawn.size() == 1) all[first].name = *std::exchange(all[first].key, std::nullopt);
  }
  return all;
}

// The accuracies of the paper whose recipe the group follows; null: none.
const Published* reference_of(const RecipeGroup& group, const std::string& task,
                              std::span<const Published> references) {
  const bool shown = shows_published(group) && !group.has_other_data(task);
  return shown ? nearest(group, references) : nullptr;
}

// Lines across at what was published of the rows, as long as the longest curve.
void append_published(const Published& reference, const std::string& task, const CurveRows& rows,
                      std::vector<PlotSeries>& series) {
  double last = 0;
  for (const PlotSeries& one : series) last = std::max(last, one.points.back()[0]);
  for (const auto& [name, of_row] : rows) {
    const Result& any = *of_row.front();
    const auto percent = reference.accuracy->value(task, any.attention);
    if (!percent || !any.metric.empty()) continue;
    series.push_back(
        {.name = fmt::format("{}, published (test)", name),
         .points = {{0, *percent, *percent, *percent}, {last, *percent, *percent, *percent}},
         .dotted = true,
         .style = PlotStyle::line,
         .attention = name});
  }
}

}  // namespace

std::vector<Plot> curve_plots(std::span<const Result> results,
                              std::span<const Published> references) {
  std::vector<Plot> plots;
  int count = 0;
  for (const RecipeGroup& group : group_by_recipe(results)) {
    for (const std::string& task : task_order(group, {})) {
      const CurveRows rows = curve_rows(group, task);
      const size_t before = plots.size();
      const auto add = [&](const char* name, const char* title, LogSplit split, Value value,
                           const Published* reference) {
        std::vector<PlotSeries> series = curve_series(rows, split, value);
        if (series.empty()) return;
        if (reference != nullptr) append_published(*reference, task, rows, series);
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
             .height = kHalfHeight,
             .data = other_data_text(group, {task})});
      };
      add("dev-accuracy", "dev accuracy, %", LogSplit::dev, percent,
          reference_of(group, task, references));
      add("dev-loss", "dev loss", LogSplit::dev, loss, nullptr);
      add("train-loss", "training loss", LogSplit::train, loss, nullptr);
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
              .x_title = "steps",
              .y_title = title,
              .log_x = false,
              .log_y = false,
              .powers = false,
              .width = 560,
              .height = 340,
              .pdf = false,
              .data = result.data.kind()};
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
