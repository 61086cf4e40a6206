#include "results/analysis/compare_runs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <set>
#include <stdexcept>

#include "attention_variants/base/text.h"
#include "results/analysis/changed_settings.h"
#include "results/analysis/compare_sides.h"
#include "results/analysis/contract_notes.h"
#include "results/analysis/identities.h"
#include "results/analysis/standings.h"
#include "results/statistics/statistics.h"

namespace lra {
namespace {

[[noreturn]] void refuse(const std::string& text) { throw std::runtime_error(printable(text)); }

// What of a run must be the same for all of a comparison: a name for messages, and its value.
struct Same {
  const char* what;
  std::function<std::string(const Result&)> value;
};

const Same kSame[] = {
    {"tasks", [](const Result& r) { return r.task; }},
    {"protocols", [](const Result& r) { return r.protocol; }},
    {"regimes", [](const Result& r) { return r.regime; }},
    {"kinds of data", [](const Result& r) { return r.data.kind_or_real(); }},
    {"data", [](const Result& r) { return r.data.fingerprint; }},
    {"number types", [](const Result& r) { return r.dtype(); }},
};

std::string named(const std::string& value) { return value.empty() ? "none" : value; }

void check_same(const Result& first, const Result& other) {
  for (const Same& same : kSame) {
    const std::string one = same.value(first), two = same.value(other);
    if (one == two) continue;
    refuse(fmt::format("cannot compare runs of different {}: {} in {}, {} in {}", same.what,
                       named(one), first.path, named(two), other.path));
  }
  const auto ours = overridden_settings(first), theirs = overridden_settings(other);
  const auto alone = [](const std::vector<std::string>& one, const std::vector<std::string>& two) {
    std::vector<std::string> rest;
    std::ranges::set_difference(one, two, std::back_inserter(rest));
    return named(fmt::format("{}", fmt::join(rest, ", ")));
  };
  if (ours != theirs) {
    refuse(fmt::format("cannot compare runs of different overridden settings: {} in {}, {} in {}",
                       alone(ours, theirs), first.path, alone(theirs, ours), other.path));
  }
}

// All runs of both sides as runs by hand: a suite's cell compares with one.
std::vector<Result> by_hand(std::span<const Result> first, std::span<const Result> second) {
  std::vector<Result> all(first.begin(), first.end());
  all.insert(all.end(), second.begin(), second.end());
  std::vector<RunBudget> budgets;
  const auto found = budgets_of(all);
  for (const Result& r : all) budgets.push_back(*found.at(&r));
  for (size_t i = 0; i < all.size(); ++i) forget_budget(all[i], budgets[i]);
  return all;
}

// The one group of all; what check_same does not see are settings of the configuration.
RecipeGroup one_group(const std::vector<Result>& all) {
  const std::vector<RecipeGroup> groups = group_by_recipe(all);
  if (groups.size() > 1) {
    refuse(fmt::format("cannot compare runs of different settings: {} in {}, {} in {}",
                       fmt::join(groups[0].settings, ", "), groups[0].results[0]->path,
                       fmt::join(groups[1].settings, ", "), groups[1].results[0]->path));
  }
  return groups.at(0);
}

// Whether a run is one of the same comparison as another, but for its attention and its seed.
bool comparable(const Result& r, const Result& like) {
  const bool same =
      std::ranges::all_of(kSame, [&](const Same& one) { return one.value(r) == one.value(like); });
  return same && overridden_settings(r) == overridden_settings(like) &&
         group_by_recipe(std::vector<Result>{r, like}).size() == 1;
}

// The finished runs of a side, one a seed of each attention.
std::vector<const Result*> finished(const char* which, std::span<const Result> runs,
                                    std::vector<std::string>& notes) {
  std::vector<const Result*> kept;
  for (const Result& r : runs) {
    const auto repeated = std::ranges::find_if(kept, [&r](const Result* other) {
      return other->seed == r.seed && of_one_variant(*other, r) && comparable(*other, r);
    });
    if (r.status != Status::ok || !r.test) {
      notes.push_back(fmt::format("left out: {} is {}", r.path, r.ending()));
    } else if (repeated != kept.end() && (*repeated)->test->correct == r.test->correct &&
               (*repeated)->test->count == r.test->count) {
      notes.push_back(fmt::format("left out: {} repeats seed {}", r.path, r.seed));
    } else if (repeated != kept.end()) {
      notes.push_back(fmt::format(
          "WARNING: seed {} ran more than once and came to {:.2f} % ({}) and {:.2f} % ({}); the "
          "first counts",
          r.seed, 100 * (*repeated)->test->accuracy, (*repeated)->path, 100 * r.test->accuracy,
          r.path));
    } else if (r.data.fingerprint.empty()) {
      refuse(fmt::format(
          "{} does not say which data it is of (data.fingerprint): it compares with nothing",
          r.path));
    } else {
      kept.push_back(&r);
    }
  }
  if (kept.empty()) {
    refuse(runs.empty() ? fmt::format("the {} side holds no run", which)
                        : fmt::format("the {} side holds no finished run: {} is {}", which,
                                      runs[0].path, runs[0].ending()));
  }
  return kept;
}

// The seeds of an attention that diverged, but for those of `runs`, its finished ones.
size_t diverged_seeds(std::span<const Result> all, const std::vector<const Result*>& runs) {
  const Result& like = *runs[0];
  std::set<uint64_t> seeds;
  for (const Result& r : all) {
    if (r.status == Status::diverged && of_one_variant(r, like) && comparable(r, like))
      seeds.insert(r.seed);
  }
  for (const Result* r : runs) seeds.erase(r->seed);
  return seeds.size();
}

ComparedSide side_of(const char* which, std::span<const Result> all,
                     const std::vector<const Result*>& runs, const std::set<std::string>& names,
                     const Baseline& baseline) {
  if (names.size() > 1) {
    refuse(fmt::format("the {} side holds runs of {} attentions ({}); name the runs of one", which,
                       names.size(), fmt::join(names, ", ")));
  }
  AccuracyCell cell = cell_of(runs, baseline);
  cell.diverged = diverged_seeds(all, runs);
  const stats::Interval ci = cell.interval();
  ComparedSide side{.name = *names.begin(),
                    .runs = runs,
                    .learned = cell.learned_count(),
                    .accuracy = cell.percent() / 100,
                    .ci95 = {ci.low / 100, ci.high / 100}};
  if (const auto sd = cell.sd()) side.sd = *sd / 100;
  return side;
}

// Notes which run's predictions are of other examples than the first one's, if one's are.
bool of_same_examples(const ComparedSide& a, const ComparedSide& b,
                      std::vector<std::string>& notes) {
  const Result& first = *a.runs[0];
  for (const ComparedSide* side : {&a, &b}) {
    for (const Result* r : side->runs) {
      if (same_examples(*first.predictions, *r->predictions)) continue;
      notes.push_back(fmt::format(
          "no paired test: the predictions of {} ({}) and of {} ({}) are of other examples",
          first.path, first.predictions->size(), r->path, r->predictions->size()));
      return false;
    }
  }
  return true;
}

// The predictions of a side's runs; empty where one has none.
std::vector<const Predictions*> predictions_of(const ComparedSide& side,
                                               std::vector<std::string>& notes) {
  std::vector<const Predictions*> all;
  for (const Result* r : side.runs) {
    if (!r->predictions) {
      notes.push_back(
          fmt::format("no paired test: {} has no predictions beside it that can be used", r->path));
      return {};
    }
    all.push_back(r->predictions.get());
  }
  return all;
}

// What several seeds a side say, or that there is one alone.
void compare_seeds(RunComparison& c) {
  const LearningTest learning{.a = c.a.learned, .b = c.b.learned};
  const auto fractions = [](const ComparedSide& side) {
    std::vector<double> values;
    for (const Result* r : side.runs) values.push_back(r->test->accuracy);
    return values;
  };
  const auto ranked = [&](const ComparedSide& side) {
    std::vector<double> values = fractions(side);
    values.insert(values.end(), side.diverged(), -1);  // below all
    return values;
  };
  if (learning.decides()) {
    c.fisher = learning.fisher_p();
    if (learning.enough_seeds()) {
      c.rank_sum = stats::rank_sum_p(ranked(c.a), ranked(c.b));
      c.above = stats::share_above(ranked(c.a), ranked(c.b));
    }
    // All that finished learned; the rest diverged.
    const bool finished_all =
        c.a.learned.learned == c.a.runs.size() && c.b.learned.learned == c.b.runs.size();
    c.notes.push_back(fmt::format(
        "WARNING: {}{}{}", learning.text(), c.fisher ? "" : " show no difference of the attentions",
        finished_all
            ? ""
            : fmt::format(": the means differ by which runs learned {}, not by how well", c.task)));
  } else if (c.a.runs.size() < 2 || c.b.runs.size() < 2) {
    c.notes.emplace_back(
        "of a single run the intervals hold the sampling of the test set alone: another seed may "
        "differ by more");
  } else if (*c.a.sd + *c.b.sd > 0) {
    c.welch = stats::welch_test(fractions(c.a), fractions(c.b), sampling_error(c.a.runs, c.b.runs));
  } else {
    c.notes.emplace_back("no Welch test: the seeds of neither side differ");
  }
}

}  // namespace

RunComparison compare_runs(std::span<const Result> first, std::span<const Result> second) {
  RunComparison c;
  const std::vector<Result> given = by_hand(first, second);
  const auto a = std::span(given).first(first.size()), b = std::span(given).last(second.size());
  const auto runs_a = finished("first", a, c.notes), runs_b = finished("second", b, c.notes);
  std::vector<Result> all;  // first a's
  for (const Result* r : runs_a) all.push_back(*r);
  for (const Result* r : runs_b) all.push_back(*r);
  for (const Result& r : all) check_same(all[0], r);
  const RecipeGroup group = one_group(all);
  c.task = all[0].task;
  c.metric = all[0].metric;
  c.overridden = overridden_settings(all[0]);
  c.recipe = recipe_text(group, {c.task});
  const auto row = row_names(group);
  std::set<std::string> names_a, names_b;
  for (size_t i = 0; i < all.size(); ++i)
    (i < runs_a.size() ? names_a : names_b).insert(row.at(&all[i]));
  const Baseline baseline = baseline_of(group, c.task);
  c.a = side_of("first", a, runs_a, names_a, baseline);
  c.b = side_of("second", b, runs_b, names_b, baseline);
  c.difference = c.a.accuracy - c.b.accuracy;
  const auto of_a = predictions_of(c.a, c.notes);
  const auto of_b = of_a.empty() ? of_a : predictions_of(c.b, c.notes);
  if (!of_a.empty() && !of_b.empty() && of_same_examples(c.a, c.b, c.notes)) {
    const bool single = of_a.size() == 1 && of_b.size() == 1;
    int64_t apart = 0;  // of two runs at most
    for (const Predictions* one : of_a) {
      for (const Predictions* other : of_b) apart = std::max(apart, differing(*one, *other));
    }
    if (apart >= kLeastDiffering) {
      c.bootstrap = paired_bootstrap(of_a, of_b);
    } else {
      c.notes.push_back(fmt::format(
          "no bootstrap: the runs differ on {}, fewer than {}",
          count_text(apart, of_a[0]->samples.empty() ? "example" : "sample"), kLeastDiffering));
    }
    // McNemar's test takes examples for independent.
    if (single && of_a[0]->samples.empty()) {
      c.counts = paired_counts(*of_a[0], *of_b[0]);
      c.mcnemar = stats::mcnemar_p(c.counts->only_a, c.counts->only_b);
    }
  }
  compare_seeds(c);
  compare_costs(c);
  note_learning(c, baseline);
  note_own_values(c);
  if (!c.metric.empty()) c.notes.push_back(metric_note(c.metric));
  if (std::ranges::any_of(all, chosen_on_test)) c.notes.push_back(kChosenOnTest);
  for (std::string& note : contract_notes(group)) c.notes.push_back(std::move(note));
  if (!group.synthetic.empty()) c.notes.emplace_back("synthetic: stand-in data");
  for (const auto& [task, variant] : group.variants)
    c.notes.push_back(fmt::format("{}: {}, not the data of published numbers", task, variant));
  for (const Result*& r : c.a.runs) r = &first[r - given.data()];
  for (const Result*& r : c.b.runs) r = &second[r - b.data()];
  return c;
}

}  // namespace lra
