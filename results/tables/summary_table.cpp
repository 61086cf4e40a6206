#include "results/tables/summary_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "attention_variants/base/text.h"
#include "results/analysis/accuracy_cells.h"
#include "results/analysis/scores.h"
#include "results/statistics/statistics.h"

namespace lra {
namespace {

constexpr size_t kMostRecipes = 4;

// The rows of the tables: a file is one by all of its names, and two of one name are two.
size_t attention_count(const std::vector<RecipeGroup>& groups) {
  std::vector<const Result*> all;
  for (const RecipeGroup& group : groups)
    all.insert(all.end(), group.results.begin(), group.results.end());
  const FileNames files = file_names(all);
  std::map<std::string, std::set<std::string>> sources;  // by row
  for (const RecipeGroup& group : groups) {
    for (const auto& [r, name] : row_names(group, files)) {
      std::set<std::string>& of_row = sources[name];
      if (std::string hashes = source_hashes(r->attention); !hashes.empty())
        of_row.insert(std::move(hashes));
    }
  }
  size_t count = 0;
  for (const auto& [name, of_row] : sources) count += std::max<size_t>(of_row.size(), 1);
  return count;
}

class Summary {
 public:
  explicit Summary(Table& table) : table_(table) {}

  void add(const std::string& what, const std::string& text) {
    if (!text.empty()) table_.rows.push_back({what, text});
  }

  void add_records(const Records& records, const std::vector<RecipeGroup>& groups) {
    std::set<std::string> tasks;
    for (const Result& r : records.results) tasks.insert(r.task);
    std::vector<std::string> parts;
    if (!records.results.empty())
      parts.push_back(fmt::format("{}: {}, {}", count_text(records.results.size(), "run"),
                                  count_text(attention_count(groups), "attention"),
                                  count_text(tasks.size(), "task")));
    if (!records.profiles.empty())
      parts.push_back(count_text(records.profiles.size(), "profile cell"));
    if (!records.fidelity.empty())
      parts.push_back(count_text(records.fidelity.size(), "fidelity cell"));
    if (!records.where.empty()) parts.push_back(count_text(records.where.size(), "step profile"));
    add("records", fmt::format("{}", fmt::join(parts, "; ")));
  }

  // Where there are several.
  void add_regimes(const std::vector<RecipeGroup>& groups) {
    std::set<std::string> regimes;
    for (const RecipeGroup& group : groups) regimes.insert(group.regime);
    if (regimes.size() < 2) return;
    add("regimes", fmt::format("{}: other models, inputs and schedules, so that each has tables, "
                               "ranks and bold numbers of its own",
                               fmt::join(regimes, ", ")));
  }

  void add_recipe(const RecipeGroup& group) {
    const std::string prefix = fmt::format("recipe {}: ", group.number),
                      title = recipe_title(group);
    add(group.number > 0 ? fmt::format("recipe {}", group.number) : "recipe",
        title.starts_with(prefix) ? title.substr(prefix.size()) : title);
    const AccuracyCells cells = accuracy_cells(group);
    std::map<std::string, int> others;
    for (const auto& [key, cell] : cells) {
      for (const auto& [status, count] : cell.other) others[status] += count;
    }
    std::vector<std::string> statuses;
    size_t untested = 0;
    for (const auto& [key, cell] : cells) untested += cell.untested.size();
    for (const auto& [status, count] : others) {
      if (status != kNotTested) statuses.push_back(fmt::format("{} {}", count, status));
    }
    add("not ok", fmt::format("{}", fmt::join(statuses, ", ")));
    if (untested > 0) add(kNotTested, fmt::format("{}: accuracies are of dev", untested));
    add("not learned", unlearned(cells));
    add_highest(group, cells);
  }

  // `machine`: where there are several, or runs shared theirs.
  void add_costs(const ScoreGroup& group, const std::string& machine) {
    std::vector<std::pair<double, std::string>> speeds, memories;
    for (const auto& [row, score] : group.rows) {
      if (score.speed) speeds.emplace_back(*score.speed, row);
      if (score.memory_mib) memories.emplace_back(*score.memory_mib, row);
    }
    if (speeds.size() > 1) {
      const double speed = std::ranges::max(speeds).first;
      const bool noisy = std::ranges::any_of(
          group.rows, [](const auto& one) { return one.second.speed && one.second.noisy; });
      add("fastest training",
          fmt::format("{}: {}{} samples/s{}{}", near(speeds, speed), noisy ? "~" : "",
                      short_number(speed), machine,
                      noisy ? " (~: others took processor time while some of them trained)" : ""));
    }
    if (memories.size() > 1) {
      const double memory = std::ranges::min(memories).first;
      add("least memory", fmt::format("{}: {} MiB in training{}", near(memories, memory),
                                      short_number(memory), machine));
    }
  }

 private:
  // The names of all within 1 % of the best: no run says more of a cost.
  static std::string near(const std::vector<std::pair<double, std::string>>& costs, double best) {
    std::vector<std::string> names;
    for (const auto& [cost, row] : costs) {
      if (std::abs(cost - best) <= 0.01 * best) names.push_back(row);
    }
    return fmt::format("{}{}", fmt::join(names, ", "), names.size() > 1 ? " (within 1 %)" : "");
  }

  // Of the attentions with a run that is ok on every task, all of which learned it; no lone seed.
  void add_highest(const RecipeGroup& group, const AccuracyCells& cells) {
    std::map<std::string, std::vector<stats::Estimate>> rows;
    for (const auto& [key, cell] : cells) {
      if (!cell.ok.empty() && cell.learned_count().all() &&
          !is_lone_seed(cells, key.first, key.second))
        rows[key.first].push_back(cell.estimate());
    }
    const size_t tasks = group.fingerprints.size();
    std::vector<std::string> names;
    stats::Estimate best{.value = -1};
    bool alike = true;  // the intervals of equal means
    for (const auto& [row, estimates] : rows) {
      const stats::Estimate mean = stats::mean_of_independent(estimates);
      if (estimates.size() < tasks || mean.value < best.value) continue;
      if (mean.value > best.value) {
        names.clear();
        best = mean;
        alike = true;
      }
      alike = alike && mean.ci95.low == best.ci95.low && mean.ci95.high == best.ci95.high;
      names.push_back(row);
    }
    std::string text;
    if (!names.empty()) text = fmt::format("{}: {:.2f} %", fmt::join(names, ", "), best.value);
    if (!names.empty() && alike)
      text += fmt::format(" [{:.2f}, {:.2f}]", best.ci95.low, best.ci95.high);
    if (!names.empty() && has_lone_seeds(cells)) text += ", single seeds passed over";
    add(tasks == 1 ? "highest accuracy" : "highest average", text);
  }

  // "pathfinder: all 5; text: linformer, standard (learned 2/3)"
  static std::string unlearned(const AccuracyCells& cells) {
    std::map<std::string, std::vector<std::string>> failed;
    std::map<std::string, size_t> all, none;
    for (const auto& [key, cell] : cells) {
      const auto& [row, task] = key;
      const LearnedCount count = cell.learned_count();
      all[task] += count.of > 0 ? 1 : 0;
      if (count.learned == count.of) continue;
      none[task] += count.learned == 0 ? 1 : 0;
      failed[task].push_back(count.learned == 0 ? row : count.named(row));
    }
    std::vector<std::string> texts;
    for (const auto& [task, rows] : failed) {
      const bool none_learned = none[task] == all[task] && rows.size() > 1;
      texts.push_back(fmt::format("{}: {}", task,
                                  none_learned ? fmt::format("all {}", rows.size())
                                               : fmt::format("{}", fmt::join(rows, ", "))));
    }
    return fmt::format("{}", fmt::join(texts, "; "));
  }

  Table& table_;
};

}  // namespace

Table summary_table(const Records& records) {
  Table table{.title = "", .columns = {{"", Align::kLeft}, {"", Align::kLeft}}};
  Summary summary(table);
  const std::vector<RecipeGroup> groups = group_by_recipe(records.results);
  summary.add_records(records, groups);
  const std::vector<ScoreGroup> scores = score_groups(records.results);
  summary.add_regimes(groups);
  for (const RecipeGroup& group : groups) {
    if (group.number > kMostRecipes) {
      summary.add("", fmt::format("and {} more recipes", groups.size() - kMostRecipes));
      break;
    }
    summary.add_recipe(group);
    const auto is_of_group = [&group](const ScoreGroup& score) {
      return score.recipe.number == group.number;
    };
    const bool several = std::ranges::count_if(scores, is_of_group) > 1;
    for (const ScoreGroup& score : scores) {
      if (!is_of_group(score)) continue;
      summary.add_costs(score, several || score.shared ? ", on " + score.machine : "");
    }
  }
  if (!records.bad.empty())
    summary.add("left out", fmt::format("{} that could not be used",
                                        records.bad.size() == 1
                                            ? "1 file or run"
                                            : fmt::format("{} files or runs", records.bad.size())));
  return table;
}

}  // namespace lra
