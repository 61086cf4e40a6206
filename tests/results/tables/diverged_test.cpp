// Seeds that diverged did not learn the task: nothing of the others hides them.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "results/analysis/standings.h"
#include "results/plots/plots.h"
#include "results/report/latex_tables.h"
#include "results/statistics/hypothesis.h"
#include "results/tables/accuracy_table.h"
#include "results/tables/summary_table.h"
#include "tests/results/examples.h"
#include "tests/results/tables/table_text.h"

namespace lra {
namespace {

Result diverged_run(const std::string& attention, uint64_t seed) {
  Result r = example_result(attention, seed);
  r.status = Status::diverged;
  r.reason = "the loss is not finite";
  r.test.reset();
  r.steps = 40;
  r.training.steps_per_second = 1000.0;
  return r;
}

// `ok` seeds with about `correct` of 2000 right, and as many that diverged as are left of `of`.
std::vector<Result> some_diverged(const std::string& attention, uint64_t ok, uint64_t of,
                                  int64_t correct) {
  std::vector<Result> runs;
  for (uint64_t seed = 0; seed < of; ++seed) {
    runs.push_back(seed < ok
                       ? example_result(attention, seed, correct + 2 * static_cast<int64_t>(seed))
                       : diverged_run(attention, seed));
  }
  return runs;
}

// The higher mean is that of the seeds that did not diverge.
std::vector<Result> a_shaky_and_a_steady_attention(uint64_t ok = 2, uint64_t of = 4) {
  std::vector<Result> runs = some_diverged("shaky", ok, of, 900);
  const std::vector<Result> steady = some_diverged("steady", of, of, 800);
  runs.insert(runs.end(), steady.begin(), steady.end());
  return runs;
}

std::vector<Standing> standings_of_runs(const std::vector<Result>& runs) {
  return standings(accuracy_cells(group_by_recipe(runs).at(0)));
}

TEST(Diverged, SeedsCountAsNotLearnedAndAreNeverBold) {
  const Table table = accuracy_tables(a_shaky_and_a_steady_attention(), {})[0];
  const std::string text = cell(table, "shaky", "listops %");
  EXPECT_TRUE(text.starts_with("45.05 [")) << text;
  EXPECT_TRUE(text.ends_with(" n=2, learned 2/4: 45.05 (2 diverged)")) << text;
  EXPECT_EQ(table.bold, (std::set<std::pair<size_t, size_t>>{{1, 1}})) << to_text(table);
  EXPECT_EQ(table.notes[0],
            "WARNING: listops was not learned by all seeds of shaky (2 of 4 seeds diverged): a "
            "mean is that of the others alone, and never bold nor the best");
  EXPECT_TRUE(
      contains(to_text(table), "listops: best steady; not tested: shaky (2 of 4 seeds diverged)"));
  const Table alone = accuracy_tables(some_diverged("shaky", 1, 2, 900), {})[0];
  EXPECT_TRUE(cell(alone, "shaky", "listops %").ends_with(", learned 1/2: 45.00 (1 diverged)"));
}

TEST(Failures, AreGivenTheirReason) {
  std::vector<Result> runs = some_diverged("shaky", 1, 3, 900);
  const Table table = accuracy_tables(runs, {})[0];
  EXPECT_TRUE(contains(to_text(table),
                       "diverged: shaky on listops, seed 1: the loss is not finite "
                       "(and 1 more)"))
      << to_text(table);
}

TEST(Diverged, TheTableForAPaperSaysThatNoBoldNumberHidesThem) {
  const std::string text = accuracy_latex(a_shaky_and_a_steady_attention(), {});
  EXPECT_TRUE(contains(text, "Bold: the highest that every seed learned.")) << text;
  EXPECT_TRUE(contains(text, "further seeds failed.")) << text;
  EXPECT_TRUE(contains(text, "shaky & 45.05{\\tiny$\\pm$")) << text;
  EXPECT_TRUE(contains(text, "$\\dagger$ n=2 (2/4: 45.05)} \\\\\n")) << text;
  EXPECT_TRUE(contains(text, "steady & \\textbf{")) << text;
}

TEST(Diverged, TheSummaryNamesNoSuchAttentionAsTheHighest) {
  Records records;
  records.results = a_shaky_and_a_steady_attention();
  std::map<std::string, std::string> said;
  for (const auto& row : summary_table(records).rows) said[row[0]] = row[1];
  EXPECT_TRUE(said["highest accuracy"].starts_with("steady: ")) << said["highest accuracy"];
  EXPECT_EQ(said["not learned"], "listops: shaky (learned 2/4)");
  EXPECT_EQ(said["not ok"], "2 diverged");
}

TEST(Summary, NamesAllThatAreEqual) {
  Records records;
  records.results = {example_result("a"), example_result("b"), example_result("c", 0, 700)};
  const auto highest = [&] {
    std::map<std::string, std::string> said;
    for (const auto& row : summary_table(records).rows) said[row[0]] = row[1];
    return said["highest accuracy"];
  };
  EXPECT_TRUE(highest().starts_with("a, b: 37.05 % [")) << highest();
  records.results[1] = example_result("b", 1, 641);  // two seeds of the same mean
  records.results.push_back(example_result("b", 2, 841));
  EXPECT_EQ(highest(), "a, b: 37.05 %");
}

TEST(Diverged, DifferencesSayHowManyAndTakeAnotherForTheBest) {
  const auto all = standings_of_runs(a_shaky_and_a_steady_attention());
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].text(), "not tested: 2 of 4 seeds diverged");
  EXPECT_FALSE(all[0].p);
  EXPECT_NEAR(all[0].difference.value(), 4.9, 1e-9);
  EXPECT_EQ(all[1].text(), "best");
  const Table table = difference_tables(a_shaky_and_a_steady_attention(), {})[0];
  EXPECT_EQ(table.rows[0][2], "2 (2 diverged)");
  EXPECT_EQ(table.rows[1][2], "4");
  EXPECT_TRUE(contains(table.notes[1], "a seed that diverged did not learn the task"));
  EXPECT_TRUE(standings_of_runs(some_diverged("shaky", 1, 2, 900)).empty());
}

TEST(Diverged, NoneIsTheBestWhereSeedsOfAllDiverged) {
  std::vector<Result> runs = some_diverged("a", 2, 3, 900);
  const std::vector<Result> b = some_diverged("b", 2, 3, 800);
  runs.insert(runs.end(), b.begin(), b.end());
  EXPECT_TRUE(standings_of_runs(runs).empty());
  EXPECT_TRUE(difference_tables(runs, {}).empty());
  const Table table = accuracy_tables(runs, {})[0];
  EXPECT_TRUE(table.bold.empty());
  EXPECT_FALSE(contains(to_text(table), "listops: best"));
}

TEST(Diverged, AnAttentionOfWhichAllDivergedIsTestedAndToldToo) {
  std::vector<Result> runs = some_diverged("gone", 0, 5, 0);
  const std::vector<Result> steady = some_diverged("steady", 5, 5, 800);
  runs.insert(runs.end(), steady.begin(), steady.end());
  const auto all = standings_of_runs(runs);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].row, "gone");
  EXPECT_EQ(all[0].test, "rank sum");
  EXPECT_DOUBLE_EQ(*all[0].p, stats::rank_sum_p(std::vector<double>{0, 0, 0, 0, 0},
                                                std::vector<double>{1, 2, 3, 4, 5}));
  EXPECT_EQ(all[0].place, Standing::Place::below);
  EXPECT_FALSE(all[0].difference);
  const Table differences = difference_tables(runs, {})[0];
  EXPECT_EQ(differences.rows[0][2], "0 (5 diverged)");
  EXPECT_EQ(differences.rows[0][3], "–");
  EXPECT_EQ(differences.rows[0][5], "–");
  const Table table = accuracy_tables(runs, {})[0];
  EXPECT_EQ(cell(table, "gone", "listops %"), "5 diverged, learned 0/5");
  EXPECT_TRUE(contains(table.notes[0], "all seeds of gone (5 of 5 seeds diverged): a mean"))
      << table.notes[0];
  EXPECT_TRUE(contains(to_text(table), "listops: best steady; below it: gone"));
}

TEST(Diverged, SeedsAreTestedAsThoseThatDidNotLearn) {
  // The lower mean: five that learned against two of five that did.
  std::vector<Result> runs = some_diverged("shaky", 2, 5, 700);
  const std::vector<Result> steady = some_diverged("steady", 5, 5, 800);
  runs.insert(runs.end(), steady.begin(), steady.end());
  const auto all = standings_of_runs(runs);
  EXPECT_EQ(all[0].test, "rank sum");
  // Three that tie at the bottom, two, then five: of 252 ways this and its mirror image.
  EXPECT_DOUBLE_EQ(*all[0].p, stats::rank_sum_p(std::vector<double>{0, 0, 0, 1, 2},
                                                std::vector<double>{3, 4, 5, 6, 7}));
  EXPECT_EQ(all[0].place, Standing::Place::below);
  std::vector<Result> few = some_diverged("shaky", 2, 4, 700);
  few.insert(few.end(), steady.begin(), steady.begin() + 4);
  EXPECT_EQ(standings_of_runs(few)[0].text(),
            "not tested: learned by 4/4 seeds against 2/4: fewer than 5 a side");
}

TEST(Diverged, PlotsCountThemAndTheirFrontLeavesTheAttentionOut) {
  std::vector<Result> runs = a_shaky_and_a_steady_attention();
  const std::vector<Result> slow = some_diverged("slow", 4, 4, 850);
  runs.insert(runs.end(), slow.begin(), slow.end());
  for (Result& r : runs) {
    r.config["training"]["batch"] = 32;
    r.training.steps_per_second = r.attention.name == "slow" ? 5 : 10;
    r.training.peak_memory_mib = 100;
  }
  const auto tradeoffs = tradeoff_plots(runs);
  ASSERT_EQ(tradeoffs.size(), 2u);
  ASSERT_EQ(tradeoffs[0].series.size(), 4u);
  EXPECT_EQ(tradeoffs[0].series[0].name, "shaky (learned 2/4)");
  EXPECT_EQ(tradeoffs[0].series[0].attention, "shaky");
  EXPECT_EQ(tradeoffs[0].series[2].name, "steady");
  const PlotSeries& front = tradeoffs[0].series.back();
  EXPECT_EQ(front.name, "Pareto front");
  ASSERT_EQ(front.points.size(), 2u) << "steady and slow";
  EXPECT_NEAR(front.points[0][1], 40.15, 1e-9);
  const auto scores = score_plots(runs);
  ASSERT_EQ(scores.size(), 1u);
  EXPECT_EQ(scores[0].series[0].name, "shaky (learned 2/4)");
  EXPECT_EQ(scores[0].series[0].attention, "shaky");
}

// A second try of a seed that went well stands for it.
TEST(Diverged, ASeedWithAnotherRunThatIsOkIsNone) {
  std::vector<Result> runs = some_diverged("shaky", 2, 2, 900);
  runs.push_back(diverged_run("shaky", 1));
  runs.push_back(diverged_run("shaky", 2));
  runs.push_back(diverged_run("shaky", 2));
  const AccuracyCells cells = accuracy_cells(group_by_recipe(runs).at(0));
  const AccuracyCell& cell = cells.begin()->second;
  EXPECT_EQ(cell.diverged, 1u);
  EXPECT_EQ(cell.learned_count().text(), "2/3");
  EXPECT_EQ(cell.statuses(), "3 diverged");
}

TEST(Diverged, CostsAreMediansOfTheRunsThatAreOk) {
  const Table table = training_tables(a_shaky_and_a_steady_attention(1, 3))[0];
  EXPECT_EQ(table.rows[0], (std::vector<std::string>{"listops", "shaky", "10", "655360", "300.5",
                                                     "200000", "1000", "100", "diverged, ok"}));
  EXPECT_TRUE(contains(to_text(table), "the medians are those of such runs alone"));
  const Table none = training_tables(some_diverged("shaky", 0, 2, 900))[0];
  EXPECT_EQ(none.rows[0][2], "1e+03");
  EXPECT_EQ(none.rows[0][6], "40");
  EXPECT_EQ(none.rows[0][8], "diverged");
  EXPECT_FALSE(contains(to_text(none), "of such runs alone"));
}

}  // namespace
}  // namespace lra
