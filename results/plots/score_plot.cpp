// The picture that the benchmark is known for: score, speed and memory.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "results/analysis/scores.h"
#include "results/plots/plots.h"
#include "results/plots/recipe_title_lines.h"
#include "results/print/table.h"
#include "results/print/terminal.h"

namespace lra {
namespace {

constexpr int kScoreWidth = 700, kScoreHeight = 470;  // pixels
constexpr double kLargest = 0.055;                    // radius, as a part of the width

// Room for circles and names around what is drawn.
PlotRange padded(double low, double high, bool log) {
  constexpr double kPart = 0.2;
  if (log) {
    const double by = std::pow(std::max(high / low, 1.5), kPart);
    return {low / by, high * by};
  }
  const double by = kPart * std::max(high - low, 0.1 * high);
  return {std::max(0.0, low - by), high + by};
}

struct Circle {
  stats::Estimate accuracy;
  double speed = 0, memory_mib = 0;
  bool noisy = false;  // the speed
  LearnedCount learned;
};
using Circles = std::map<std::string, Circle>;  // by row

Circles circles_of(const ScoreGroup& group) {
  Circles circles;
  for (const auto& [row, score] : group.rows) {
    if (score.speed && score.memory_mib)
      circles[row] = {.accuracy = score.accuracy,
                      .speed = *score.speed,
                      .memory_mib = *score.memory_mib,
                      .noisy = score.noisy,
                      .learned = score.learned};
  }
  return circles;
}

// The attentions that have no circle, and why.
std::string left_out(const ScoreGroup& group, const Circles& circles) {
  std::vector<std::string> rows;
  for (const auto& [row, score] : group.rows) {
    if (!circles.contains(row))
      rows.push_back(fmt::format("{} (no {} on record)", row,
                                 score.speed ? "peak memory" : "speed that compares"));
  }
  rows.insert(rows.end(), group.incomplete.begin(), group.incomplete.end());
  return rows.empty() ? "" : fmt::format("left out: {}", fmt::join(rows, ", "));
}

// The lines above the picture, `areas` the last but for what is left out.
std::vector<std::string> title_of(const ScoreGroup& group, const Circles& circles,
                                  const std::string& areas) {
  const std::vector<std::string>& tasks = group.tasks;
  std::vector<std::string> lines = {
      tasks.size() == 1 ? tasks[0] + ": accuracy, speed and memory of training"
                        : fmt::format("Average accuracy over {} tasks, speed and memory of "
                                      "training",
                                      tasks.size())};
  for (const std::string& text :
       {recipe_title(group.recipe), group.machine, areas, left_out(group, circles)}) {
    if (text.empty()) continue;
    for (std::string& line : wrapped(text, kTitleLetters)) lines.push_back(std::move(line));
  }
  return lines;
}

Plot score_plot(const std::string& name, const ScoreGroup& group, const Circles& circles) {
  const std::vector<std::string>& tasks = group.tasks;
  PlotRange speeds{1e15, 0}, percents{100, 0}, memories{1e15, 0};
  const auto widen = [](PlotRange& range, double low, double high) {
    range = {std::min(range.low, low), std::max(range.high, high)};
  };
  for (const auto& [row, score] : circles) {
    widen(speeds, score.speed, score.speed);
    widen(percents, score.accuracy.ci95.low, score.accuracy.ci95.high);
    widen(memories, score.memory_mib, score.memory_mib);
  }
  const bool one = tasks.size() == 1;
  const bool log = speeds.high > 8 * speeds.low;
  const bool noisy =
      std::ranges::any_of(circles, [](const auto& circle) { return circle.second.noisy; });
  Plot plot{.name = name,
            .title = title_of(group, circles,
                              fmt::format("area of a circle: peak memory of training, {} to {} MiB",
                                          short_number(memories.low), short_number(memories.high))),
            .x_title = std::string("training speed, samples/s") + (noisy ? " (~: noisy)" : ""),
            .y_title = one ? "test accuracy, % (95 % interval)"
                           : "average test accuracy, % (95 % interval)",
            .log_x = log,
            .log_y = false,
            .powers = false,
            .x_range = padded(speeds.low, speeds.high, log),
            .width = kScoreWidth,
            .height = kScoreHeight,
            .y_range = padded(percents.low, percents.high, /*log=*/false),
            .data = other_data_text(group.recipe)};
  for (const auto& [row, score] : circles)
    plot.series.push_back({.name = (score.noisy ? "~" : "") + score.learned.named(row),
                           .points = {{score.speed, score.accuracy.value, score.accuracy.ci95.low,
                                       score.accuracy.ci95.high}},
                           .style = PlotStyle::circle,
                           .attention = row,
                           .radius = kLargest * std::sqrt(score.memory_mib / memories.high)});
  plot.y_range->high = std::min(plot.y_range->high, 100.0);
  return plot;
}

}  // namespace

std::vector<Plot> score_plots(std::span<const Result> results) {
  std::vector<Plot> plots;
  for (const ScoreGroup& group : score_groups(results)) {
    const Circles circles = circles_of(group);
    if (circles.size() > 1)
      plots.push_back(score_plot(fmt::format("score-{}", plots.size() + 1), group, circles));
  }
  return plots;
}

}  // namespace lra
