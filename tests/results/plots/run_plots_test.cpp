// Learning curves and trade-offs: what is drawn of which runs.
#include "results/plots/plots.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <tuple>

#include "results/print/circles.h"

#include "tests/results/examples.h"

namespace lra {
namespace {

Result plotted_run(const std::string& attention, int64_t correct, double rate, double mib,
                   uint64_t seed = 0) {
  Result r = example_result(attention, seed, correct);
  r.training.steps_per_second = rate;
  r.training.peak_memory_mib = mib;
  return r;
}

void add_log(Result& r, int64_t lines, int64_t every, double loss) {
  auto log = std::make_shared<std::vector<LogLine>>();
  for (int64_t i = 1; i <= lines; ++i) {
    for (const bool train : {true, false})
      log->push_back({.step = every * i,
                      .split = train ? LogSplit::train : LogSplit::dev,
                      .loss = train ? loss : loss + 1,
                      .accuracy = 0.25,
                      .learning_rate = 0.001,
                      .seconds = 1});
  }
  r.log = log;
}

TEST(TradeoffPlots, ShowCostsAndTheirParetoFront) {
  // "b" is slower than "a" and worse; "c" is slowest and best. In memory "a" beats them all.
  const auto plots = tradeoff_plots(
      std::vector<Result>{plotted_run("a", 900, 10, 100), plotted_run("b", 800, 5, 200),
                          plotted_run("c", 1000, 4, 150), plotted_run("c", 1000, 4, 150, 1)});
  ASSERT_EQ(plots.size(), 2u);
  EXPECT_EQ(plots[0].name, "tradeoff-1-time");
  EXPECT_EQ(plots[1].name, "tradeoff-1-memory");
  ASSERT_EQ(plots[0].series.size(), 4u);
  EXPECT_EQ(plots[0].series[0].name, "a");
  EXPECT_EQ(plots[0].series[0].points[0][0], 100);  // ms a step
  EXPECT_EQ(plots[0].series[0].points[0][1], 45);   // per cent
  EXPECT_LT(plots[0].series[0].points[0][2], 43);
  const PlotSeries& front = plots[0].series.back();
  EXPECT_EQ(front.name, "Pareto front");
  ASSERT_EQ(front.points.size(), 2u);
  EXPECT_EQ(front.points[0][0], 100);
  EXPECT_EQ(front.points[1][0], 250);
  ASSERT_EQ(plots[1].series.back().name, "Pareto front");
  EXPECT_EQ(plots[1].series.back().points[1][0], 150);
  EXPECT_TRUE(contains(plot_script(plots[0]), "set xrange [0:275]"));
  EXPECT_FALSE(contains(plot_script(plots[0]), "logscale"));
}

TEST(TradeoffPlots, NeverMixMachinesOrRecipes) {
  Result other = plotted_run("b", 800, 5, 200);
  other.machine.cores = 64;
  EXPECT_TRUE(tradeoff_plots(std::vector<Result>{plotted_run("a", 900, 10, 100), other}).empty());
  other = plotted_run("b", 800, 5, 200);
  other.data.fingerprint = "b";
  EXPECT_TRUE(tradeoff_plots(std::vector<Result>{plotted_run("a", 900, 10, 100), other}).empty());
}

TEST(CurvePlots, AreMeansOverSeedsAtTheStepsOfAll) {
  Result one = plotted_run("a", 900, 1, 1), two = plotted_run("a", 900, 1, 1, 1);
  add_log(one, 3, 10, 2);
  add_log(two, 2, 10, 4);
  const auto plots = curve_plots(std::vector<Result>{one, two});
  ASSERT_EQ(plots.size(), 3u);
  EXPECT_EQ(plots[0].name, "curves-1-dev-accuracy");
  EXPECT_EQ(plots[1].name, "curves-1-dev-loss");
  EXPECT_EQ(plots[2].name, "curves-1-train-loss");
  ASSERT_EQ(plots[2].series.size(), 1u);
  ASSERT_EQ(plots[2].series[0].points.size(), 2u);
  EXPECT_EQ(plots[2].series[0].points[1][0], 20);
  EXPECT_EQ(plots[2].series[0].points[1][1], 3);
  EXPECT_EQ(plots[1].series[0].points[1][1], 4);
  EXPECT_EQ(plots[0].series[0].points[1][1], 25);
  EXPECT_TRUE(curve_plots(std::vector<Result>{plotted_run("a", 900, 1, 1)}).empty());
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

// Tay et al. 2021, Figure 3.
TEST(ScorePlots, ShowSpeedAndAccuracyAndMemoryAsAnArea) {
  std::vector<Result> results{plotted_run("a", 900, 10, 100), plotted_run("b", 800, 5, 400),
                              plotted_run("a", 1100, 2.5, 100), plotted_run("b", 1000, 5, 400),
                              plotted_run("c", 1000, 5, 400)};
  for (size_t i = 0; i < results.size(); ++i) {
    Result& r = results[i];
    r.config["training"]["batch"] = 32;
    if (i == 2 || i == 3) {
      r.task = "text";
      r.data.fingerprint = "t";
    }
  }
  const auto plots = score_plots(results);
  ASSERT_EQ(plots.size(), 1u);
  const Plot& plot = plots[0];
  EXPECT_EQ(plot.name, "score-1");
  ASSERT_EQ(plot.series.size(), 2u) << "c did not run on text";
  EXPECT_EQ(plot.series[0].name, "a");
  EXPECT_NEAR(plot.series[0].points[0][0], 160, 1e-9);  // the geometric mean of 320 and 80
  EXPECT_NEAR(plot.series[0].points[0][1], 50, 1e-9);
  EXPECT_LT(plot.series[0].points[0][2], 49);
  EXPECT_GT(plot.series[0].points[0][3], 51);
  EXPECT_DOUBLE_EQ(plot.series[1].radius, 2 * plot.series[0].radius);
  const std::string script = plot_script(plot);
  EXPECT_TRUE(contains(script, "set object 1 circle at screen ")) << script;
  EXPECT_TRUE(contains(script, "set output 'score-1.pdf'"));
  EXPECT_FALSE(contains(plot.title[0], "stand-in"));
  // Machines are never mixed, and a record that does not say its batch has no speed.
  results[0].machine.cores = 64;
  EXPECT_TRUE(score_plots(results).empty());
  results[0] = plotted_run("a", 900, 10, 100);
  EXPECT_TRUE(score_plots(results).empty());
}

// Only a budget's tasks differ in it within a recipe.
TEST(ScorePlots, NameStandInDataAmongReal) {
  std::vector<Result> results;
  for (const bool text : {false, true}) {
    for (const char* name : {"a", "b"}) {
      Result r = plotted_run(name, 900, 10, 100);
      r.config["training"]["batch"] = 32;
      r.budget = {.name = "quick", .tasks = "{}", .keys = {}};
      if (text) r.task = r.data.fingerprint = "text";
      results.push_back(r);
    }
  }
  ASSERT_EQ(score_plots(results).size(), 1u);
  EXPECT_FALSE(contains(score_plots(results)[0].title[0], "stand-in"));
  for (Result& r : results) r.data.synthetic = r.task == "text";
  EXPECT_TRUE(contains(score_plots(results)[0].title[0], "(stand-in data of text)"));
}

TEST(ScorePlots, NamesCoverNoCircleWhereThereIsRoom) {
  Plot plot{.name = "p",
            .log_x = false,
            .log_y = false,
            .x_range = PlotRange{0, 10},
            .width = 700,
            .height = 470,
            .y_range = PlotRange{0, 10}};
  for (const auto& [name, x, y] :
       {std::tuple{"left", 4.0, 5.0}, {"right", 5.2, 5.0}, {"edge", 9.8, 5.0}})
    plot.series.push_back(
        {.name = name, .points = {{x, y, y, y}}, .style = PlotStyle::circle, .radius = 0.05});
  const PlotBox box;
  const auto places = label_places(plot, box);
  ASSERT_EQ(places.size(), 3u);
  EXPECT_LT(places[0].x, on_picture(plot, box, 4, 5).x - 0.05);
  EXPECT_GT(places[1].x, on_picture(plot, box, 5.2, 5).x + 0.05);
  EXPECT_LT(places[2].x, on_picture(plot, box, 9.8, 5).x - 0.05);
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

// WCAG's contrast of a colour "#rrggbb" to white, or to black where it is inverted.
double contrast(const std::string& colour, bool inverted) {
  double luminance = 0;
  const double weights[] = {0.2126, 0.7152, 0.0722};
  for (size_t i = 0; i < 3; ++i) {
    double part = std::stoi(colour.substr(1 + 2 * i, 2), nullptr, 16) / 255.0;
    if (inverted) part = 1 - part;
    luminance += weights[i] * (part <= 0.03928 ? part / 12.92 : pow((part + 0.055) / 1.055, 2.4));
  }
  return inverted ? (luminance + 0.05) / 0.05 : 1.05 / (luminance + 0.05);
}

TEST(PlotScript, EveryColourIsSeenOnWhiteAndOnADarkPage) {
  const std::string script = plot_script({.name = "p"});
  std::set<std::string> colours;
  for (size_t at = 0; (at = script.find("linecolor rgb '#", at)) != std::string::npos; ++at) {
    const std::string colour = script.substr(at + 15, 7);
    colours.insert(colour);
    EXPECT_GE(contrast(colour, /*inverted=*/false), 3) << colour;
    EXPECT_GE(contrast(colour, /*inverted=*/true), 3) << colour;
  }
  EXPECT_EQ(colours.size(), 8u);
}

TEST(PlotScript, LeavesOutWhatCannotBeDrawn) {
  Plot plot{.name = "p", .x_title = "x", .y_title = "y"};
  plot.series = {{.name = "a", .points = {{1, 2, 0, 1e31}, {2, 1e31, 0, 0}, {3, NAN, 0, 0}}}};
  EXPECT_TRUE(contains(plot_script(plot), "$d0 << EOD\n1 2 0 2\nEOD\n"));
  plot.series[0].points.erase(plot.series[0].points.begin());
  const std::string none = plot_script(plot);
  EXPECT_TRUE(contains(none, "set output 'p.svg'\nplot 1/0 title 'nothing that can be drawn'"));
  EXPECT_TRUE(contains(none, "set yrange [1:2]"));
}

}  // namespace
}  // namespace lra
