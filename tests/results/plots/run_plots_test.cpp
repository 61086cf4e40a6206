// Trade-offs and scores, and scripts of plots: what is drawn of which runs.
#include "results/plots/plots.h"

#include <fmt/format.h>

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <tuple>

#include "results/print/circles.h"

#include "tests/results/plots/plotted_runs.h"

namespace lra {
namespace {

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

TEST(TradeoffPlots, TakeTheMedianRateAsTablesDo) {
  const auto plots = tradeoff_plots(
      std::vector<Result>{plotted_run("a", 900, 10, 100), plotted_run("a", 900, 30, 100, 1),
                          plotted_run("b", 800, 17, 100), plotted_run("b", 800, 17, 100, 1)});
  EXPECT_EQ(plots[0].series[0].points[0][0], 50) << "ms a step, at 20 steps a second";
  EXPECT_GT(plots[0].series[1].points[0][0], 50);
}

TEST(TradeoffPlots, RingNoisyTimes) {
  Result noisy = plotted_run("b", 800, 5, 200);
  noisy.training.others = 0.2;
  const auto plots = tradeoff_plots(std::vector<Result>{plotted_run("a", 900, 10, 100), noisy});
  ASSERT_EQ(plots.size(), 2u);
  const auto rings = std::ranges::find(plots[0].series, "~ noisy", &PlotSeries::name);
  ASSERT_NE(rings, plots[0].series.end());
  ASSERT_EQ(rings->points.size(), 1u);
  EXPECT_EQ(rings->points[0][0], 200) << "ms a step";
  EXPECT_FALSE(contains(plot_script(plots[1]), "noisy")) << "memory is not";
}

TEST(TradeoffPlots, NeverMixMachinesOrRecipes) {
  Result other = plotted_run("b", 800, 5, 200);
  other.machine.cores = 64;
  EXPECT_TRUE(tradeoff_plots(std::vector<Result>{plotted_run("a", 900, 10, 100), other}).empty());
  other = plotted_run("b", 800, 5, 200);
  other.data.fingerprint = "b";
  EXPECT_TRUE(tradeoff_plots(std::vector<Result>{plotted_run("a", 900, 10, 100), other}).empty());
}

// A mean of one that learned and one that did not is a curve of neither.
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
  EXPECT_EQ(plot.title.back(), "left out: c (not all tasks)");
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
  EXPECT_FALSE(contains(script, "noisy"));
  results[2].training.others = 0.2;
  const Plot noisy = score_plots(results).at(0);
  EXPECT_EQ(noisy.series[0].name, "~a");
  EXPECT_EQ(noisy.series[1].name, "b");
  EXPECT_EQ(noisy.x_title, "training speed, samples/s (~: noisy)");
  results[2].training.others.reset();
  results.push_back(plotted_run("c", 1000, 5, 400));
  results.back().task = "text";
  results.back().data.fingerprint = "t";
  results.back().config["training"]["batch"] = 32;
  results.back().training.peak_memory_mib.reset();
  EXPECT_EQ(score_plots(results).at(0).title.back(), "left out: c (no peak memory on record)");
  results.back().training.peak_memory_mib = 400;
  results.back().machine.processor = std::string(100, 'x') + " and more words";
  for (Result& r : results) r.machine.processor = results.back().machine.processor;
  const std::vector<std::string> lines = score_plots(results).at(0).title;
  for (const std::string& line : lines) EXPECT_LE(line.size(), 101u) << line;
  results.back().machine.processor = "EPYC";
  EXPECT_EQ(score_plots(results).at(0).title.back(), "left out: c (not all tasks on one machine)");
  results.pop_back();
  for (Result& r : results) r.machine.processor = "Xeon";
  // What is scored on another machine is named above each picture.
  std::vector<Result> apart;
  for (const char* processor : {"EPYC", "Xeon"}) {
    for (Result r : results) {
      r.machine.processor = processor;
      if (processor[0] == 'E') r.attention.name = r.attention.label = "old " + r.attention.name;
      apart.push_back(r);
    }
  }
  const auto both = score_plots(apart);
  ASSERT_EQ(both.size(), 2u);
  for (const auto& [drawn, other] : {std::pair{both[0], "a (on another machine), b (on another"},
                                     {both[1], "old a (on another machine), old b (on another"}}) {
    std::string title;
    for (const std::string& line : drawn.title) title += line + " ";
    EXPECT_TRUE(contains(title, other)) << title;
  }
  // Machines are never mixed, and a record that does not say its batch has no speed.
  results[0].machine.cores = 64;
  EXPECT_TRUE(score_plots(results).empty());
  results[0] = plotted_run("a", 900, 10, 100);
  const auto plots_by_task = score_plots(results);
  ASSERT_EQ(plots_by_task.size(), 2u) << "of listops without it, and of text";
  for (const Plot& rest : plots_by_task) {
    for (const auto& series : rest.series)
      EXPECT_TRUE(series.name != "a" || std::abs(series.points[0][0] - 80) < 1e-9) << "of text";
  }
}

// Only a budget's tasks differ in it within a recipe.
TEST(ScorePlots, NameStandInDataAmongReal) {
  std::vector<Result> results;
  for (const bool text : {false, true}) {
    for (const char* name : {"a", "b"}) {
      Result r = plotted_run(name, 900, 10, 100);
      r.config["training"]["batch"] = 32;
      r.budget = {.name = "quick", .tasks = "{}"};
      if (text) r.task = r.data.fingerprint = "text";
      results.push_back(r);
    }
  }
  ASSERT_EQ(score_plots(results).size(), 1u);
  EXPECT_FALSE(contains(score_plots(results)[0].title[1], "synthetic"));
  for (Result& r : results) r.data.synthetic = r.task == "text";
  EXPECT_TRUE(contains(score_plots(results)[0].title[1], ", synthetic data of text"));
}

// What is drawn of images that are not the public ones says so, and what is said of it in words.
TEST(ScorePlots, TradeoffsAndCurvesNameAVariantOfTheData) {
  std::vector<Result> results{plotted_run("a", 900, 10, 100), plotted_run("b", 800, 5, 200)};
  for (Result& r : results) {
    r.task = "image";
    r.config["training"]["batch"] = 32;
    add_log(r, 3, 10, 2);
  }
  const auto all_plots = [&results] {
    std::vector<Plot> plots = score_plots(results);
    for (const auto& some : {tradeoff_plots(results), curve_plots(results)})
      plots.insert(plots.end(), some.begin(), some.end());
    return plots;
  };
  const auto named = [](const Plot& plot, const std::string& what) {
    std::string title;
    for (const std::string& line : plot.title) title += line + "\n";
    return contains(title, what) && contains(alt_text(plot), what);
  };
  EXPECT_EQ(all_plots().size(), 6u);
  for (const Plot& plot : all_plots()) EXPECT_FALSE(named(plot, "CIFAR-10")) << plot.name;
  for (Result& r : results) r.data.source = "CIFAR-10 (JPEG), from cifar10_jpeg.tar.xz";
  for (const Plot& plot : all_plots()) EXPECT_TRUE(named(plot, "CIFAR-10 (JPEG)")) << plot.name;
  EXPECT_TRUE(contains(curve_plots(results)[0].title[1], ", float32, CIFAR-10 (JPEG), data image"));
  EXPECT_TRUE(contains(alt_text(run_plots(results[0], "x")[0]), "CIFAR-10 (JPEG)"));
  for (Result& r : results) {
    r.data.source = "generated";
    r.data.synthetic = true;
  }
  for (const Plot& plot : all_plots()) EXPECT_TRUE(named(plot, "synthetic data")) << plot.name;
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

// Lines of the title stand above the frame, however many they are.
TEST(ScorePlots, NoLineOfTheTitleIsOnTheFrame) {
  Plot plot{.name = "p", .x_range = PlotRange{1, 10}, .height = 470, .y_range = PlotRange{1, 10}};
  plot.series = {
      {.name = "a", .points = {{2, 2, 2, 2}}, .style = PlotStyle::circle, .radius = 0.05}};
  for (const size_t lines : {1, 4, 5, 7}) {
    plot.title.assign(lines, "line");
    const std::string script = plot_script(plot);
    const auto number_after = [&script](const std::string& words) {
      const size_t at = script.find(words);
      EXPECT_NE(at, std::string::npos) << words;
      return std::stod(script.substr(at + words.size()));
    };
    const double half_line = 8.0 / 470;
    EXPECT_GT(number_after(fmt::format("label {} 'line' at screen 0.5, screen ", lines)),
              number_after("set tmargin at screen ") + half_line)
        << lines;
  }
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

// gnuplot leaves out the whole key where one name has no room.
TEST(PlotScript, NamesInAKeyHaveRoom) {
  Plot plot{.name = "p", .x_title = "x", .y_title = "y"};
  plot.width = 560;
  plot.series = {{.name = std::string(50, 'a'), .points = {{1, 2, 2, 2}, {2, 3, 3, 3}}}};
  EXPECT_TRUE(contains(plot_script(plot), "set key below height 1 noenhanced font ',11'"));
  plot.series[0].name = std::string(75, 'a');
  EXPECT_TRUE(contains(plot_script(plot), "set key below height 1 noenhanced font ',8'"));
  EXPECT_TRUE(contains(plot_script(plot), "title '" + plot.series[0].name + "'"));
  plot.series[0].name = std::string(60, 'a') + std::string(60, 'b');
  EXPECT_TRUE(contains(plot_script(plot), "aaa…bbb")) << plot_script(plot);
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
