#include "harness/suite/status.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "attention_variants/base/text.h"
#include "attention_variants/registry.h"
#include "harness/host/heartbeat.h"
#include "harness/host/progress.h"
#include "harness/host/terminal.h"
#include "harness/suite/cell.h"
#include "harness/suite/suite.h"
#include "harness/suite/suite_folder.h"
#include "harness/training/run_folder.h"
#include "results/print/terminal.h"
#include "results/records/file_names.h"

namespace lra::suite {
namespace {

namespace fs = std::filesystem;

// The steps of a cell's pretraining; 0 where it has none.
int64_t first_steps_of(const json& config) {
  if (config.value("pretraining", json::object()).empty()) return 0;
  return config.value(json::json_pointer("/pretraining/training/steps"),
                      config.at("training").at("steps").get<int64_t>());
}

// What the log of a run says of the cell that it is of: of its own, or, where that has none yet, of
// its pretraining.
void read_progress(const fs::path& run, bool held, CellStatus& cell) {
  LogTail tail = read_log_tail(run / kMetricsFile);
  const bool first = cell.first_steps > 0 && !fs::exists(run / kMetricsFile);
  if (first) {
    tail = read_log_tail(run / kPretrainingFolder / kMetricsFile);
    cell.step = std::min(tail.step, cell.first_steps);
  } else {
    cell.step = std::min(cell.first_steps + tail.step, cell.steps);
    cell.accuracy = tail.accuracy;
  }
  if (tail.rate <= 0) return;
  cell.rate = tail.rate;
  if (held && !first) cell.eta = static_cast<double>(cell.steps - cell.step) / tail.rate;
}

CellStatus read_cell(const json& config, const fs::path& run, size_t index) {
  CellStatus cell{.index = index,
                  .task = config.at("task"),
                  .attention = AttentionSpec{.name = config.at("attention").at("name"),
                                             .options = config.at("attention").at("given")}
                                   .text(),
                  .seed = config.at("seed"),
                  .run = run,
                  .state = Status::pending,
                  .first_steps = first_steps_of(config)};
  cell.steps = cell.first_steps + config.at("training").at("steps").get<int64_t>();
  if (fs::exists(run / kResultFile)) {
    try {
      const Result result = read_result(run / kResultFile);
      cell.state = result.status;
      cell.reason = result.reason;
      // One that failed in its pretraining has the result of that; one that others ended leaves its
      // steps in the log alone.
      const bool in_first =
          cell.first_steps > 0 && result.status != Status::ok && !fs::exists(run / kMetricsFile);
      if (result.steps && !in_first) {
        cell.step = cell.first_steps + *result.steps;
      } else {
        read_progress(run, /*held=*/false, cell);
      }
      cell.accuracy = result.test ? std::optional(result.test->accuracy) : std::nullopt;
      cell.rate = result.training.steps_per_second;
      cell.seconds = result.seconds();
      cell.data = result.data.kind();
      return cell;
    } catch (const Error& error) {
      cell.reason = error.what();
    }
  }
  const auto holder = cell_holder(run);
  if (holder) {
    cell.state = Status::running;
    cell.by = holder->text();
  }
  read_progress(run, holder.has_value(), cell);
  return cell;
}

// What cells took that have ended or run, for those that have not begun: of the same task and
// attention, or else of the same task.
class Costs {
 public:
  void add(const CellStatus& cell) {
    const auto seconds = cell.seconds && cell.state == Status::ok ? cell.seconds
                         : cell.rate && cell.state == Status::running && cell.first_steps == 0
                             ? std::optional(static_cast<double>(cell.steps) / *cell.rate)
                             : std::nullopt;
    if (!seconds) return;
    for (const std::string& key : {cell.task, cell.task + " " + cell.attention}) {
      auto& [sum, count] = sums_[key];
      sum += *seconds;
      ++count;
    }
  }
  std::optional<double> of(const CellStatus& cell) const {
    for (const std::string& key : {cell.task + " " + cell.attention, cell.task}) {
      const auto it = sums_.find(key);
      if (it != sums_.end()) return it->second.first / it->second.second;
    }
    return std::nullopt;
  }

 private:
  std::map<std::string, std::pair<double, double>> sums_;
};

std::string accuracy_split(const CellStatus& cell) {
  return !cell.accuracy ? "" : cell.state == Status::ok ? "test" : "dev";
}

std::string accuracy_text(const CellStatus& cell) {
  if (!cell.accuracy) return "";
  return fmt::format("{:.2f}{}", 100 * *cell.accuracy,
                     accuracy_split(cell) == "dev" ? " (dev)" : "");
}

std::vector<std::string> row_of(const CellStatus& cell, bool queue) {
  const double share =
      cell.state == Status::ok
          ? 1
          : static_cast<double>(cell.step) / static_cast<double>(std::max<int64_t>(cell.steps, 1));
  std::string time;
  if (cell.eta) time = host::duration_text(*cell.eta);
  if (cell.state == Status::ok && cell.seconds) time = "took " + host::duration_text(*cell.seconds);
  std::vector<std::string> row = {std::to_string(cell.index),
                                  cell.task,
                                  cell.attention,
                                  std::to_string(cell.seed),
                                  to_string(cell.state),
                                  "[" + host::bar_text(share, 10) + "]",
                                  fmt::format("{}/{}", cell.step, cell.steps),
                                  accuracy_text(cell),
                                  cell.rate ? fmt::format("{:.3g}", *cell.rate) : "",
                                  time,
                                  cell.state == Status::running ? cell.by : cell.reason};
  if (queue) row.push_back(cell.queue);
  return row;
}

}  // namespace

bool SuiteStatus::all_ended() const {
  return std::ranges::none_of(cells, [](const CellStatus& c) {
    return c.state == Status::pending || c.state == Status::running;
  });
}

SuiteStatus suite_status(const fs::path& out) {
  const json file = read_suite_json(out);
  SuiteStatus status{.out = out};
  try {
    const json &runs = file.at("runs"), &cells = file.at("cells");
    for (size_t i = 0; i < cells.size(); ++i)
      status.cells.push_back(read_cell(cells.at(i), out / runs.at(i).get<std::string>(), i));
  } catch (const json::exception& error) {
    const std::string text = error.what();
    throw not_of_this_version(out, text.substr(std::min(text.find("] ") + 2, text.size())));
  }
  status.runners = host::runners(out);
  status.profiled = fs::exists(out / "profile.done");
  status.reported = fs::exists(out / "report" / kReportFile);
  Costs costs;
  for (const CellStatus& cell : status.cells) costs.add(cell);
  double left = 0;
  bool known = true;
  for (const CellStatus& cell : status.cells) {
    ++status.counts[to_string(cell.state)];
    // Those that the next call takes again are not done.
    const bool open = cell.state == Status::pending || cell.state == Status::running ||
                      is_retryable(cell.run, cell.state);
    status.steps += cell.steps;
    status.steps_done += open ? cell.step : cell.steps;
    if (!open) continue;
    const auto whole = costs.of(cell);
    const double share = static_cast<double>(cell.step) / static_cast<double>(cell.steps);
    if (cell.eta) {
      left += *cell.eta;
    } else if (whole) {
      left += *whole * (1 - share);
    } else {
      known = false;
    }
  }
  const auto running = std::ranges::count(status.cells, Status::running, &CellStatus::state);
  if (known && running > 0) status.eta = left / static_cast<double>(running);
  return status;
}

std::string status_line(const SuiteStatus& status) {
  const double share =
      status.steps > 0 ? static_cast<double>(status.steps_done) / static_cast<double>(status.steps)
                       : 1;
  std::string counts;
  for (const auto& [state, count] : status.counts)
    counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", count, state);
  std::string text =
      fmt::format("[{}] {:.1f} % of the steps · {} cells: {}", host::bar_text(share, 20),
                  100 * share, status.cells.size(), counts);
  if (status.eta) text += fmt::format(" · ETA {}", host::duration_text(*status.eta));
  text += " · " + count_text(status.runners.size(), "runner");
  if (status.all_ended())
    text += fmt::format(" · profile {}, report {}", status.profiled ? "measured" : "to come",
                        status.reported ? "written" : "to come");
  return text;
}

std::string status_text(const SuiteStatus& status, size_t rows) {
  std::vector<const CellStatus*> shown;
  for (const CellStatus& cell : status.cells) shown.push_back(&cell);
  const bool queue =
      std::ranges::any_of(status.cells, [](const CellStatus& cell) { return !cell.queue.empty(); });
  size_t left_out = 0;
  if (rows > 0 && shown.size() > rows) {
    const auto rank = [](const CellStatus* cell) {
      return cell->state == Status::running   ? 0
             : cell->state == Status::ok      ? 3
             : cell->state == Status::pending ? 2
                                              : 1;
    };
    std::ranges::stable_sort(shown, {}, rank);
    left_out = shown.size() - rows;
    shown.resize(rows);
  }
  Table table{.columns = {{"cell"},
                          {"task", Align::kLeft},
                          {"attention", Align::kLeft},
                          {"seed"},
                          {"state", Align::kLeft},
                          {"", Align::kLeft},
                          {"step"},
                          {"accuracy %"},
                          {"steps/s"},
                          {"ETA"},
                          {"", Align::kLeft}}};
  if (queue) table.columns.push_back({"queue", Align::kLeft});
  for (const CellStatus* cell : shown) table.rows.push_back(row_of(*cell, queue));
  std::set<std::string> kinds;
  for (const CellStatus* cell : shown) {
    if (!cell->data.empty()) kinds.insert(cell->task + ": " + cell->data);
  }
  table.notes.assign(kinds.begin(), kinds.end());
  std::string text = to_terminal(table, host::table_columns());
  if (left_out > 0) text += fmt::format("... and {} more\n", left_out);
  return text + status_line(status) + "\n";
}

json status_json(const SuiteStatus& status) {
  const auto number = [](const std::optional<double>& value) {
    return value ? json(*value) : json();
  };
  json value = {{"out", status.out.string()},
                {"counts", status.counts},
                {"steps_done", status.steps_done},
                {"steps", status.steps},
                {"eta_seconds", number(status.eta)},
                {"profiled", status.profiled},
                {"reported", status.reported},
                {"runners", json::array()},
                {"cells", json::array()}};
  for (const host::LockHolder& runner : status.runners)
    value["runners"].push_back(
        {{"host", runner.host}, {"pid", runner.pid}, {"since", runner.since}});
  for (const CellStatus& cell : status.cells) {
    value["cells"].push_back({{"cell", cell.index},
                              {"task", cell.task},
                              {"attention", cell.attention},
                              {"seed", cell.seed},
                              {"run", cell.run.string()},
                              {"state", cell.state},
                              {"reason", cell.reason},
                              {"step", cell.step},
                              {"steps", cell.steps},
                              {"accuracy", number(cell.accuracy)},
                              {"accuracy_of", accuracy_split(cell)},
                              {"data", cell.data},
                              {"steps_per_second", number(cell.rate)},
                              {"eta_seconds", number(cell.eta)},
                              {"by", cell.by},
                              {"queue", cell.queue}});
  }
  return value;
}

}  // namespace lra::suite
