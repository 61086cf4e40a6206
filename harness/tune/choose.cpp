#include "harness/tune/choose.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>

#include "attention_variants/base/text.h"
#include "results/records/result.h"
#include "results/statistics/statistics.h"

namespace lra::tune {
namespace {

// Means of the same counts in another order are one mean.
constexpr double kSame = 1e-12;

bool is_better(const Score& one, const Score& other) {
  const double difference = one.mean() - other.mean();
  if (difference > kSame) return true;
  return difference >= -kSame && one.learned() > other.learned();
}

std::string left_text(const TunedCell& cell) {
  if (cell.status != Status::ok || cell.learning_unknown) return "–";
  return cell.left_majority_at ? fmt::format("{}", *cell.left_majority_at) : "never";
}

std::string learned_cell(const Score& score) {
  if (std::ranges::any_of(score.cells, &TunedCell::learning_unknown)) return "–";
  return fmt::format("{}/{}", score.learned(), score.cells.size());
}

std::vector<std::string> row_of(const Score& score, bool chosen) {
  std::vector<std::string> left;
  for (const TunedCell& cell : score.cells) left.push_back(left_text(cell));
  std::string accuracy = score.states();
  if (score.is_whole()) {
    const stats::Interval ci = score.interval();
    accuracy =
        fmt::format("{:.2f} [{:.2f}, {:.2f}]", 100 * score.mean(), 100 * ci.low, 100 * ci.high);
  }
  return {score.attention,
          point_text(score.point),
          accuracy,
          learned_cell(score),
          fmt::format("{}", fmt::join(left, ", ")),
          chosen ? "*" : ""};
}

std::string hours_text(const TuneFile& file) {
  std::string text = "hours of training, evaluations included: ";
  for (const AttentionHours& cost : file.cost)
    text += fmt::format("{} {:.3g}, ", cost.attention, cost.hours);
  return text + fmt::format("in all {:.3g}", file.hours);
}

}  // namespace

bool Score::is_whole() const {
  return !cells.empty() && std::ranges::all_of(cells, [](const TunedCell& cell) {
    return cell.status == Status::ok && cell.dev && cell.ci95 && cell.examples;
  });
}

double Score::mean() const {
  std::vector<double> fractions;
  for (const TunedCell& cell : cells) fractions.push_back(cell.dev.value());
  return stats::mean(fractions);
}

stats::Interval Score::interval() const {
  if (cells.size() == 1) return cells.front().ci95.value();
  std::vector<double> fractions;
  int64_t count = cells.front().examples.value();
  for (const TunedCell& cell : cells) {
    fractions.push_back(cell.dev.value());
    count = std::min(count, cell.examples.value());
  }
  return stats::seeds_interval(fractions, count);
}

int64_t Score::learned() const {
  return std::ranges::count_if(cells, [](const TunedCell& cell) {
    return cell.status == Status::ok && cell.left_majority_at.has_value();
  });
}

std::string Score::states() const {
  std::map<Status, int> counts;
  for (const TunedCell& cell : cells) {
    if (cell.status != Status::ok) ++counts[cell.status];
  }
  std::vector<std::string> parts;
  for (const auto& [status, count] : counts) parts.push_back(fmt::format("{} {}", count, status));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::vector<Score> scores_of(const TuneFile& file) {
  std::vector<Score> scores;
  for (const std::string& attention : file.attentions) {
    for (const Point& point : file.points) {
      Score score{.attention = attention, .point = point};
      std::ranges::copy_if(file.cells, std::back_inserter(score.cells), [&](const TunedCell& cell) {
        return cell.attention == attention && cell.point == point;
      });
      scores.push_back(std::move(score));
    }
  }
  return scores;
}

std::vector<ChosenPoint> choose(const std::vector<Score>& scores) {
  std::vector<const Score*> best;  // an attention each, in their order
  for (const Score& score : scores) {
    if (!score.is_whole()) continue;
    if (best.empty() || best.back()->attention != score.attention) {
      best.push_back(&score);
    } else if (is_better(score, *best.back())) {
      best.back() = &score;
    }
  }
  std::vector<ChosenPoint> chosen;
  for (const Score* score : best) {
    chosen.push_back(
        {.attention = score->attention,
         .point = score->point,
         .dev = score->mean(),
         .ci95 = score->interval(),
         .learned = score->learned(),
         .learning_unknown = std::ranges::any_of(score->cells, &TunedCell::learning_unknown),
         .seeds = std::ssize(score->cells)});
  }
  return chosen;
}

std::string data_kind(const TuneFile& file) {
  return DataRecord{.source = file.data_source, .synthetic = file.synthetic}.kind();
}

bool has_unlike_steps(const TuneFile& file) {
  std::set<std::string> steps;
  for (const Point& point : file.points) {
    const auto it = std::ranges::find_if(
        point, [](const std::string& one) { return one.starts_with("training.steps="); });
    steps.insert(it == point.end() ? "" : *it);
  }
  return steps.size() > 1;
}

int64_t equal_points(const TuneFile& file, const ChosenPoint& chosen) {
  return std::ranges::count_if(scores_of(file), [&chosen](const Score& score) {
    return score.attention == chosen.attention && score.is_whole() &&
           std::abs(score.mean() - chosen.dev) <= kSame && score.learned() == chosen.learned;
  });
}

Table score_table(const TuneFile& file) {
  const std::string kind = data_kind(file);
  Table table{.title = fmt::format("Dev accuracy on {} under {}{}", file.task, file.protocol,
                                   kind.empty() ? "" : ", " + kind),
              .columns = {{"attention", Align::kLeft},
                          {"point", Align::kLeft},
                          {"dev % [95 % interval]"},
                          {"learned"},
                          {"left majority at", Align::kLeft},
                          {"chosen"}}};
  for (const Score& score : scores_of(file)) {
    const bool chosen = std::ranges::any_of(file.chosen, [&](const ChosenPoint& one) {
      return one.attention == score.attention && one.point == score.point;
    });
    table.rows.push_back(row_of(score, chosen));
  }
  table.notes = {
      fmt::format("mean of the best checkpoints of {} {}; the test split was not read",
                  plural("seed", file.seeds.size()), fmt::join(file.seeds, ", ")),
      "chosen: the highest mean of the points whose seeds are all ok, then what more seeds "
      "learned, "
      "then the first given",
      "left majority at: of each seed the step from which dev lies above its most frequent label, "
      "or those "
      "of its samples"};
  if (has_unlike_steps(file)) table.notes.emplace_back(kUnlikeSteps);
  std::vector<std::string> unlearned;
  for (const ChosenPoint& one : file.chosen) {
    if (one.learned == 0 && !one.learning_unknown) unlearned.push_back(one.attention);
  }
  if (!unlearned.empty())
    table.notes.push_back(
        fmt::format("WARNING: no seed of what was chosen for {} left the most frequent label: the "
                    "search says nothing of it",
                    fmt::join(unlearned, ", ")));
  table.notes.push_back(hours_text(file));
  return table;
}

}  // namespace lra::tune
