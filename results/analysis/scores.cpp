#include "results/analysis/scores.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

namespace lra {
namespace {

// Of sums and logarithms; what is beyond was not measured.
bool usable(double value) { return value > 1e-12 && value < 1e15; }

// Samples a second; nothing where the record does not say.
std::optional<double> speed_of(const Result& r) {
  const json::json_pointer at("/training/batch");
  if (!r.config.contains(at) || !r.config.at(at).is_number() || !r.training.steps_per_second ||
      !knows_threads(r))
    return std::nullopt;
  return r.config.at(at).get<double>() * *r.training.steps_per_second;
}

// The geometric mean over tasks of the medians over runs; nothing once a task has none.
class TaskMean {
 public:
  void add(std::vector<double> runs) {
    std::erase_if(runs, [](double value) { return !usable(value); });
    whole_ = whole_ && !runs.empty();
    if (whole_) sum_ += std::log(stats::quantile(runs, 0.5));
    ++count_;
  }
  std::optional<double> value() const {
    if (!whole_ || count_ == 0) return std::nullopt;
    return std::exp(sum_ / count_);
  }

 private:
  bool whole_ = true;
  double sum_ = 0;
  int count_ = 0;
};

std::optional<Score> score_of(const AccuracyCells& cells, const std::vector<std::string>& tasks,
                              const std::string& row, const std::string& machine) {
  std::vector<stats::Estimate> accuracies;
  TaskMean speed, memory;
  LearnedCount learned;
  bool noisy = false;
  for (const std::string& task : tasks) {
    const auto it = cells.find({row, task});
    if (it == cells.end()) return std::nullopt;
    std::vector<double> speeds, memories;
    bool here = false;
    for (const Result* r : it->second.ok) {
      if (machine_setting_text(*r) != machine) continue;
      here = true;
      if (const auto samples = speed_of(*r)) speeds.push_back(*samples);
      noisy |= r->training.noisy();
      if (r->training.peak_memory_mib && knows_threads(*r))
        memories.push_back(*r->training.peak_memory_mib);
    }
    if (!here) return std::nullopt;
    accuracies.push_back(it->second.estimate());
    const LearnedCount of_task = it->second.learned_count();
    learned = {.learned = learned.learned + of_task.learned, .of = learned.of + of_task.of};
    speed.add(std::move(speeds));
    memory.add(std::move(memories));
  }
  return Score{.accuracy = stats::mean_of_independent(accuracies),
               .speed = speed.value(),
               .noisy = noisy,
               .memory_mib = memory.value(),
               .learned = learned};
}

}  // namespace

std::vector<ScoreGroup> score_groups(std::span<const Result> results) {
  std::vector<ScoreGroup> groups;
  for (const RecipeGroup& recipe : group_by_recipe(results)) {
    const std::vector<std::string> tasks = task_order(recipe, {});
    const AccuracyCells cells = accuracy_cells(recipe);
    std::set<std::string> rows;
    std::map<std::string, bool> machines;  // and whether runs shared its GPU
    for (const auto& [key, cell] : cells) {
      rows.insert(key.first);
      for (const Result* r : cell.ok) machines[machine_setting_text(*r)] = r->training.sharing > 1;
    }
    const size_t first = groups.size();
    std::set<std::string> scored;
    for (const auto& [machine, shared] : machines) {
      ScoreGroup group{.recipe = recipe, .machine = machine, .shared = shared, .tasks = tasks};
      for (const std::string& row : rows) {
        if (const auto score = score_of(cells, tasks, row, machine)) group.rows[row] = *score;
      }
      for (const auto& [row, score] : group.rows) scored.insert(row);
      if (!group.rows.empty()) groups.push_back(std::move(group));
    }
    for (size_t i = first; i < groups.size(); ++i) {
      for (const std::string& row : rows) {
        if (groups[i].rows.contains(row)) continue;
        const bool whole = std::ranges::all_of(tasks, [&](const std::string& task) {
          const auto cell = cells.find({row, task});
          return cell != cells.end() && !cell->second.ok.empty();
        });
        groups[i].incomplete.push_back(row + (scored.contains(row) ? " (on another machine)"
                                              : whole ? " (not all tasks on one machine)"
                                                      : " (not all tasks)"));
      }
    }
  }
  return groups;
}

}  // namespace lra
