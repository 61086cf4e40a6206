#include "results/analysis/standings.h"

#include <fmt/format.h>

#include <map>
#include <numeric>
#include <span>
#include <utility>

#include "results/analysis/paired.h"
#include "results/statistics/hypothesis.h"

namespace lra {
namespace {

void test_predictions(const Predictions& cell, const Predictions& best, Standing& standing) {
  if (!same_examples(cell, best)) {
    standing.reason = "predictions of other examples";
    return;
  }
  if (differing(cell, best) >= kLeastDiffering) {
    const Predictions *ours = &cell, *theirs = &best;
    const stats::Interval ci = paired_bootstrap({&ours, 1}, {&theirs, 1});
    standing.ci95 = stats::Interval{100 * ci.low, 100 * ci.high};
  }
  if (!cell.samples.empty()) {
    standing.reason = "positions of a sample are not independent";
    return;
  }
  const PairedCounts counts = paired_counts(cell, best);
  standing.test = "McNemar";
  standing.p = stats::mcnemar_p(counts.only_a, counts.only_b);
}

// A few seeds far below the others can lower the mean of what ranks above the best.
void test_ranks(const std::vector<double>& cell, const std::vector<double>& best,
                Standing& standing) {
  if (stats::share_above(cell, best) > 0.5) {
    standing.reason = "its mean is the lower one, its seeds' ranks are the higher";
    return;
  }
  standing.test = "rank sum";
  standing.p = stats::rank_sum_p(cell, best);
  std::vector<double> apart(cell.size() + best.size());
  std::iota(apart.begin(), apart.end(), 0.0);
  const std::span<const double> all = apart;
  standing.least_p = stats::rank_sum_p(all.first(cell.size()), all.subspan(cell.size()));
  standing.reason = fmt::format("ranks of {} seeds against {}", cell.size(), best.size());
}

// By Holm, over all tests of the table.
void correct_for_many(std::vector<Standing>& all) {
  std::vector<Standing*> tested;
  std::vector<double> p;
  for (Standing& standing : all) {
    if (!standing.p) continue;
    tested.push_back(&standing);
    p.push_back(*standing.p);
  }
  const std::vector<double> adjusted = stats::holm(p);
  for (size_t i = 0; i < tested.size(); ++i) {
    Standing& standing = *tested[i];
    standing.adjusted = adjusted[i];
    standing.place =
        adjusted[i] < kSignificance ? Standing::Place::below : Standing::Place::indistinguishable;
    const std::string ranks = std::exchange(standing.reason, "");
    if (!standing.least_p || standing.place == Standing::Place::below) continue;
    std::vector<double> at_best = p;
    at_best[i] = *standing.least_p;
    if (stats::holm(at_best)[i] < kSignificance) continue;
    standing.place = Standing::Place::untested;
    standing.reason = fmt::format("{} cannot tell among {} tests", ranks, tested.size());
  }
}

void test(const AccuracyCell& cell, const AccuracyCell& best, Standing& standing) {
  const LearningTest learning{.a = best.learned_count(), .b = cell.learned_count()};
  const bool above = standing.difference.value_or(0) > 0;  // and yet not the best
  if (above && cell.diverged > 0) {
    standing.reason = cell.diverged_text();
  } else if (above && cell.learned.empty()) {
    standing.reason = "it did not learn the task";
  } else if (learning.decides()) {
    if (learning.enough_seeds()) {
      test_ranks(cell.ranked(), best.ranked(), standing);
    } else {
      standing.reason = learning.text();
    }
  } else if (cell.ok.size() > 1 && best.ok.size() > 1 && *cell.sd() + *best.sd() == 0) {
    standing.reason = "no spread over the seeds";
  } else if (cell.ok.size() > 1 && best.ok.size() > 1) {
    stats::SamplingError examples = sampling_error(cell.ok, best.ok);
    examples.variance *= 100 * 100;
    const stats::WelchTest welch = stats::welch_test(cell.percents(), best.percents(), examples);
    standing.test = "Welch";
    standing.p = welch.p;
    standing.ci95 = welch.difference;
  } else if (cell.ok.size() != best.ok.size()) {
    standing.reason = "one seed against several";
  } else if (!cell.ok[0]->predictions || !best.ok[0]->predictions) {
    standing.reason = "no predictions";
  } else {
    test_predictions(*cell.ok[0]->predictions, *best.ok[0]->predictions, standing);
  }
}

}  // namespace

bool LearningTest::decides() const {
  const size_t all = a.learned + b.learned;
  return all > 0 && all < a.of + b.of;
}

std::optional<double> LearningTest::fisher_p() const {
  if (!enough_seeds()) return std::nullopt;
  const auto count = [](size_t n) { return static_cast<int64_t>(n); };
  return stats::fisher_p(count(a.learned), count(a.of), count(b.learned), count(b.of));
}

std::string LearningTest::text() const {
  std::string text = fmt::format("learned by {} seeds against {}", a.text(), b.text());
  if (!enough_seeds()) text += fmt::format(": fewer than {} a side", kLeastSeeds);
  return text;
}

std::string Standing::text() const {
  switch (place) {
    case Place::best:
      return "best";
    case Place::indistinguishable:
      return "not distinguishable";
    case Place::below:
      return "below the best";
    case Place::untested:
      break;
  }
  return "not tested: " + reason;
}

std::vector<Standing> standings(const AccuracyCells& cells) {
  std::map<std::string, std::map<std::string, const AccuracyCell*>> tasks;  // task -> row -> cell
  for (const auto& [key, cell] : cells) {
    if (cell.learned_count().of > 0) tasks[key.second][key.first] = &cell;
  }
  std::vector<Standing> all;
  for (const auto& [task, rows] : tasks) {
    const AccuracyCell* best = nullptr;
    for (const auto& [row, cell] : rows) {
      if (cell->diverged > 0 || cell->learned.empty() || is_lone_seed(cells, row, task)) continue;
      if (best == nullptr || cell->percent() > best->percent()) best = cell;
    }
    if (rows.size() < 2 || best == nullptr) continue;
    for (const auto& [row, cell] : rows) {
      Standing standing{.row = row, .task = task};
      if (!cell->ok.empty()) standing.difference = cell->percent() - best->percent();
      if (cell == best) {
        standing.place = Standing::Place::best;
      } else {
        test(*cell, *best, standing);
      }
      all.push_back(std::move(standing));
    }
  }
  correct_for_many(all);
  return all;
}

}  // namespace lra
