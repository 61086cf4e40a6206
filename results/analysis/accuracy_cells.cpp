#include "results/analysis/accuracy_cells.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "results/statistics/statistics.h"

namespace lra {
namespace {

stats::Interval interval_of(const Accuracy& test) {
  return test.samples ? test.ci95 : stats::wilson_interval(test.correct, test.count);
}

}  // namespace

std::string LearnedCount::text() const { return fmt::format("{}/{}", learned, of); }

std::string LearnedCount::named(const std::string& name) const {
  return learned < of ? fmt::format("{} (learned {})", name, text()) : name;
}

std::vector<double> AccuracyCell::percents() const {
  std::vector<double> values;
  for (const Result* r : ok) values.push_back(100 * r->test->accuracy);
  return values;
}

double AccuracyCell::percent() const { return stats::settled(stats::mean(percents())); }

std::optional<double> AccuracyCell::sd() const {
  if (ok.size() < 2) return std::nullopt;
  return stats::standard_deviation(percents());
}

stats::Interval AccuracyCell::interval() const {
  stats::Interval ci;
  if (ok.size() == 1) {
    ci = interval_of(*ok[0]->test);
  } else {
    std::vector<double> fractions;
    int64_t count = ok.front()->test->independent();
    for (const Result* r : ok) {
      fractions.push_back(r->test->accuracy);
      count = std::min(count, r->test->independent());
    }
    ci = stats::seeds_interval(fractions, count);
  }
  return {100 * ci.low, 100 * ci.high};
}

std::vector<double> AccuracyCell::ranked() const {
  std::vector<double> values = percents();
  values.insert(values.end(), diverged, -1);
  return values;
}

stats::Estimate AccuracyCell::estimate() const { return {.value = percent(), .ci95 = interval()}; }

std::optional<double> AccuracyCell::dev_percent() const {
  std::vector<double> percents;
  for (const Result* r : untested) {
    if (r->dev) percents.push_back(100 * r->dev->accuracy);
  }
  if (percents.empty()) return std::nullopt;
  return stats::mean(percents);
}

std::string AccuracyCell::statuses() const {
  std::string text;
  for (const auto& [status, count] : other) {
    text += text.empty() ? "" : ", ";
    text += count == 1 && ok.empty() ? status : fmt::format("{} {}", count, status);
  }
  return text;
}

std::string AccuracyCell::text() const {
  const LearnedCount count = learned_count();
  if (ok.empty()) {
    if (other.empty()) return "–";
    const auto dev = dev_percent();
    return (dev ? fmt::format("dev {:.2f} ({})", *dev, statuses()) : statuses()) +
           (count.of > 1 ? fmt::format(", learned {}", count.text()) : "");
  }
  const stats::Interval ci = interval();
  std::string result = fmt::format("{:.2f} [{:.2f}, {:.2f}]", percent(), ci.low, ci.high);
  if (ok.size() > 1) result += fmt::format(" n={}", ok.size());
  if (count.of > 1 && count.learned < count.of) result += fmt::format(", learned {}", count.text());
  if (count.mixed()) result += fmt::format(": {:.2f}", learned_only().percent());
  if (!other.empty()) result += fmt::format(" ({})", statuses());
  return result;
}

std::string AccuracyCell::diverged_text() const {
  return fmt::format("{} of {} seeds diverged", diverged, learned_count().of);
}

AccuracyCell cell_of(std::vector<const Result*> ok, const Baseline& baseline) {
  AccuracyCell cell{.ok = std::move(ok)};
  std::ranges::copy_if(cell.ok, std::back_inserter(cell.learned),
                       [&](const Result* r) { return learned(*r, baseline); });
  return cell;
}

AccuracyCells accuracy_cells(const RecipeGroup& group) {
  const auto names = row_names(group);
  AccuracyCells cells;
  std::map<std::pair<std::string, std::string>, std::set<uint64_t>> diverged;  // seeds by cell
  for (const Result* r : group.results) {
    AccuracyCell& cell = cells[{names.at(r), r->task}];
    if (r->status == Status::ok && r->test) {
      const auto same = [r](const Result* other) { return other->seed == r->seed; };
      const auto first = std::ranges::find_if(cell.ok, same);
      if (first != cell.ok.end()) {
        ++cell.repeated;
        if ((*first)->test->accuracy != r->test->accuracy) cell.disagreeing.emplace_back(*first, r);
      } else {
        cell.ok.push_back(r);
      }
    } else {
      ++cell.other[r->ending()];
      if (r->status == Status::ok) cell.untested.push_back(r);
      if (r->status == Status::diverged) diverged[{names.at(r), r->task}].insert(r->seed);
    }
  }
  for (auto& [key, seeds] : diverged) {
    for (const Result* r : cells[key].ok) seeds.erase(r->seed);
    cells[key].diverged = seeds.size();
  }
  std::map<std::string, Baseline> baselines;
  for (const auto& [task, print] : group.fingerprints) baselines[task] = baseline_of(group, task);
  for (auto& [key, cell] : cells) cell.learned = cell_of(cell.ok, baselines.at(key.second)).learned;
  return cells;
}

bool is_lone_seed(const AccuracyCells& cells, const std::string& row, const std::string& task) {
  const auto found = cells.find({row, task});
  if (found == cells.end() || found->second.ok.size() != 1) return false;
  int64_t single = 0, several = 0;
  for (const auto& [key, cell] : cells) {
    if (key.second != task || !cell.learned_count().all()) continue;
    ++(cell.ok.size() == 1 ? single : several);
  }
  return several > 0 && several >= single;
}

bool has_lone_seeds(const AccuracyCells& cells) {
  return std::ranges::any_of(cells, [&](const auto& entry) {
    return is_lone_seed(cells, entry.first.first, entry.first.second);
  });
}

std::vector<std::string> task_order(const RecipeGroup& group,
                                    std::span<const Published> references) {
  std::vector<std::string> order;
  for (const Published& reference : references) {
    if (!reference.accuracy) continue;
    for (const std::string& task : reference.accuracy->tasks) {
      if (group.fingerprints.contains(task) &&
          std::find(order.begin(), order.end(), task) == order.end())
        order.push_back(task);
    }
  }
  for (const auto& [task, print] : group.fingerprints) {
    if (std::find(order.begin(), order.end(), task) == order.end()) order.push_back(task);
  }
  return order;
}

const Published* nearest(const RecipeGroup& group, std::span<const Published> references) {
  if (group.regime != Result{}.regime) return nullptr;
  const Published* best = nullptr;
  size_t rank = SIZE_MAX;
  for (const Published& reference : references) {
    if (!reference.accuracy || reference.accuracy->regime == Regime::later) continue;
    const auto& protocols = reference.accuracy->protocols;
    const auto at = static_cast<size_t>(
        std::find(protocols.begin(), protocols.end(), group.protocol) - protocols.begin());
    if (at < protocols.size() && at < rank) {
      best = &reference;
      rank = at;
    }
  }
  return best;
}

bool chosen_on_test(const Result& result) {
  const json& config = result.config;
  const auto at = config.find("evaluation");
  if (at == config.end() || !at->is_object() || at->value("dev", json("dev")) != "test")
    return false;
  const json after = at->value("select_after", json(0));
  return !after.is_number() || after.get<double>() < 1;
}

std::optional<double> Baseline::highest() const {
  return std::max({chance, majority, sample_majority});
}

Baseline baseline_of(const RecipeGroup& group, const std::string& task) {
  Baseline baseline;
  for (const Result* r : group.results) {
    if (r->task != task) continue;
    // One fingerprint and one way of evaluating a task: every run of it has the same labels, which
    // may be those of less than the whole split.
    if (r->predictions && !baseline.chance) {
      baseline.chance = 100.0 / static_cast<double>(r->predictions->classes().size());
      baseline.majority = 100 * r->predictions->majority();
    }
    if (r->data.majority && !baseline.majority) baseline.majority = 100 * *r->data.majority;
    if (r->data.sample_majority) baseline.sample_majority = 100 * *r->data.sample_majority;
  }
  return baseline;
}

std::string Baseline::text() const {
  const char* const what = highest() == majority          ? "the most frequent label"
                           : highest() == sample_majority ? "the most frequent label of each sample"
                                                          : "chance";
  return fmt::format("{} ({:.2f} %)", what, *highest());
}

bool above(const Result& result, const Baseline& baseline) {
  const auto least = baseline.highest();
  return !least || !result.test || 100 * interval_of(*result.test).low > *least;
}

bool learned(const Result& result, const Baseline& baseline) {
  return !result.never_left_majority() && above(result, baseline);
}

std::string unlearned_text(const Baseline& baseline) {
  std::string text =
      "its interval on dev does not stay above the most frequent label there, or those of its "
      "samples";
  if (baseline.highest())
    text += fmt::format(", or that on test reaches down to {}", baseline.text());
  return text;
}

}  // namespace lra
