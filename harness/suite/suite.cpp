#include "harness/suite/suite.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "attention_variants/base/error.h"

namespace lra::suite {
namespace {

namespace fs = std::filesystem;

int64_t scaled(int64_t value, double fraction, int64_t least) {
  return std::max<int64_t>(std::llround(static_cast<double>(value) * fraction), least);
}

// Of one run, whose settings stand in `group`: "", or "pretraining." of the run before, of which
// all are said, as it would have the cell's own where they are not.
std::vector<std::string> cut_of(const Config& config, double fraction, const std::string& group) {
  const TrainingOptions& t = config.settings.training;
  const ScheduleOptions& s = config.settings.schedule;
  const auto steps = static_cast<int64_t>(static_cast<double>(t.steps) * fraction);
  if (steps < 2) {
    throw UsageError(fmt::format(
        "--max-hours leaves {} {} of {} steps of {} {}; allow more hours, or run fewer cells",
        steps, steps == 1 ? "step" : "steps", t.steps, config.task, config.attention.text()));
  }
  std::vector<std::string> sets;
  const auto set = [&](const char* key, int64_t value) {
    sets.push_back(fmt::format("{}{}={}", group, key, value));
  };
  set("training.steps", steps);
  if (t.evaluate_every > steps || !group.empty())
    set("training.evaluate_every", std::min(t.evaluate_every, steps));
  if (s.warmup > 0) set("schedule.warmup", std::min(scaled(s.warmup, fraction, 1), steps - 1));
  if (s.kind == ScheduleKind::step) set("schedule.decay_every", scaled(s.decay_every, fraction, 1));
  return sets;
}

// The settings with those that a budget shortens a run before by, where that has its own.
std::vector<std::string> with_pretraining(std::vector<std::string> sets, const TaskBudget& budget,
                                          const Config& config) {
  std::vector<std::string> own;
  for (const auto& [key, value] : budget.set.items()) {
    if (config.settings.pretraining.contains(dotted_pointer(key)))
      own.push_back(fmt::format("pretraining.{}={}", key, value.dump()));
  }
  sets.insert(sets.begin(), own.begin(), own.end());  // what the user sets goes last
  return sets;
}

}  // namespace

std::string SuiteCell::label() const {
  return fmt::format("{} {} seed {}{}{}", config.task, config.attention.text(), config.seed,
                     point.empty() ? "" : ", ", point);
}

std::string folder_name(const std::string& text) {
  std::string name;
  for (const char c : text)
    name += std::isalnum(static_cast<unsigned char>(c)) || std::strchr("-_.=,[]", c) != nullptr
                ? c
                : '_';
  return name;
}

std::vector<std::string> cut_sets(const Config& config, double fraction) {
  if (fraction >= 1) return {};
  std::vector<std::string> sets = cut_of(config, fraction, "");
  if (!config.settings.pretraining.empty()) {
    const auto before = cut_of(pretraining_config(config), fraction, "pretraining.");
    sets.insert(sets.end(), before.begin(), before.end());
  }
  return sets;
}

void check_folders(const Suite& suite, const std::string& advice) {
  std::set<fs::path> folders;
  for (const SuiteCell& cell : suite.cells) {
    if (!folders.insert(cell.run).second) {
      throw UsageError(
          fmt::format("two cells would share the folder {}: {}", cell.run.string(), advice));
    }
  }
}

std::vector<std::string> coloured_tasks(const Suite& suite) {
  std::map<std::string, const SuiteCell*> first;  // of each task
  std::vector<std::string> coloured;
  for (const SuiteCell& cell : suite.cells) {
    const auto [it, fresh] = first.emplace(cell.config.task, &cell);
    const Colours colours = cell.config.settings.input.colours,
                  known = it->second->config.settings.input.colours;
    if (colours != known) {
      throw UsageError(
          fmt::format("{} has input.colours {}, and {} {}: the cells of a task read the same data; "
                      "give --set input.colours=COLOURS to all, or each kind an --out folder of "
                      "its own",
                      it->second->label(), to_string(known), cell.label(), to_string(colours)));
    }
    if (fresh && colours == Colours::rgb) coloured.push_back(cell.config.task);
  }
  return coloured;
}

Suite plan_suite(const SuiteRequest& request, double fraction) {
  const Protocol protocol = load_protocol(request.protocol);
  Suite suite{.request = request, .fraction = fraction, .cells = {}};
  for (const std::string& task_name : request.tasks) {
    std::vector<std::string> sets;
    const TaskBudget budget = request.budget.task(task_name);
    for (const auto& [key, value] : budget.set.items())
      sets.push_back(fmt::format("{}={}", key, value.dump()));
    sets.insert(sets.end(), request.sets.begin(), request.sets.end());
    for (const AttentionSpec& attention : request.attentions) {
      for (const uint64_t seed : request.seeds) {
        SuiteCell cell{
            .config = make_config(protocol, task_name, attention, sets, seed, request.dtype),
            .sets = sets,
            .run = request.out / "runs" / task_name / folder_name(attention.text()) /
                   fmt::format("seed{}", seed)};
        cell.sets = with_pretraining(sets, budget, cell.config);
        if (cell.sets.size() > sets.size())
          cell.config = make_config(protocol, task_name, attention, cell.sets, seed, request.dtype);
        const std::vector<std::string> cut = cut_sets(cell.config, fraction);
        if (!cut.empty()) {
          cell.sets.insert(cell.sets.end(), cut.begin(), cut.end());
          cell.config = make_config(protocol, task_name, attention, cell.sets, seed, request.dtype);
        }
        suite.cells.push_back(std::move(cell));
      }
    }
  }
  check_folders(suite, "name each task, attention and seed once");
  coloured_tasks(suite);  // throws where the cells of one task want both kinds of data
  return suite;
}

}  // namespace lra::suite
