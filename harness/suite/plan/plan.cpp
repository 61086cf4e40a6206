#include "harness/suite/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "attention_variants/base/text.h"
#include "harness/host/progress.h"
#include "harness/suite/cell.h"

namespace lra::suite {
namespace {

std::string time_text(const std::optional<double>& seconds) {
  return seconds ? host::duration_text(*seconds) : "?";
}

struct Totals {
  size_t ended = 0, pending = 0, unknown = 0, second_alone = 0;
  double whole = 0, left = 0, span = 0;  // seconds of what is known
};

Totals totals_of(const std::vector<Prediction>& predictions, int64_t jobs) {
  Totals totals;
  std::vector<double> pending;
  for (const Prediction& p : predictions) {
    (p.open ? totals.pending : totals.ended) += 1;
    if (p.open && !p.left) ++totals.unknown;
    if (p.second_alone) ++totals.second_alone;
    totals.whole += p.seconds.value_or(0);
    totals.left += p.left.value_or(0);
    if (p.left && *p.left > 0) pending.push_back(*p.left);
  }
  totals.span = makespan(pending, jobs);
  return totals;
}

}  // namespace

double makespan(const std::vector<double>& pending, int64_t jobs) {
  std::vector<double> free_at(static_cast<size_t>(std::max<int64_t>(jobs, 1)), 0);
  for (const double seconds : pending) *std::ranges::min_element(free_at) += seconds;
  return std::ranges::max(free_at);
}

Table plan_table(const Suite& suite, const std::vector<Prediction>& predictions, int64_t jobs) {
  Table table{.columns = {{"cell"},
                          {"task", Align::kLeft},
                          {"attention", Align::kLeft},
                          {"seed"},
                          {"steps"},
                          {"state", Align::kLeft},
                          {"time"},
                          {"left"},
                          {"memory MiB"},
                          {"from", Align::kLeft}}};
  for (size_t i = 0; i < suite.cells.size(); ++i) {
    const Config& config = suite.cells[i].config;
    const Prediction& p = predictions[i];
    table.rows.push_back({std::to_string(i), config.task, config.attention.text(),
                          std::to_string(config.seed), std::to_string(steps_of(suite.cells[i])),
                          to_string(p.status), time_text(p.seconds), time_text(p.left),
                          p.memory_mib ? fmt::format("{:.0f}", *p.memory_mib) : "?",
                          p.from == kUnknown ? "unknown, use --probe" : p.from});
  }
  const Totals totals = totals_of(predictions, jobs);
  const bool known = totals.pending == 0 || totals.unknown < totals.pending;
  std::string line =
      fmt::format("{}: {} ended, {} to run, {}", count_text(suite.cells.size(), "cell"),
                  totals.ended, totals.pending,
                  known ? fmt::format("about {} of work", host::duration_text(totals.left))
                        : "time unknown, use --probe");
  if (jobs > 1 && known)
    line += fmt::format(", {} with {} at a time", host::duration_text(totals.span), jobs);
  table.notes.push_back(line);
  if (totals.unknown > 0) {
    table.notes.push_back(fmt::format(
        "{} of them not counted: nothing is known of them on this machine with {} a cell; "
        "--probe measures them",
        totals.unknown, count_text(suite.request.threads, "thread")));
  }
  if (totals.second_alone > 0) {
    table.notes.push_back(fmt::format(
        "{} counted without their pretraining: no probe measures it, a run of it here or under "
        "--records does",
        totals.second_alone));
  }
  for (const std::string& name : coloured_tasks(suite))
    table.notes.push_back(name + ": data in colour (input.colours rgb)");
  for (std::string& note : left_notes(suite)) table.notes.push_back(std::move(note));
  if (suite.fraction < 1) {
    table.notes.push_back(fmt::format("--max-hours {:g}: cut to {:.3g} % of the steps",
                                      suite.request.max_hours, 100 * suite.fraction));
  }
  return table;
}

json plan_json(const Suite& suite, const std::vector<Prediction>& predictions, int64_t jobs) {
  const auto number = [](const std::optional<double>& value) {
    return value ? json(*value) : json();
  };
  const Totals totals = totals_of(predictions, jobs);
  json value = {{"out", suite.request.out.string()},
                {"threads", suite.request.threads},
                {"jobs", jobs},
                {"fraction", suite.fraction},
                {"coloured", coloured_tasks(suite)},
                {"ended", totals.ended},
                {"pending", totals.pending},
                {"unknown", totals.unknown},
                {"seconds_left", totals.left},
                {"seconds_left_with_jobs", totals.span},
                {"cells", json::array()}};
  for (size_t i = 0; i < suite.cells.size(); ++i) {
    const SuiteCell& cell = suite.cells[i];
    const Prediction& p = predictions[i];
    value["cells"].push_back({{"cell", i},
                              {"task", cell.config.task},
                              {"attention", cell.config.attention.text()},
                              {"seed", cell.config.seed},
                              {"run", cell.run.string()},
                              {"steps", steps_of(cell)},
                              {"status", p.status},
                              {"seconds", number(p.seconds)},
                              {"seconds_left", number(p.left)},
                              {"memory_mib", number(p.memory_mib)},
                              {"from", p.from}});
  }
  return value;
}

double predicted_hours(const Suite& suite, const std::vector<Prediction>& predictions,
                       int64_t jobs) {
  std::vector<double> seconds;
  for (size_t i = 0; i < predictions.size(); ++i) {
    if (!predictions[i].seconds) {
      throw Error(
          fmt::format("--max-hours: nothing is known of {} here, and its probe failed; "
                      "leave it out, or run without --max-hours",
                      suite.cells[i].label()));
    }
    if (predictions[i].second_alone) {
      throw Error(fmt::format(
          "--max-hours: nothing is known of the pretraining of {} here, which no probe "
          "measures; run one such cell elsewhere and name its folder by --records, or run "
          "without --max-hours",
          suite.cells[i].label()));
    }
    seconds.push_back(*predictions[i].seconds);
  }
  return makespan(seconds, jobs) / 3600;
}

}  // namespace lra::suite
