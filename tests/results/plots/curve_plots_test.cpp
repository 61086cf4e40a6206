// Learning curves: what is drawn of which runs.
#include <gtest/gtest.h>

#include "results/plots/plots.h"
#include "tests/results/plots/plotted_runs.h"

namespace lra {
namespace {

TEST(CurvePlots, AreALineASeed) {
  Result one = plotted_run("a", 900, 1, 1), two = plotted_run("a", 900, 1, 1, 1),
         other = plotted_run("b", 900, 1, 1);
  add_log(one, 3, 10, 2);
  add_log(two, 2, 10, 4);
  add_log(other, 3, 10, 1);
  const auto plots = curve_plots(std::vector<Result>{one, two, other});
  ASSERT_EQ(plots.size(), 3u);
  EXPECT_EQ(plots[0].name, "curves-1-dev-accuracy");
  EXPECT_EQ(plots[1].name, "curves-1-dev-loss");
  EXPECT_EQ(plots[2].name, "curves-1-train-loss");
  const auto& series = plots[2].series;
  ASSERT_EQ(series.size(), 3u);
  ASSERT_EQ(series[0].points.size(), 3u);
  ASSERT_EQ(series[1].points.size(), 2u);
  EXPECT_EQ(series[0].points[1][1], 2);
  EXPECT_EQ(series[1].points[1][0], 20);
  EXPECT_EQ(series[1].points[1][1], 4);
  EXPECT_EQ(plots[1].series[1].points[1][1], 5);
  EXPECT_EQ(plots[0].series[0].points[1][1], 25);
  // One colour and one place in the key for both seeds.
  EXPECT_EQ(series[0].name, "a, seed 0");
  EXPECT_EQ(series[1].name, "a, seed 1");
  EXPECT_EQ(series[0].attention, "a");
  EXPECT_EQ(series[1].attention, "a");
  const std::string script = plot_script(plots[2]);
  EXPECT_TRUE(contains(script, "title 'a (2 seeds)'")) << script;
  EXPECT_TRUE(contains(script, "notitle")) << script;
  EXPECT_TRUE(contains(script, "title 'b'")) << script;
  EXPECT_FALSE(contains(script, "seed 1")) << script;
  EXPECT_TRUE(contains(alt_text(plots[2]), "a, seed 1: 4 at 10.0 to 4 at 20.0."));
  EXPECT_TRUE(curve_plots(std::vector<Result>{plotted_run("a", 900, 1, 1)}).empty());
}

TEST(CurvePlots, SayWhichNeverLeftTheMajorityClass) {
  std::vector<Result> results{plotted_run("a", 900, 1, 1), plotted_run("a", 900, 1, 1, 1)};
  for (Result& r : results) {
    add_log(r, 3, 10, 2);
    r.dev = r.test;
    r.data.dev_majority = 0.2;
    r.left_majority_at = 20;
  }
  const auto script = [&results] { return plot_script(curve_plots(results)[0]); };
  EXPECT_TRUE(contains(script(), "title 'a (2 seeds)'")) << script();
  results[1].left_majority_at.reset();
  EXPECT_TRUE(contains(script(), "title 'a (2 seeds, 1 never left majority)'")) << script();
  results.push_back(results[0]);
  EXPECT_TRUE(contains(script(), "title 'a (2 seeds, 3 runs, 1 never left majority)'")) << script();
  results.pop_back();
  results[1].path = "runs/mine/result.json";
  results.erase(results.begin());
  EXPECT_TRUE(contains(script(), "title 'a (mine, never left majority)'")) << script();
  // Of an older record, or of a run that was never evaluated, nothing is known.
  results[0].data.dev_majority.reset();
  EXPECT_FALSE(contains(script(), "never left")) << script();
  results[0].data.dev_majority = 0.2;
  results[0].dev.reset();
  EXPECT_FALSE(contains(script(), "never left")) << script();
}

TEST(CurvePlots, HoldDevAccuracyToWhatWasPublished) {
  Result r = plotted_run("nystrom", 900, 1, 1);
  add_log(r, 3, 10, 2);
  const auto plots = [&r] { return curve_plots(std::vector<Result>{r}); };
  ASSERT_EQ(plots().size(), 3u);
  ASSERT_EQ(plots()[0].series.size(), 2u);
  const PlotSeries line = plots()[0].series[1];
  EXPECT_EQ(line.name, "nystrom, published (test)");
  EXPECT_EQ(line.attention, "nystrom");
  EXPECT_TRUE(line.dotted);
  using Point = std::array<double, 4>;
  EXPECT_EQ(line.points, (std::vector<Point>{{0, 37.15, 37.15, 37.15}, {30, 37.15, 37.15, 37.15}}));
  EXPECT_EQ(plots()[1].series.size(), 1u) << "no loss was published";
  EXPECT_EQ(plots()[2].series.size(), 1u);
  // Of other options, settings or data the paper says nothing.
  r.attention.options["num_landmarks"] = 32;
  EXPECT_EQ(plots()[0].series.size(), 1u);
  r.attention.options["num_landmarks"] = 64;
  r.data.synthetic = true;
  EXPECT_EQ(plots()[0].series.size(), 1u);
  r.data.synthetic = false;
  EXPECT_EQ(plots()[0].series.size(), 2u);
  r.config["overridden"] = {"training.steps"};
  EXPECT_EQ(plots()[0].series.size(), 1u);
}

TEST(CurvePlots, OfManyRunsHaveFewerPointsEach) {
  std::vector<Result> results;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    results.push_back(plotted_run("a", 900, 1, 1, seed));
    add_log(results.back(), 120, 10, 2);
  }
  const auto plots = curve_plots(results);
  ASSERT_EQ(plots[2].series.size(), 100u);
  EXPECT_EQ(plots[2].series[99].points.size(), 60u);
  EXPECT_EQ(plots[2].series[99].points.back()[0], 1200);
}

TEST(CurvePlots, OfASingleRunNameTheFolderThatTheUserNamed) {
  Result r = plotted_run("a", 900, 1, 1);
  add_log(r, 3, 10, 2);
  const auto named = [&r](const std::string& path) {
    r.path = path;
    return curve_plots(std::vector<Result>{r})[0].series[0];
  };
  EXPECT_EQ(named("runs/high-rate/result.json").name, "a (high-rate)");
  EXPECT_EQ(named("runs/high-rate/result.json").attention, "a");
  EXPECT_EQ(named("runs/a/result.json").name, "a");
  EXPECT_EQ(named("runs/listops/a/seed0/result.json").name, "a");
}

TEST(CurvePlots, LongLogsAreMeansOfNeighbours) {
  Result r = plotted_run("a", 900, 1, 1);
  add_log(r, 600, 10, 2);
  const auto plots = curve_plots(std::vector<Result>{r});
  const auto& points = plots[2].series[0].points;
  EXPECT_EQ(points.size(), 150u);
  EXPECT_EQ(points[0][0], 40);
  EXPECT_EQ(points.back()[0], 6000);
}

TEST(CurvePlots, LongRecipesTakeSeveralLines) {
  Result r = plotted_run("a", 900, 1, 1);
  add_log(r, 3, 10, 2);
  r.config["overridden"] = json::array();
  for (int i = 0; i < 12; ++i)
    r.config["overridden"].push_back(fmt::format("training.setting{}=12345", i));
  const auto plots = curve_plots(std::vector<Result>{r});
  EXPECT_GT(plots[0].title.size(), 4u);
  for (const std::string& line : plots[0].title) EXPECT_LE(line.size(), 84u) << line;
}

// A line through one point is none.
TEST(CurvePlots, AnEvaluationThatStandsAloneIsAPoint) {
  Result r = plotted_run("a", 900, 1, 1);
  add_log(r, 1, 10, 2);
  const auto plots = curve_plots(std::vector<Result>{r});
  ASSERT_FALSE(plots.empty());
  ASSERT_EQ(plots[0].series.front().points.size(), 1u);
  EXPECT_TRUE(contains(plot_script(plots[0]), "$d0 using 1:2 with points"))
      << plot_script(plots[0]);
}

TEST(RunPlots, AreSmallAndOfOneRun) {
  Result r = plotted_run("a", 900, 1, 1);
  EXPECT_TRUE(run_plots(r, "x").empty());
  add_log(r, 3, 10, 2);
  const auto plots = run_plots(r, "x");
  ASSERT_EQ(plots.size(), 2u);
  EXPECT_EQ(plots[0].name, "x-loss");
  EXPECT_EQ(plots[1].name, "x-accuracy");
  EXPECT_EQ(plots[0].series[0].name, "training");
  EXPECT_EQ(plots[0].series[1].points[2][1], 3);
  EXPECT_FALSE(contains(plot_script(plots[0]), "pdf"));
}

}  // namespace
}  // namespace lra
