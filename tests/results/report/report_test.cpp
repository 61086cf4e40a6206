// The whole report.
#include "results/report/report.h"

#include <gtest/gtest.h>

#include <sstream>

#include "results/report/latex_tables.h"
#include "results/store/store.h"
#include "results/tables/summary_table.h"
#include "tests/results/examples.h"

namespace lra {
namespace {

std::vector<std::string> names(const std::map<std::string, std::string>& files) {
  std::vector<std::string> result;
  for (const auto& [name, content] : files) result.push_back(name);
  return result;
}

TEST(Report, HoldsEveryFileThatItsRecordsAllow) {
  Records records;
  records.results = {example_result()};
  EXPECT_EQ(names(make_report(records)),
            (std::vector<std::string>{"accuracy.csv", "accuracy.tex", "differences.tex",
                                      "report.md", "runs.csv", "training.csv", "training.tex"}));
  records.results.clear();
  records.profiles = {example_profile("standard", 512, 1, 1)};
  EXPECT_EQ(names(make_report(records)),
            (std::vector<std::string>{"memory_time.csv", "memory_time.json", "memory_time.tex",
                                      "memory_time_detail.tex", "report.md"}));
}

TEST(Report, ListsTheFilesThatCouldNotBeUsed) {
  Records records;
  records.results = {example_result()};
  records.bad = {{"a/result.json", "cut | short"}};
  EXPECT_TRUE(contains(make_report(records)["report.md"], "| a/result.json | cut \\| short |"));
  records.bad[0].path = "a\x1b[2J";
  EXPECT_EQ(bad_files_text(records), "a?[2J: cut | short\n");
}

TEST(Report, SaysHowTheDataWereDividedAndWhatToKnowOfThem) {
  Result text = example_result();
  text.task = "text";
  text.data.split = "dev of train, copies on one side";
  text.data.notes = {"test reviews that stand word for word in train or dev: 123"};
  Records records;
  records.results = {example_result(), parse_result(make_result(text))};
  auto files = make_report(records);
  EXPECT_TRUE(contains(files["report.md"], "| dev of train, copies on one side |"));
  EXPECT_TRUE(contains(files["report.md"],
                       "text: test reviews that stand word for word in train or dev: 123"));
  EXPECT_FALSE(make_result(example_result())["data"].contains("split"));
  EXPECT_FALSE(make_result(example_result())["data"].contains("notes"));
}

TEST(Report, ListsWhatKindOfDataThereAre) {
  Records records;
  records.results = {example_result()};
  EXPECT_TRUE(contains(make_report(records)["report.md"], "| listops | real | generated |"));
  records.results[0].data.source = "CIFAR-10 (JPEG), from x.tar";
  EXPECT_TRUE(contains(make_report(records)["report.md"],
                       "| listops | CIFAR-10 (JPEG) | CIFAR-10 (JPEG), from x.tar |"));
}

TEST(Report, PublishedNumbersOfOtherRegimesHaveASectionOfTheirOwn) {
  Records records;
  records.results = {example_result()};
  const std::string report = make_report(records)["report.md"];
  const size_t accuracy = report.find("## Accuracy"),
               other = report.find("## Published under other regimes"),
               cost = report.find("## Training cost");
  ASSERT_NE(other, std::string::npos);
  EXPECT_LT(accuracy, other);
  EXPECT_LT(other, cost);
  const size_t s5 = report.find("| S5 |");
  EXPECT_GT(s5, other);
  EXPECT_LT(s5, cost);
}

TEST(Report, TheSummaryIsTheTwoTables) {
  Records records;
  records.results = {example_result()};
  records.profiles = {example_profile("standard", 512, 1, 1)};
  const std::string text = summary_text(records);
  const size_t accuracy = text.find("Accuracy: protocol lra-strict");
  const size_t cost =
      text.find("Memory and time per length: core, inference, batch 1, 12 heads of 64");
  ASSERT_NE(accuracy, std::string::npos);
  ASSERT_NE(cost, std::string::npos);
  EXPECT_LT(accuracy, cost);
  EXPECT_FALSE(contains(text, "Training cost"));
}

TEST(Report, ATableForAPaperHoldsTheDetailsAsComments) {
  Result nystrom = example_result("nystrom"), standard = example_result("standard", 0, 700);
  standard.attention.label = "standard_注意";
  const std::string text = accuracy_latex(std::vector<Result>{nystrom, standard});
  EXPECT_TRUE(contains(text, "\\label{tab:lra-accuracy}")) << text;
  EXPECT_TRUE(
      contains(text, "nystrom & \\textbf{37.05{\\tiny$\\pm$2.1}} \\\\\n-- published & 37.15 "))
      << text;
  EXPECT_TRUE(contains(text, "standard\\_\\lraunicode{6CE8}{注}")) << text;
  EXPECT_TRUE(contains(text, "% nystrom: listops \\% 37.05 {[}34.96, 39.19{]}\n")) << text;
  EXPECT_TRUE(contains(text, "% trained on: Xeon, 2 cores, 8 GiB\n")) << text;
  const std::string cost = memory_time_latex(
      std::vector<Profile>{example_profile("a", 512, 3, 2), example_profile("b", 512, 4, 1)});
  EXPECT_TRUE(contains(cost, "\\label{tab:lra-memory}")) << cost;
  EXPECT_TRUE(contains(cost, "a & \\textbf{3} \\\\\nb & 4 \\\\\n")) << cost;
  EXPECT_TRUE(contains(cost, "a & 2{\\tiny$\\pm$0.02} \\\\\nb & \\textbf{1{\\tiny$\\pm$0.01}}"))
      << cost;
  EXPECT_TRUE(contains(cost, "% a cell is MiB / ms")) << cost;
}

TEST(Report, ATableOfTimesForAPaperMarksWhatIsNoisy) {
  std::vector<Profile> profiles{example_profile("a", 512, 3, 900),
                                example_profile("b", 512, 4, 1200),
                                example_profile("c", 512, 5, 1500)};
  profiles[0].noisy = "the interval is ±39 %";
  profiles[1].time->ci95 = stats::Interval{1150, 1312.3};
  const std::string text = memory_time_latex(profiles, {});
  const size_t time = text.find("\\caption{Time in ms");
  ASSERT_NE(time, std::string::npos);
  const std::string memory = text.substr(0, time), times = text.substr(time);
  EXPECT_TRUE(contains(times, "a & \\textasciitilde{}900{\\tiny$\\pm$9} \\\\\n")) << times;
  EXPECT_TRUE(contains(times, "b & \\textbf{1200{\\tiny$\\pm$110}} \\\\\n")) << times;
  EXPECT_TRUE(contains(times,
                       "Bold: the lowest that is not noisy. \\textasciitilde{}: noisy, and maybe "
                       "off by more than its interval.}"))
      << times;
  EXPECT_FALSE(contains(text, "e+0")) << text;
  profiles[1].time->ci95 = stats::Interval{1150, 1299.7};
  EXPECT_TRUE(contains(memory_time_latex(profiles, {}), "1200{\\tiny$\\pm$100}"));
  // A time that is noisy leaves the memory as it is.
  EXPECT_TRUE(contains(memory, "a & \\textbf{3} \\\\\n")) << memory;
  EXPECT_TRUE(contains(memory, "Bold: the lowest.}")) << memory;
  EXPECT_TRUE(contains(memory, "noisy: a at 512: the interval is ")) << memory;
}

// Two words of a cell in two lines would be read as two cells.
TEST(Report, TheSummaryBreaksNoCellOfATableInEightyColumns) {
  Records records;
  for (const char* task : {"listops", "text", "retrieval", "image", "pathfinder"}) {
    for (const char* name : {"linformer", "performer"}) {
      records.results.push_back(example_result(name));
      records.results.back().task = task;
      records.results.back().data.fingerprint = task;
    }
  }
  for (const int64_t length : {512, 1024, 2048, 4096, 8192})
    records.profiles.push_back(example_profile("standard", length, 1e-2 * length, 1e-1 * length));
  const std::string text = summary_text(records, 80), wide = summary_text(records);
  EXPECT_TRUE(contains(text, "\nlinformer  "));
  EXPECT_TRUE(contains(text, "37.05±2.1  37.05±2.1")) << text;
  EXPECT_TRUE(contains(text, "±: the longer side of the 95 % interval"));
  EXPECT_TRUE(contains(text, "5.12 / 51.2  10.2 / 102  20.5 / 205  41.0 / 410  81.9 / 819\n"))
      << text;
  EXPECT_FALSE(contains(text, "N^1"));
  EXPECT_FALSE(contains(text, "GTX"));
  EXPECT_TRUE(contains(wide, "37.05 [34.96, 39.19]"));
  EXPECT_TRUE(contains(wide, "GTX"));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(display_width(line), 80u) << line;
}

TEST(Report, TheSummarySaysWhoIsHighestOfARecipeAndWhatItCostsOnAMachine) {
  Records records;
  for (const char* name : {"a", "b", "c", "d"}) {
    Result r = example_result(name, 0, name == std::string("c") ? 900 : 800);
    r.config["training"]["batch"] = 32;
    r.training.steps_per_second = name == std::string("b") ? 20.0 : 10.0;
    if (*name >= 'c') r.machine.cores = 64;
    records.results.push_back(r);
  }
  Result slow = example_result("standard", 0, 300);
  slow.config["training"]["batch"] = 32;
  slow.status = Status::oom;
  slow.test.reset();
  records.results.push_back(slow);
  records.results[0].test->correct = 340;
  records.results[0].test->accuracy = 0.17;
  using Row = std::vector<std::string>;
  EXPECT_EQ(summary_table(records).rows,
            (std::vector<Row>{
                {"records", "5 runs: 5 attentions, 1 task"},
                {"recipe", "protocol lra-strict, float32"},
                {"not ok", "1 oom"},
                {"not learned", "listops: a"},
                {"highest accuracy", "c: 45.00 % [42.83, 47.19]"},
                {"fastest training", "b: 640 samples/s, on Xeon, 2 cores, 8 GiB, 1 thread"},
                {"least memory",
                 "a, b (within 1 %): 300 MiB in training, on Xeon, 2 cores, 8 GiB, 1 thread"},
                {"fastest training",
                 "c, d (within 1 %): 320 samples/s, on Xeon, 64 cores, 8 GiB, 1 thread"},
                {"least memory",
                 "c, d (within 1 %): 300 MiB in training, on Xeon, 64 cores, 8 GiB, 1 thread"}}));
  records.results[3].training.steps_per_second = 9.8;  // 2 % less
  EXPECT_EQ(summary_table(records).rows.at(7).at(1),
            "c: 320 samples/s, on Xeon, 64 cores, 8 GiB, 1 thread");
  records.results[0].training.others = 0.4;
  const Table noisy = summary_table(records);
  EXPECT_EQ(noisy.rows.at(5).at(1),
            "b: ~640 samples/s, on Xeon, 2 cores, 8 GiB, 1 thread (~: others took processor time "
            "while some "
            "of them trained)");
  EXPECT_EQ(noisy.rows.at(7).at(1), "c: 320 samples/s, on Xeon, 64 cores, 8 GiB, 1 thread");
}

Result run_of_file(const std::string& file, char hash, uint64_t seed) {
  Result r = example_result("python:" + file + ":A", seed);
  r.attention.options = {{"file", file}, {"class", "A"}, {"sha256", std::string(64, hash)}};
  return r;
}

Profile cell_of_file(const std::string& file, char hash) {
  Profile p = example_profile("python:" + file + ":A", 512, 1, 1);
  p.attention.options = run_of_file(file, hash, 0).attention.options;
  return p;
}

TEST(Report, TheSummaryCountsTheRowsOfItsTables) {
  Records records;
  const auto counted = [&records] { return summary_table(records).rows.at(0).at(1); };
  // One file by three names, then another of one of these.
  records.results = {example_result(), run_of_file("my.py", '1', 0),
                     run_of_file("other.py", '1', 1), run_of_file("/home/me/my.py", '1', 2)};
  EXPECT_EQ(counted(), "4 runs: 2 attentions, 1 task");
  records.results[2] = run_of_file("my.py", '2', 0);
  EXPECT_EQ(counted(), "4 runs: 3 attentions, 1 task");
  // In tables of their own, where no row has to tell them apart.
  records.results[2].protocol = "tay2020";
  EXPECT_EQ(counted(), "4 runs: 3 attentions, 1 task");
  records.results[2] = run_of_file("other.py", '1', 0);
  records.results[2].protocol = "tay2020";
  EXPECT_EQ(counted(), "4 runs: 2 attentions, 1 task");
  for (Result& r : records.results) r = example_result();
  EXPECT_EQ(counted(), "4 runs: 1 attention, 1 task");
}

TEST(Report, OneFileHasOneNameInAllTables) {
  const std::string kept = "runs/m/runs/listops/python_my.py_A/seed0/attention.py";
  Records records;
  records.results = {run_of_file("/home/me/attentions/of/mine/my.py", '1', 0),
                     run_of_file("/home/me/attentions/of/mine/a.py", '1', 1)};
  records.profiles = {cell_of_file(kept, '1'), cell_of_file("b.py", '1'),
                      cell_of_file("./c.py", '2'), cell_of_file("c.py", '2')};
  records.where = {example_where()};
  records.where[0].attention = cell_of_file(kept, '1').attention;
  records.fidelity.emplace_back().attention = records.where[0].attention;
  name_files_alike(records);
  const std::string row = "python:/home/me/attentions/of/mine/a.py:A";
  EXPECT_EQ(accuracy_tables(records.results).at(0).rows.at(0).at(0), row);
  for (const AttentionRecord& attention :
       {records.profiles[0].attention, records.profiles[1].attention, records.where[0].attention,
        records.fidelity[0].attention}) {
    EXPECT_EQ(attention.label, row);
    EXPECT_EQ(attention.options["file"], "/home/me/attentions/of/mine/a.py");
  }
  EXPECT_EQ(records.profiles[2].attention.label, "python:c.py:A") << "of no run";
  EXPECT_EQ(records.results[0].attention.label, "python:/home/me/attentions/of/mine/my.py:A")
      << "as the user named it";
  const Table table = memory_time_tables(records.profiles, {}).at(0);
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_EQ(table.rows[0][0], row);
  // Two versions of it.
  records.profiles[1].attention.options["sha256"] = std::string(64, '2');
  const std::string text = memory_time_latex(records.profiles, {});
  EXPECT_TRUE(contains(text, "sha256=22222222")) << text;
  EXPECT_FALSE(contains(text, std::string(9, '2'))) << text;
}

// Their speeds are of a share of it, so that the machine is named though there is no other.
TEST(Report, ASummarySaysWhereRunsSharedTheirGpu) {
  Records records;
  for (const char* name : {"a", "b"}) {
    Result r = example_result(name);
    r.config["training"]["batch"] = 32;
    r.training.sharing = 4;
    records.results.push_back(r);
  }
  std::string text;
  for (const auto& row : summary_table(records).rows) text += row[1] + "\n";
  EXPECT_TRUE(
      contains(text, " samples/s, on Xeon, 2 cores, 8 GiB, 1 thread, one of 4 runs at a time\n"))
      << text;
}

TEST(Report, OneAttentionHasOneColourInAllPlots) {
  Records records;
  Result a = example_result("a"), b = example_result("b"), alone = example_result("b");
  for (Result* r : {&a, &b, &alone}) r->config["training"]["batch"] = 32;
  alone.task = "text";
  alone.data.fingerprint = "c";
  alone.log = std::make_shared<std::vector<LogLine>>(
      std::vector<LogLine>{{.step = 1, .split = LogSplit::dev, .loss = 1, .accuracy = 0.5}});
  records.results = {a, b, alone};
  records.profiles = {example_profile("b", 512, 1, 1), example_profile("b", 1024, 2, 2)};
  size_t series_of_b = 0;
  for (const Plot& plot : report_plots(records)) {
    for (const PlotSeries& series : plot.series) {
      if (series.name != "b") continue;
      ++series_of_b;
      EXPECT_EQ(series.look, 1u) << plot.name;
    }
    if (plot.name == "curves-1-dev-loss") {
      EXPECT_TRUE(contains(plot_script(plot), "linecolor 2 title 'b'")) << plot_script(plot);
    }
  }
  EXPECT_EQ(series_of_b, 6u);
}

TEST(Report, HostileRecordsStayText) {
  const std::string hostile = "</td><script>x</script>|\n\x1b[31m\\input{/etc/passwd},=1+1\"";
  Result r = example_result();
  r.task = r.protocol = r.attention.label = r.data.source = r.data.fingerprint =
      r.machine.processor = hostile;
  r.software = {{hostile, hostile}};
  r.attention.options[hostile] = hostile;
  r.config["overridden"] = {hostile};
  Profile p = example_profile("standard", 512, 1, 1);
  p.attention.label = p.dtype = p.device = p.machine.processor = hostile;
  Records records{.results = {parse_result(make_result(r))},
                  .profiles = {parse_profile(make_profile(p))},
                  .bad = {}};
  auto files = make_report(records);
  EXPECT_FALSE(contains(files["report.md"], "<script>"));
  for (const auto& [name, content] : files) {
    if (name.find(".tex") != std::string::npos) {
      EXPECT_FALSE(contains(content, "\\input")) << name;
    }
    EXPECT_FALSE(contains(content, "\x1b")) << name;
  }
  EXPECT_FALSE(contains(summary_text(records), "\x1b"));
}

}  // namespace
}  // namespace lra
