// Who is as good as the best, and who has learned at all.
#include "results/analysis/standings.h"

#include <gtest/gtest.h>

#include <cmath>

#include "results/report/latex_tables.h"
#include "results/statistics/hypothesis.h"
#include "results/tables/accuracy_table.h"
#include "tests/results/examples.h"

namespace lra {
namespace {

using Place = Standing::Place;

// Right at the first `correct` of 1000 examples, of which `swapped` are others.
Result seeded_run(const std::string& attention, int64_t correct, int64_t swapped = 0,
                  uint64_t seed = 0) {
  return with_predictions(example_result(attention, seed), 1000, [=](int64_t i) {
    return i < correct - swapped || (i >= 900 && i < 900 + swapped);
  });
}

std::vector<Standing> standings_of(const std::vector<Result>& results) {
  const auto groups = group_by_recipe(results);
  EXPECT_EQ(groups.size(), 1u);
  return standings(accuracy_cells(groups[0]));
}

const Standing& of(const std::vector<Standing>& all, const std::string& row) {
  for (const Standing& standing : all) {
    if (standing.row == row) return standing;
  }
  throw std::runtime_error("no standing of " + row);
}

TEST(Standings, SingleRunsAreTestedByMcNemarOnTheirPredictions) {
  // Against the best (400 right): "near" has 390 of them, "far" 300 and no others.
  const auto all =
      standings_of({seeded_run("best", 400), seeded_run("near", 398, 20), seeded_run("far", 300)});
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(of(all, "best").place, Place::best);
  EXPECT_EQ(of(all, "best").text(), "best");
  EXPECT_FALSE(of(all, "best").p);
  const Standing& near = of(all, "near");
  EXPECT_EQ(near.place, Place::indistinguishable);
  EXPECT_EQ(near.text(), "not distinguishable");
  EXPECT_EQ(near.test, "McNemar");
  EXPECT_NEAR(near.difference.value(), -0.2, 1e-12);
  EXPECT_DOUBLE_EQ(*near.p, stats::mcnemar_p(20, 22));
  const Standing& far = of(all, "far");
  EXPECT_EQ(far.place, Place::below);
  EXPECT_DOUBLE_EQ(*far.p, stats::mcnemar_p(0, 100));
  EXPECT_DOUBLE_EQ(*far.adjusted, 2 * stats::mcnemar_p(0, 100));  // the smaller of two
  EXPECT_LT(far.ci95->low, -10);
  EXPECT_GT(far.ci95->high, -10);
  EXPECT_LT(far.ci95->high, 0);
}

TEST(Standings, HolmCanTakeAwayWhatOneTestAloneWouldShow) {
  // Ten examples the best alone has right, two the other: p = 0.0386 by itself.
  const Result best = seeded_run("best", 400), other = seeded_run("other", 392, 2);
  EXPECT_EQ(of(standings_of({best, other}), "other").place, Place::below);
  const auto all = standings_of({best, other, seeded_run("third", 392, 2)});
  EXPECT_EQ(of(all, "other").place, Place::indistinguishable);
  EXPECT_DOUBLE_EQ(*of(all, "other").adjusted, 2 * stats::mcnemar_p(2, 10));
}

TEST(Standings, SeedsAreTestedByWelch) {
  std::vector<Result> results;
  for (uint64_t seed = 0; seed < 3; ++seed) {
    const auto more = static_cast<int64_t>(4 * seed);
    results.push_back(seeded_run("best", 400 + more, 0, seed));
    results.push_back(seeded_run("far", 300 + more, 0, seed));
  }
  const Standing far = of(standings_of(results), "far");
  EXPECT_EQ(far.test, "Welch");
  EXPECT_EQ(far.place, Place::below);
  // 92 examples that all seeds of the best have right and none of the other's, and two times four
  // of each third.
  const double squares = 92 + 8 * (1 + 4) / 9.0;
  const stats::WelchTest welch =
      stats::welch_test(std::vector<double>{30, 30.4, 30.8}, std::vector<double>{40, 40.4, 40.8},
                        {.variance = 1e4 * (squares / 1000 - 0.01) / 999, .freedom = 999});
  EXPECT_NEAR(*far.p, welch.p, 1e-9);
  EXPECT_NEAR(far.ci95->low, welch.difference.low, 1e-9);
  EXPECT_NEAR(far.difference.value(), -10, 1e-12);
}

// One lucky seed takes no test from attentions of several.
TEST(Standings, ASingleSeedBesideSeveralIsNotTheBest) {
  std::vector<Result> results = {seeded_run("lucky", 450)};
  for (uint64_t seed = 0; seed < 3; ++seed) {
    const auto more = static_cast<int64_t>(4 * seed);
    results.push_back(seeded_run("steady", 400 + more, 0, seed));
    results.push_back(seeded_run("far", 300 + more, 0, seed));
  }
  const auto all = standings_of(results);
  EXPECT_EQ(of(all, "steady").place, Place::best);
  EXPECT_EQ(of(all, "far").place, Place::below);
  EXPECT_EQ(of(all, "lucky").text(), "not tested: one seed against several");
  EXPECT_GT(of(all, "lucky").difference.value(), 0);
  const Table table = accuracy_tables(results).at(0);
  ASSERT_EQ(table.bold.size(), 1u);
  EXPECT_TRUE(table.rows[table.bold.begin()->first][0].starts_with("steady")) << to_text(table);
  // The exception is said where nothing is tested too.
  std::erase_if(results, [](const Result& r) { return r.attention.name == "far"; });
  const std::string untested = to_text(accuracy_tables(results).at(0));
  EXPECT_TRUE(
      contains(untested, "best: the highest mean of several seeds, single ones passed over"))
      << untested;
  EXPECT_TRUE(contains(accuracy_latex(results, {}), "Bold: the highest of several seeds"));
  // Where the other learned it by some seeds alone, or not, it stands alone.
  results = {seeded_run("lucky", 450)};
  for (uint64_t seed = 0; seed < 3; ++seed)
    results.push_back(seeded_run("mixed", seed == 0 ? 420 : 100, 0, seed));
  EXPECT_EQ(of(standings_of(results), "lucky").place, Place::best);
  results = {seeded_run("lucky", 450), seeded_run("low", 100, 0, 0), seeded_run("low", 101, 0, 1)};
  EXPECT_EQ(of(standings_of(results), "lucky").place, Place::best);
}

// 1208 + 1236 + 1204 = 1216 + 1207 + 1225, and their means as fractions differ by rounding.
TEST(Standings, EqualSumsOfCountsAreOneMean) {
  std::vector<Result> results;
  const auto add = [&](const char* name, std::vector<int64_t> correct) {
    for (size_t seed = 0; seed < correct.size(); ++seed) {
      Result r = seeded_run(name, 400, 0, seed);
      r.predictions = nullptr;
      r.test = Accuracy{.accuracy = static_cast<double>(correct[seed]) / 2000,
                        .correct = correct[seed],
                        .count = 2000,
                        .ci95 = {}};
      results.push_back(r);
    }
  };
  add("a", {1208, 1236, 1204});
  add("b", {1216, 1207, 1225});
  const auto all = standings_of(results);
  EXPECT_EQ(of(all, "a").place, Place::best);
  EXPECT_EQ(of(all, "b").difference.value(), 0);
  EXPECT_FALSE(std::signbit(of(all, "b").difference.value()));
  EXPECT_EQ(accuracy_tables(results).at(0).bold.size(), 2u);
}

// Three seeds a side that agree to 0.1 points, two points apart, on a test set of 200.
TEST(Standings, SeedsShareTheSamplingOfTheirTestSet) {
  const auto seeds_of = [](int64_t count, int64_t best, int64_t near) {
    std::vector<Result> results;
    for (uint64_t seed = 0; seed < 3; ++seed) {
      const auto more = static_cast<int64_t>(seed);
      for (const auto& [name, correct] : {std::pair("best", best), {"near", near}}) {
        Result r = seeded_run(name, correct + more, 0, seed);
        r.predictions = nullptr;
        r.test =
            Accuracy{.accuracy = static_cast<double>(correct + more) / static_cast<double>(count),
                     .correct = correct + more,
                     .count = count,
                     .ci95 = {}};
        results.push_back(r);
      }
    }
    return of(standings_of(results), "near");
  };
  EXPECT_EQ(seeds_of(1000, 520, 500).place, Place::indistinguishable);
  EXPECT_EQ(seeds_of(100000, 52000, 50000).place, Place::below);
}

// One of ten seeds that failed lowers the mean of what else ranks above the best.
TEST(Standings, HigherRanksAreNotBelow) {
  std::vector<Result> results;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const auto more = static_cast<int64_t>(seed % 3);
    results.push_back(seeded_run("steady", 300 + more, 0, seed));
    results.push_back(seeded_run("shaky", seed == 0 ? 90 : 310 + more, 0, seed));
  }
  const Standing shaky = of(standings_of(results), "shaky");
  EXPECT_EQ(shaky.place, Place::untested) << shaky.text();
  EXPECT_TRUE(shaky.reason.find("ranks are the higher") != std::string::npos) << shaky.reason;
}

// Welch's test of sides that do not vary would find any difference certain. The mean of three
// times 12.2 is not 12.2.
TEST(Standings, SeedsThatAgreeAreNotTested) {
  std::vector<Result> results;
  for (uint64_t seed = 0; seed < 3; ++seed) {
    results.push_back(seeded_run("best", 122, 0, seed));
    results.push_back(seeded_run("near", 121, 0, seed));
  }
  const auto all = standings_of(results);
  EXPECT_EQ(of(all, "near").text(), "not tested: no spread over the seeds");
  EXPECT_FALSE(of(all, "near").ci95);
}

TEST(Standings, WhatCannotBeTestedSaysWhy) {
  Result bare = seeded_run("bare", 300);
  bare.predictions = nullptr;
  Result other = seeded_run("other", 300);
  auto predictions = std::make_shared<Predictions>(*other.predictions);
  std::swap(predictions->labels[0], predictions->labels[999]);
  other.predictions = predictions;
  const auto all = standings_of({seeded_run("best", 400), bare, other,
                                 seeded_run("seeds", 300, 0, 0), seeded_run("seeds", 300, 0, 1)});
  EXPECT_EQ(of(all, "bare").text(), "not tested: no predictions");
  EXPECT_EQ(of(all, "other").text(), "not tested: predictions of other examples");
  EXPECT_EQ(of(all, "seeds").text(), "not tested: one seed against several");
  EXPECT_TRUE(standings_of({seeded_run("alone", 400)}).empty());
}

// Ten labelled positions a sample.
TEST(Standings, PositionsOfASampleAreNoIndependentExamples) {
  const auto run = [](const std::string& attention, int64_t correct, int64_t positions) {
    Result result = seeded_run(attention, correct);
    auto predictions = std::make_shared<Predictions>(*result.predictions);
    for (size_t i = 0; i < predictions->labels.size(); ++i)
      predictions->samples.push_back(static_cast<int64_t>(i) / positions);
    result.predictions = predictions;
    return result;
  };
  const auto all = standings_of({run("best", 400, 10), run("far", 300, 10), run("cut", 300, 5)});
  EXPECT_EQ(of(all, "far").text(), "not tested: positions of a sample are not independent");
  EXPECT_FALSE(of(all, "far").p);
  ASSERT_TRUE(of(all, "far").ci95);
  EXPECT_LT(of(all, "far").ci95->high, 0);
  EXPECT_EQ(of(all, "cut").text(), "not tested: predictions of other examples");
}

TEST(Standings, RunsThatAreNotComparableNeverMeet) {
  for (const auto& change :
       {+[](Result& r) { r.protocol = "tay2020"; },
        +[](Result& r) { r.data.fingerprint = std::string(64, 'b'); },
        +[](Result& r) { r.data.synthetic = true; }, +[](Result& r) { r.task = "text"; }}) {
    Result other = seeded_run("other", 300);
    change(other);
    EXPECT_TRUE(difference_tables(std::vector<Result>{seeded_run("best", 400), other}).empty());
  }
}

std::string notes_of(const std::vector<Result>& results) {
  std::string text;
  for (const Table& table : accuracy_tables(results)) {
    for (const std::string& note : table.notes) text += note + "\n";
  }
  return text;
}

TEST(Standings, TheAccuracyTableNamesThem) {
  const std::string notes =
      notes_of({seeded_run("best", 400), seeded_run("near", 398, 20), seeded_run("far", 300)});
  EXPECT_TRUE(
      contains(notes, "listops: best best; not distinguishable from it: near; below it: far\n"))
      << notes;
  EXPECT_TRUE(contains(notes,
                       "tested at 5 % (single runs: exact McNemar test), "
                       "Holm's correction over 2 tests"))
      << notes;
  EXPECT_FALSE(contains(notes_of({seeded_run("alone", 400)}), "Holm"));
}

TEST(Standings, TheAccuracyTableWarnsOfWhatWasNotLearned) {
  // 10 % needs no learning; the intervals are [8.3, 12.0], [9.0, 12.9] and [10.0+, 14.3].
  EXPECT_TRUE(contains(notes_of({seeded_run("standard", 100)}),
                       "WARNING: listops was not learned by standard: its interval on dev does not "
                       "stay above the most frequent label there, or those of its samples, or that "
                       "on test reaches down to "
                       "the most frequent label (10.00 %)"));
  EXPECT_TRUE(contains(notes_of({seeded_run("standard", 108)}), "WARNING"));
  EXPECT_FALSE(contains(notes_of({seeded_run("standard", 122)}), "WARNING"));
  EXPECT_TRUE(
      contains(notes_of({seeded_run("standard", 100, 0, 0), seeded_run("standard", 300, 0, 1)}),
               "not learned by standard (1 of 2 seeds)"));
  Result guessed = seeded_run("standard", 122);
  guessed.data.sample_majority = 0.25;
  EXPECT_TRUE(contains(notes_of({guessed}),
                       "reaches down to the most frequent label of each sample (25.00 %)"));
  Result unknown = seeded_run("standard", 100);
  unknown.data.majority.reset();
  EXPECT_TRUE(contains(notes_of({unknown}), "reaches down to the most frequent label (10.00 %)"));
  unknown.predictions = nullptr;
  EXPECT_FALSE(contains(notes_of({unknown}), "WARNING"));
}

// A test set above the most frequent label by luck does not make up for dev, which never was.
TEST(Standings, ASeedThatNeverLeftTheMajorityOnDevDidNotLearn) {
  std::vector<Result> runs;
  for (uint64_t seed = 0; seed < 3; ++seed) {
    runs.push_back(seeded_run("standard", 300, 0, seed));
    runs.back().dev = runs.back().test;
    runs.back().data.dev_majority = 0.1;
  }
  runs[0].left_majority_at = 500;
  EXPECT_TRUE(contains(notes_of(runs), "not learned by standard (2 of 3 seeds)")) << notes_of(runs);
  runs[1].data.dev_majority.reset();  // an older record, of which test alone says something
  EXPECT_TRUE(contains(notes_of(runs), "not learned by standard (1 of 3 seeds)")) << notes_of(runs);
}

// `learned` of `of` seeds get 30 to 31 of 100 right, the others what needs no learning.
std::vector<Result> seeds_that_learned(const std::string& attention, int64_t learned, int64_t of) {
  std::vector<Result> runs;
  for (int64_t seed = 0; seed < of; ++seed)
    runs.push_back(
        seeded_run(attention, seed < learned ? 300 + seed : 100, 0, static_cast<uint64_t>(seed)));
  return runs;
}

std::vector<Standing> standings_of_both(std::vector<Result> a, const std::vector<Result>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return standings_of(a);
}

TEST(Standings, FewSeedsDoNotTellWhoLearnsATask) {
  const auto few =
      standings_of_both(seeds_that_learned("luck", 4, 4), seeds_that_learned("other", 0, 4));
  EXPECT_EQ(of(few, "other").text(),
            "not tested: learned by 4/4 seeds against 0/4: fewer than 5 a side");
  EXPECT_FALSE(of(few, "other").p);
  const auto one =
      standings_of_both(seeds_that_learned("luck", 1, 1), seeds_that_learned("other", 0, 1));
  EXPECT_EQ(of(one, "other").place, Place::untested);
  const auto five =
      standings_of_both(seeds_that_learned("luck", 5, 5), seeds_that_learned("other", 0, 5));
  EXPECT_EQ(of(five, "other").test, "rank sum");
  EXPECT_DOUBLE_EQ(*of(five, "other").p, 2.0 / 252);  // ways to choose 5 of 10
  EXPECT_EQ(of(five, "other").place, Place::below);
  // By the counts alone, 5/5 against 2/5, p would be 0.17, far apart as the seeds are.
  std::vector<Result> worse = seeds_that_learned("other", 0, 5);
  worse[0] = seeded_run("other", 160, 0, 0);
  worse[1] = seeded_run("other", 161, 0, 1);
  const auto apart = standings_of_both(seeds_that_learned("luck", 5, 5), worse);
  EXPECT_EQ(of(apart, "other").place, Place::below);
  const auto mixed =
      standings_of_both(seeds_that_learned("luck", 5, 5), seeds_that_learned("other", 3, 5));
  EXPECT_EQ(of(mixed, "other").text(), "not distinguishable");
}

// 7 times 2/252 is more than 0.05, 7 times 2/924 is not.
TEST(Standings, RanksThatCannotTellAmongSoManyTestsTestNothing) {
  const auto others_of = [](int64_t seeds, int64_t count) {
    std::vector<Result> runs = seeds_that_learned("best", seeds, seeds);
    for (int64_t i = 0; i < count; ++i) {
      const auto other = seeds_that_learned(fmt::format("other{}", i), 0, seeds);
      runs.insert(runs.end(), other.begin(), other.end());
    }
    return runs;
  };
  const std::vector<Standing> all = standings_of(others_of(5, 7));
  EXPECT_EQ(of(all, "other3").text(),
            "not tested: ranks of 5 seeds against 5 cannot tell among 7 tests");
  EXPECT_DOUBLE_EQ(*of(all, "other3").adjusted, 7 * 2.0 / 252);
  EXPECT_TRUE(contains(notes_of(others_of(5, 7)), "not tested: other0 (ranks of 5"));
  EXPECT_EQ(of(standings_of(others_of(5, 6)), "other3").place, Place::below);
  EXPECT_EQ(of(standings_of(others_of(6, 7)), "other3").place, Place::below);
  // Ties can bring the p of unequal sides below that of seeds that all differ.
  std::vector<Result> tied;
  for (uint64_t seed = 0; seed < 6; ++seed) tied.push_back(seeded_run("best", 400, 0, seed));
  for (int i = 0; i < 12; ++i) {
    for (uint64_t seed = 0; seed < 5; ++seed)
      tied.push_back(
          seeded_run(fmt::format("other{}", i), i > 0 && seed == 0 ? 450 : 100, 0, seed));
  }
  const Standing apart = of(standings_of(tied), "other0");
  EXPECT_LT(*apart.adjusted, kSignificance);
  EXPECT_EQ(apart.place, Place::below) << apart.text();
  // Of one that could have counted, as others are clearer, no difference is found.
  std::vector<Result> mixed = others_of(6, 6);
  for (const Result& r : seeds_that_learned("mixed", 4, 6)) mixed.push_back(r);
  EXPECT_EQ(of(standings_of(mixed), "mixed").text(), "not distinguishable");
}

TEST(Standings, SeedsThatAllLearnedAreComparedByTheirMeans) {
  const auto all = standings_of_both(seeds_that_learned("a", 3, 3), seeds_that_learned("b", 4, 4));
  EXPECT_EQ(of(all, "a").test, "Welch");
}

TEST(Standings, OfATaskThatNoneLearnedNoneIsTheBest) {
  std::vector<Result> runs = seeds_that_learned("c", 0, 3);
  runs[0] = seeded_run("c", 90);
  for (const Result& r : seeds_that_learned("d", 0, 3)) runs.push_back(r);
  EXPECT_TRUE(standings_of(runs).empty());
  EXPECT_TRUE(difference_tables(runs).empty());
  const std::string text = to_text(accuracy_tables(runs).at(0));
  EXPECT_TRUE(contains(text, "listops: no attention learned it, so that none is the best")) << text;
  // One that did is the best, though another's mean is higher.
  Result learned = seeded_run("e", 250);
  runs.push_back(learned);
  EXPECT_EQ(of(standings_of(runs), "e").place, Place::best);
  EXPECT_FALSE(contains(to_text(accuracy_tables(runs).at(0)), "no attention learned it"));
}

TEST(Standings, TheDifferenceTableShowsThem) {
  const auto tables =
      difference_tables(std::vector<Result>{seeded_run("best", 400), seeded_run("far", 300)});
  ASSERT_EQ(tables.size(), 1u);
  ASSERT_EQ(tables[0].rows.size(), 2u);
  EXPECT_EQ(tables[0].rows[0], (std::vector<std::string>{"listops", "best", "1", "40.00", "–", "–",
                                                         "–", "–", "–", "–", "best"}));
  auto far = tables[0].rows[1];
  EXPECT_TRUE(far[6].starts_with("[-11.")) << far[6];  // sd 0.95 around -10
  far[6].clear();
  EXPECT_EQ(far, (std::vector<std::string>{"listops", "far", "1", "30.00", "–", "-10.00", "",
                                           "McNemar", "< 0.0001", "< 0.0001", "below the best"}));
}

TEST(Standings, ThePublishedNumbersStandBesideWithWhereTheyFall) {
  const auto tables = published_difference_tables(
      std::vector<Result>{example_result("nystrom"), example_result("standard", 0, 700)});
  ASSERT_EQ(tables.size(), 1u);
  EXPECT_EQ(tables[0].rows,
            (std::vector<std::vector<std::string>>{{"listops", "nystrom", "37.05 [34.96, 39.19]",
                                                    "37.15", "-0.10", "within the interval"},
                                                   {"listops", "standard", "35.00 [32.94, 37.12]",
                                                    "37.10", "-2.10", "within the interval"}}));
  Result low = example_result("standard", 0, 600), high = example_result("nystrom", 0, 900);
  const auto far = published_difference_tables(std::vector<Result>{low, high});
  EXPECT_EQ(far[0].rows[0][5], "below the interval");
  EXPECT_EQ(far[0].rows[1][5], "above the interval");
  low.protocol = "mine";
  EXPECT_TRUE(published_difference_tables(std::vector<Result>{low}).empty());
}

}  // namespace
}  // namespace lra
