// Memory and time per length, and when the published rows may stand beside them.
#include "results/tables/profile_table.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "results/plots/plots.h"
#include "results/report/latex_tables.h"
#include "results/tables/profile_speed.h"
#include "tests/results/examples.h"

namespace lra {
namespace {

const std::vector<std::string>* row(const Table& table, const std::string& name) {
  for (const auto& cells : table.rows) {
    if (cells[0] == name) return &cells;
  }
  return nullptr;
}

std::vector<Table> of_title(const std::vector<Table>& tables, const std::string& begin) {
  std::vector<Table> found;
  for (const Table& table : tables) {
    if (table.title.rfind(begin, 0) == 0) found.push_back(table);
  }
  return found;
}

std::vector<Profile> table1_shaped() {
  Profile oom = example_profile("standard", 2048, 1, 1);
  oom.status = Status::oom;
  oom.reason = "needs 12 GiB";
  oom.time.reset();
  oom.memory.reset();
  return {example_profile("standard", 512, 10, 2), example_profile("standard", 1024, 40, 8), oom,
          example_profile("nystrom", 512, 5, 1), example_profile("nystrom", 1024, 10, 2)};
}

TEST(MemoryTimeTable, ShowsCellsStatusesAndGrowth) {
  const auto tables = memory_time_tables(table1_shaped());
  ASSERT_EQ(tables.size(), 1u);
  EXPECT_EQ(
      *row(tables[0], "standard"),
      (std::vector<std::string>{"standard", "10.0 / 2", "40.0 / 8", "oom", "N^2.00", "N^2.00"}));
  EXPECT_EQ(*row(tables[0], "nystrom"),
            (std::vector<std::string>{"nystrom", "5 / 1", "10.0 / 2", "–", "N^1.00", "N^1.00"}));
  EXPECT_TRUE(contains(to_text(tables[0]), "oom: standard at 2048: needs 12 GiB"));
}

TEST(MemoryTimeTable, SaysInHowManyProcessesACellWasMeasured) {
  std::vector<Profile> profiles = table1_shaped();
  for (const auto& [passes, text] :
       {std::pair{1, "1 interleaved process a cell"}, {3, "3 interleaved processes a cell"}}) {
    for (Profile& p : profiles) p.method = {{"passes", passes}, {"seconds", 1.0}};
    EXPECT_TRUE(contains(to_text(memory_time_tables(profiles)[0]), text));
  }
}

TEST(MemoryTimeTable, SaysHowManyProcessesThereWereNotHowManyWereAskedFor) {
  std::vector<Profile> profiles = table1_shaped();
  for (Profile& p : profiles) {
    p.method = {{"passes", 3}, {"seconds", 1.0}};
    if (p.time) p.time->passes.resize(3);
  }
  const auto text = [&] { return to_text(memory_time_tables(profiles)[0]); };
  EXPECT_FALSE(contains(text(), "of fewer")) << text();
  profiles[0].time->passes.resize(1);
  EXPECT_TRUE(contains(text(), "; 1 cell of fewer; intervals of one process are of it alone"))
      << text();
  for (Profile& p : profiles) {
    if (p.time) p.time->passes.resize(1);
  }
  EXPECT_TRUE(contains(text(), "; 4 cells of fewer; intervals of one process")) << text();
  EXPECT_FALSE(contains(text(), "of 100 cases")) << text();
}

TEST(MemoryTimeTable, SaysWhereCellsWereNotMeasuredAlike) {
  std::vector<Profile> profiles = table1_shaped();
  for (Profile& p : profiles) p.method = {{"passes", 3}, {"seconds", 1.0}};
  profiles[0].method["passes"] = 1;
  const std::string text = to_text(memory_time_tables(profiles)[0]);
  EXPECT_TRUE(contains(text, "not all measured alike: 1 interleaved process a cell")) << text;
  EXPECT_TRUE(contains(text, "; or 3 interleaved processes a cell")) << text;
  EXPECT_TRUE(contains(text, "intervals of one process are of it alone")) << text;
  EXPECT_TRUE(contains(text, "three processes hold the true median in 73 to 83 of 100")) << text;
}

TEST(MemoryTimeTable, MarksWhatIsReckonedFromNoisyTimes) {
  std::vector<Profile> profiles = table1_shaped();
  for (Profile& p : profiles) p.flops = 1e9;
  profiles.front().noisy = "others ran";
  const Table table = memory_time_tables(profiles)[0];
  EXPECT_EQ(row(table, "standard")->back(), "~N^2.00");
  EXPECT_EQ(row(table, "standard")->at(4), "N^2.00") << "of memory";
  EXPECT_EQ(row(table, "nystrom")->back(), "N^1.00");
  const Table rates = of_title(profile_tables(profiles, {}), "GFLOP, GFLOP/s")[0];
  EXPECT_TRUE(contains(row(rates, "standard")->at(1), ", ~")) << to_text(rates);
  EXPECT_FALSE(contains(row(rates, "standard")->at(2), "~")) << to_text(rates);
}

// Older records have some.
TEST(MemoryTimeTable, ShowsNoIntervalOfFewSamples) {
  Profile p = example_profile("standard", 512, 10, 2);
  p.time->ci95 = {1.9, 2.1};
  p.time->samples = std::vector<double>(5, 2.0);
  p.time->passes.clear();
  const auto time = [&p] {
    return of_title(profile_tables(std::vector<Profile>{p}, {}), "Time, ms")[0].rows[0][1];
  };
  EXPECT_EQ(time(), "2");
  p.time->samples.push_back(2.0);
  EXPECT_EQ(time(), "2 [1.9, 2.1]");
}

TEST(MemoryTimeTable, PublishedRowsStandBesideTheShapesOfTheirTable) {
  const Table table = memory_time_tables(table1_shaped())[0];
  const auto* published = row(table, "Nyströmformer-64 (published, GTX 1080 Ti)");
  ASSERT_NE(published, nullptr);
  EXPECT_EQ(published->at(1), "35 / 0.7");
  EXPECT_EQ(published->at(3), "118 / 2.7");
  EXPECT_TRUE(contains(to_text(table), "in MB / ms as printed"));
  EXPECT_TRUE(contains(
      to_text(table),
      "difference of machine: Xeon, 2 cores, 8 GiB here, GTX 1080 Ti in the published rows"));
}

TEST(MemoryTimeTable, PublishedRowsStandApartFromOtherShapes) {
  for (auto change :
       {+[](Profile& p) { p.heads = 2; }, +[](Profile& p) { p.head_dim = 32; },
        +[](Profile& p) { p.batch = 8; }, +[](Profile& p) { p.mode = ProfileMode::training; },
        +[](Profile& p) { p.scope = ProfileScope::model; },
        +[](Profile& p) { p.dtype = "bfloat16"; }}) {
    std::vector<Profile> profiles = table1_shaped();
    for (Profile& p : profiles) change(p);
    const auto tables = memory_time_tables(profiles);
    ASSERT_EQ(tables.size(), 2u);
    EXPECT_EQ(tables[0].rows.size(), 2u);
    EXPECT_TRUE(contains(
        to_text(tables[0]),
        "is not comparable and stands apart: it is for 12 heads of 64, batch 1, inference"));
    EXPECT_TRUE(contains(tables[1].title, "Published memory and time, not comparable"));
    EXPECT_EQ(tables[1].rows.size(), 5u);
    EXPECT_EQ(row(tables[1], "Transformer (published, GTX 1080 Ti)")->at(5), "10233 / 155.4");
  }
}

TEST(MemoryTimeTable, NeverMixesWhatWasMeasuredDifferently) {
  for (auto change :
       {+[](Profile& p) { p.scope = ProfileScope::module; },
        +[](Profile& p) { p.mode = ProfileMode::training; }, +[](Profile& p) { p.batch = 2; },
        +[](Profile& p) { p.heads = 2; }, +[](Profile& p) { p.head_dim = 8; },
        +[](Profile& p) { p.dtype = "bfloat16"; }, +[](Profile& p) { p.device = "cuda:0"; },
        +[](Profile& p) { p.threads = 1; }, +[](Profile& p) { p.machine.gpu = "H100"; }}) {
    std::vector<Profile> profiles{example_profile("standard", 512, 10, 2),
                                  example_profile("nystrom", 512, 5, 1)};
    change(profiles[1]);
    EXPECT_EQ(memory_time_tables(profiles, {}).size(), 2u);
    EXPECT_EQ(of_title(profile_tables(profiles, {}), "Peak memory").size(), 2u);
  }
}

TEST(MemoryTimeTable, TheLaterLineOfACellStands) {
  const auto tables = memory_time_tables(
      std::vector<Profile>{example_profile("a", 512, 1, 1), example_profile("a", 512, 3, 4)}, {});
  EXPECT_EQ(tables[0].rows[0][1], "3 / 4");
  EXPECT_TRUE(contains(to_text(tables[0]), "measured more than once shows its last line"));
}

TEST(MemoryTimeTable, OneLabelWithDifferentOptionsIsTwoRows) {
  std::vector<Profile> profiles{example_profile("a", 512, 1, 1), example_profile("a", 512, 3, 4)};
  profiles[1].attention.options["k"] = 2;
  EXPECT_EQ(memory_time_tables(profiles, {})[0].rows.size(), 2u);
}

TEST(MemoryTimeTable, HugeNumbersStayReadable) {
  const auto tables =
      memory_time_tables(std::vector<Profile>{example_profile("a", 512, 1e300, 0)}, {});
  EXPECT_EQ(tables[0].rows[0][1], "1.00e+300 / 0");
}

// Where LibTorch cannot tell what a GPU holds.
TEST(ProfileTables, ShowTimesOfCellsWithoutPeakMemory) {
  std::vector<Profile> profiles = table1_shaped();
  for (Profile& p : profiles) {
    if (p.memory) p.memory->peak.reset();
  }
  const Table both = memory_time_tables(profiles, {})[0];
  EXPECT_EQ(*row(both, "nystrom"),
            (std::vector<std::string>{"nystrom", "– / 1", "– / 2", "–", "–", "N^1.00"}));
  const auto tables = profile_tables(profiles);
  EXPECT_EQ(row(of_title(tables, "Peak memory").at(0), "nystrom")->at(1), "–");
  EXPECT_EQ(row(of_title(tables, "Time, ms").at(0), "nystrom")->at(1), "1 [0.99, 1.01] (0.5×)");
  const Table crossings = of_title(tables, "Length from which on").at(0);
  EXPECT_EQ(row(crossings, "nystrom")->at(1), "<= 512");
  EXPECT_EQ(row(crossings, "nystrom")->at(2), "–");
}

TEST(ProfileTables, ShowIntervalsAndTheRatioToTheBaseline) {
  const auto tables = profile_tables(table1_shaped());
  const Table memory = of_title(tables, "Peak memory").at(0);
  EXPECT_EQ(*row(memory, "nystrom"),
            (std::vector<std::string>{"nystrom", "5 (0.5×)", "10.0 (0.25×)", "–"}));
  const Table time = of_title(tables, "Time, ms").at(0);
  EXPECT_EQ(row(time, "standard")->at(1), "2 [1.98, 2.02]");
  EXPECT_EQ(row(time, "nystrom")->at(1), "1 [0.99, 1.01] (0.5×)");
  EXPECT_EQ(row(of_title(tables, "Time as a ratio").at(0), "nystrom")->at(2),
            "0.25 [0.249, 0.251]");
}

TEST(ProfileTables, ShowTheRatioToEachFormOfTheBaseline) {
  std::vector<Profile> profiles = table1_shaped();
  profiles.push_back(example_profile("standard[implementation=materialized]", 512, 50, 4));
  profiles.back().attention.name = "standard";
  const auto tables = profile_tables(profiles);
  EXPECT_EQ(row(of_title(tables, "Peak memory").at(0), "nystrom")->at(1), "5 (0.5×, 0.1×)");
}

TEST(ProfileTables, SayWhereTheBaselineIsOvertaken) {
  const std::vector<Profile> profiles{
      example_profile("standard", 512, 1, 1),    example_profile("standard", 2048, 16, 16),
      example_profile("nystrom", 512, 2, 2),     example_profile("nystrom", 2048, 8, 8),
      example_profile("linformer", 512, 0.5, 3), example_profile("linformer", 2048, 8, 17)};
  const Table table = of_title(profile_tables(profiles), "Length from which on").at(0);
  // Twice the baseline at 512, half of it at 2048: halfway between them on logarithmic axes.
  EXPECT_EQ(*row(table, "nystrom"), (std::vector<std::string>{"nystrom", "1024", "1024"}));
  EXPECT_EQ(*row(table, "linformer"), (std::vector<std::string>{"linformer", "> 2048", "<= 512"}));
}

TEST(ProfileTables, GiveTheRateAndItsPartOfTheRoofline) {
  Profile p = example_profile("nystrom", 512, 5, 2);
  p.flops = 1e9;
  p.least_bytes = 1e7;  // 100 operations a byte
  p.roofline = Roofline{.gflops = 1000, .gigabytes_per_second = 20};
  const auto cell = [&] {
    return of_title(profile_tables(std::vector<Profile>{p}), "GFLOP").at(0).rows[0][1];
  };
  EXPECT_EQ(cell(), "1, 500, 50 % (arithmetic)");
  p.least_bytes = 4e7;  // 25 a byte: 500 GFLOP/s at most
  EXPECT_EQ(cell(), "1, 500, 100 % (memory)");
  p.mode = ProfileMode::training;
  EXPECT_EQ(cell(), "3, 1500, 300 % (memory)") << "nothing is cut off at 100 %";
}

TEST(ProfileTables, SetPackagesBesideOurRowOfTheSameName) {
  std::vector<Profile> profiles{example_profile("nystrom", 512, 5, 1),
                                example_profile("nystrom", 512, 20, 4),
                                example_profile("linformer", 512, 20, 4)};
  profiles[1].package = profiles[2].package = "peer 1.0";
  const auto tables = profile_tables(profiles);
  const Table table = of_title(tables, "Here / the package").at(0);
  ASSERT_EQ(table.rows.size(), 1u) << "there is no linformer of ours";
  EXPECT_EQ(table.rows[0], (std::vector<std::string>{"nystrom (peer 1.0)", "0.25×, 0.25×"}));
  EXPECT_EQ(row(of_title(tables, "Peak memory").at(0), "nystrom (peer 1.0)")->at(1), "20.0");
}

// "a" does 4 times the samples of "standard" in twice its time and memory.
TEST(ProfileTables, CompareWhatASampleTakesWhereAPolicyChoseTheBatch) {
  Profile base = example_profile("standard", 512, 10, 2), other = example_profile("a", 512, 20, 4);
  base.batch = 2;
  other.batch = 8;
  base.batch_policy = other.batch_policy = "largest";
  std::vector<Profile> profiles = {base, other};
  const auto tables = profile_tables(profiles);
  const Table time = of_title(tables, "Time, ms").at(0);
  EXPECT_EQ(row(time, "a")->at(1), "4 [3.96, 4.04] (0.5×)");
  EXPECT_TRUE(contains(to_text(time), "ratio to standard at the same length per sample"));
  EXPECT_EQ(row(of_title(tables, "Peak memory").at(0), "a")->at(1), "20.0 (0.5×)");
  const Table ratio = of_title(tables, "Time per sample as a ratio to standard").at(0);
  EXPECT_TRUE(row(ratio, "a")->at(1).starts_with("0.5 [")) << row(ratio, "a")->at(1);
  const std::string latex = memory_time_latex(profiles);
  EXPECT_TRUE(contains(latex, R"(\textbf{4 (B=8)$\pm$0.04})")) << latex;
  ASSERT_EQ(speed_texts(profiles).size(), 1u);
  EXPECT_TRUE(contains(speed_texts(profiles)[0], "a is 2.00 ± ")) << speed_texts(profiles)[0];
  EXPECT_TRUE(speed_texts(profiles)[0].ends_with(" times as fast as standard per sample"));
  Profile longer = other;
  longer.length = 1024;
  longer.batch = 4;
  profiles.push_back(longer);
  EXPECT_EQ(row(memory_time_tables(profiles)[0], "a")->back(), "N^1.00") << "of time";
}

TEST(ProfileTables, RatiosOfFewSamplesHaveNoInterval) {
  std::vector<Profile> profiles = table1_shaped();
  for (Profile& p : profiles) {
    if (p.attention.label == "nystrom") p.time->samples = {p.time->median};
  }
  EXPECT_EQ(row(of_title(profile_tables(profiles), "Time as a ratio").at(0), "nystrom")->at(1),
            "0.5");
  ASSERT_FALSE(speed_texts(profiles).empty());
  EXPECT_EQ(speed_texts(profiles)[0],
            "N=512: nystrom is 2 times as fast as standard (of few samples)");
}

TEST(ProfileTables, MarkWhatFollowsFromNoisyTimes) {
  std::vector<Profile> profiles = table1_shaped();
  for (Profile& p : profiles) {
    if (p.attention.label == "standard") p.noisy = "others";
  }
  profiles.push_back(profiles[3]);
  profiles.back().package = "peer 1.0";
  profiles.back().noisy = "others";
  const auto tables = profile_tables(profiles);
  EXPECT_EQ(row(of_title(tables, "Time, ms").at(0), "nystrom")->at(1), "1 [0.99, 1.01] (~0.5×)");
  EXPECT_TRUE(
      row(of_title(tables, "Time as a ratio").at(0), "nystrom")->at(1).starts_with("~0.5 ["));
  EXPECT_EQ(row(of_title(tables, "Length from which").at(0), "nystrom")->at(1), "~<= 512");
  EXPECT_EQ(row(of_title(tables, "Length from which").at(0), "nystrom")->at(2), "<= 512");
  EXPECT_EQ(row(of_title(tables, "Here / the package").at(0), "nystrom (peer 1.0)")->at(1),
            "~1×, 1×");
}

TEST(ProfileTables, SayWhatWasNotMeasuredAlike) {
  std::vector<Profile> profiles = table1_shaped();
  for (Profile& p : profiles) {
    p.machine.huge_pages = "madvise";
    p.roofline = Roofline{.gflops = 155, .gigabytes_per_second = 12};
    p.flops = p.least_bytes = 1e6;
  }
  EXPECT_FALSE(contains(to_text(memory_time_tables(profiles)[0]), "measured alike"));
  profiles[0].machine.huge_pages = "never";
  profiles[0].roofline->gigabytes_per_second = 28;
  EXPECT_TRUE(contains(to_text(memory_time_tables(profiles)[0]),
                       "not all measured alike: huge pages madvise and never"));
  EXPECT_TRUE(contains(to_text(of_title(profile_tables(profiles), "GFLOP, ").at(0)),
                       "this machine: 155 GFLOP/s, 12.0 to 28.0 GB/s"));
}

TEST(ProfileTables, NothingDividesByATimeOfZero) {
  std::vector<Profile> profiles = table1_shaped();
  for (Profile& p : profiles) {
    if (p.time) p.time->median = 0;
    if (p.time) std::ranges::fill(p.time->samples, 0.0);
  }
  EXPECT_TRUE(speed_texts(profiles).empty());
  for (const Table& table : profile_tables(profiles)) {
    for (const auto& cells : table.rows) {
      for (const std::string& cell : cells)
        EXPECT_FALSE(contains(cell, "inf") || contains(cell, "nan")) << table.title << cell;
    }
  }
}

TEST(ProfileTables, MarkNoisyCellsAndSayWhy) {
  std::vector<Profile> profiles = table1_shaped();
  profiles[0].noisy = "others took 40 % of the processors";
  EXPECT_EQ(row(memory_time_tables(profiles)[0], "standard")->at(1), "10.0 / ~2");
  EXPECT_TRUE(contains(to_text(memory_time_tables(profiles)[0]),
                       "~ noisy: standard at 512: others took 40 % of the processors"));
  EXPECT_EQ(row(of_title(profile_tables(profiles), "Time, ms").at(0), "standard")->at(1),
            "~2 [1.98, 2.02]");
}

std::map<std::string, std::string> scripts_of(const std::vector<Plot>& plots) {
  std::map<std::string, std::string> scripts;
  for (const Plot& plot : plots) scripts[plot.name] = plot_script(plot);
  return scripts;
}

TEST(ProfilePlots, TellForeignSeriesApart) {
  std::vector<Profile> profiles = table1_shaped();
  for (const char* package : {"one 1.0", "two 1.0"}) {
    for (size_t i = 0; i < 2; ++i) {
      profiles.push_back(profiles[i]);
      profiles.back().package = package;
    }
  }
  std::set<std::string> looks;
  size_t foreign = 0;
  const std::string script = plot_script(profile_plots(profiles)[0]);
  std::istringstream lines(script.substr(0, script.find("set output\n")));
  for (std::string line; std::getline(lines, line);) {
    const size_t dash = line.find(" dashtype ");
    if (dash == std::string::npos) continue;
    ++foreign;
    looks.insert(line.substr(dash, line.find(" title") - dash));
  }
  EXPECT_GE(foreign, 6u) << script;
  EXPECT_EQ(looks.size(), foreign) << script;
}

TEST(ProfilePlots, TellFiftyAttentionsApartAndHaveRoomForTheirNames) {
  const auto script_of = [](int attentions) {
    std::vector<Profile> profiles;
    for (int i = 0; i < attentions; ++i) {
      for (const int length : {512, 1024})
        profiles.push_back(
            example_profile(fmt::format("an attention with a long name {:02}", i), length, 10, 2));
    }
    std::vector<Plot> plots = profile_plots(profiles, {});
    share_looks(plots);
    plots[0].width = 600;
    plots[0].height = 430;
    return plot_script(plots[0]);
  };
  const std::string script = script_of(50);
  std::set<std::string> looks;
  std::istringstream lines(script.substr(0, script.find("set output\n")));
  for (std::string line; std::getline(lines, line);) {
    const size_t look = line.find(" linecolor "), title = line.find(" title 'an attention");
    if (title != std::string::npos && look < title) looks.insert(line.substr(look, title - look));
  }
  EXPECT_EQ(looks.size(), 50u) << script;
  const auto height = [](const std::string& text) {
    const size_t comma = text.find(',', text.find("svg size "));
    return std::stoi(text.substr(comma + 1));
  };
  EXPECT_GT(height(script), height(script_of(8)) + 50);
  EXPECT_EQ(height(script_of(12)), height(script_of(8)));
}

TEST(ProfilePlots, HoldTheirDataAndThePublishedRows) {
  const auto plots = scripts_of(profile_plots(table1_shaped()));
  ASSERT_EQ(plots.size(), 2u);
  const std::string& time = plots.at("profile-1-time");
  EXPECT_TRUE(contains(time, "\n1024 8 7.92 8.08\n")) << time;
  EXPECT_TRUE(contains(time, "title 'Nyströmformer-64, published (GTX 1080 Ti)'")) << time;
  EXPECT_TRUE(contains(time, "\n512 0.7 0.7 0.7\n1024 1.3 1.3 1.3\n")) << time;
  EXPECT_FALSE(contains(time, "12.3")) << "8192 was not measured here";
  EXPECT_TRUE(contains(plots.at("profile-1-memory"), "\n1024 40 40 40\n"));
}

TEST(ProfilePlots, RingNoisyTimes) {
  std::vector<Profile> profiles = table1_shaped();
  for (const Plot& plot : profile_plots(profiles, {}))
    EXPECT_FALSE(contains(plot_script(plot), "noisy")) << plot.name;
  const auto noisy =
      std::ranges::find_if(profiles, [](const Profile& p) { return p.time && p.length == 1024; });
  ASSERT_NE(noisy, profiles.end());
  noisy->noisy = "others";
  const std::vector<Plot> plots = profile_plots(profiles, {});
  ASSERT_EQ(plots.size(), 2u);
  const PlotSeries& rings = plots[0].series.back();
  EXPECT_EQ(rings.name, "~ noisy");
  ASSERT_EQ(rings.points.size(), 1u);
  EXPECT_EQ(rings.points[0][0], 1024);
  EXPECT_EQ(rings.points[0][1], noisy->time->median);
  EXPECT_TRUE(contains(plot_script(plots[0]), "pointtype 6 title '~ noisy'"));
  EXPECT_TRUE(contains(alt_text(plots[0]), " ~ noisy: 1 of the points."));
  EXPECT_FALSE(contains(plot_script(plots[1]), "noisy")) << "memory is not";
}

TEST(ProfilePlots, HideNoIntervalBehindManyRings) {
  std::vector<Profile> profiles;
  for (int i = 0; i < 13; ++i) {
    for (const int length : {512, 1024}) {
      profiles.push_back(example_profile(fmt::format("a{}", i), length, 10, 2));
      profiles.back().noisy = "others";
    }
  }
  const Plot plot = profile_plots(profiles, {}).at(0);
  EXPECT_EQ(plot.series.back().points.size(), 26u);
  EXPECT_TRUE(contains(plot_script(plot), "yerrorlines"));
}

TEST(ProfilePlots, ALabelRunsNothing) {
  std::vector<Profile> profiles = table1_shaped();
  for (Profile& p : profiles) p.attention.label = p.machine.processor = "a'`touch x`\"\ntouch y";
  for (const auto& [name, script] : scripts_of(profile_plots(profiles, {}))) {
    EXPECT_TRUE(contains(script, "title 'a’`touch x`\" touch y")) << script;
    EXPECT_FALSE(contains(outside_quotes(script), "touch")) << script;
  }
}

TEST(ProfileTables, NothingGivesNothing) {
  EXPECT_TRUE(memory_time_tables({}).empty());
  EXPECT_TRUE(profile_tables({}).empty());
}

TEST(LongForm, HoldsEveryCellAndThePublishedOnes) {
  const Table table = memory_time_long(table1_shaped());
  EXPECT_EQ(table.rows.size(), 5u + 5 * 5 + 9 * 4);
  for (const auto& cells : table.rows) EXPECT_EQ(cells.size(), table.columns.size());
}

TEST(LongForm, TellsApartCellsOfOtherSettings) {
  Profile plain = example_profile("standard", 512, 1, 1), deep = plain;
  deep.sets = {"model.layers=4", "model.dropout=0"};
  const Table table = memory_time_long(std::vector{plain, deep}, {});
  const auto sets = std::ranges::find(table.columns, "sets", &Column::header);
  ASSERT_NE(sets, table.columns.end());
  const auto at = static_cast<size_t>(sets - table.columns.begin());
  EXPECT_EQ(table.rows[0][at], "");
  EXPECT_EQ(table.rows[1][at], "model.layers=4; model.dropout=0");
}

}  // namespace
}  // namespace lra
