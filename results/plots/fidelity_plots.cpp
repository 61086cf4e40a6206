// Plots of fidelity experiments.
#include <fmt/format.h>

#include <array>
#include <optional>

#include "results/plots/plots.h"
#include "results/tables/fidelity_groups.h"
#include "results/tables/fidelity_table.h"

namespace lra {
namespace {

// On a logarithmic axis: an interval that reaches to zero or below is drawn down to a tenth of the
// mean; a mean of zero has no place.
std::optional<std::array<double, 4>> point(double x, const TrialEstimate& estimate) {
  if (!(estimate.mean > 0) || !(x > 0)) return std::nullopt;
  const stats::Interval ci = estimate.ci95.value_or(stats::Interval{estimate.mean, estimate.mean});
  return {{x, estimate.mean, ci.low > 0 ? ci.low : estimate.mean / 10, ci.high}};
}

// One series a row; `x` gives a cell's place, if it has one.
template <class X>
std::vector<PlotSeries> series_of(const FidelityGroup& group, std::string_view measure,
                                  const X& x) {
  std::vector<PlotSeries> series;
  for (const auto& [name, row] : group.rows) {
    PlotSeries one{.name = name};
    const auto add = [&](const Fidelity* f) {
      const TrialEstimate* estimate = f->status == Status::ok ? f->find(measure) : nullptr;
      const std::optional<double> at = x(*f);
      if (estimate == nullptr || !at) return;
      if (const auto p = point(*at, *estimate)) one.points.push_back(*p);
    };
    if (row.fixed != nullptr) add(row.fixed);
    for (const auto& [value, cell] : row.cells) add(cell);
    if (!one.points.empty()) series.push_back(std::move(one));
  }
  return series;
}

}  // namespace

std::vector<Plot> fidelity_plots(std::span<const Fidelity> cells) {
  std::vector<Plot> plots;
  std::map<int64_t, int> counts;  // settings of an experiment so far
  for (const auto& [setting, group] : fidelity_groups(cells)) {
    const Fidelity& front = *group.cells.front();
    const std::string stem =
        fmt::format("fidelity-{}-{}", front.experiment, ++counts[front.experiment]);
    // Landmarks on raw scores break at the head width, and iterations are few: a linear axis.
    const bool log_x = front.experiment == 2 || front.experiment == 4;
    const auto add = [&](const std::string& name, const MeasureName& measure,
                         const std::string& x_title, bool log, const auto& x) {
      const std::vector<PlotSeries> series = series_of(group, measure.name, x);
      if (series.empty()) return;
      plots.push_back({.name = name,
                       .title = {fidelity_heading(front), fidelity_setting_text(group)},
                       .x_title = x_title,
                       .y_title = std::string(measure.title),
                       .log_x = log,
                       .series = series});
    };
    for (const MeasureName& measure : kMeasures) {
      if (measure.name == "condition") continue;
      add(fmt::format("{}-{}", stem, measure.name), measure, group.budget, log_x,
          [](const Fidelity& f) {
            return f.budget.empty() ? std::nullopt
                                    : std::optional<double>(static_cast<double>(f.budget_value));
          });
      if (measure.name == "output") {
        add(fmt::format("{}-time", stem), measure, "time of one forward, ms", true,
            [](const Fidelity& f) {
              return f.time ? std::optional<double>(f.time->median) : std::nullopt;
            });
      }
    }
  }
  return plots;
}

}  // namespace lra
