// What the accuracy tables show, and above all what they never mix.
#include "results/tables/accuracy_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "results/print/html.h"
#include "results/print/latex.h"
#include "results/tables/published_table.h"
#include "tests/results/examples.h"

namespace lra {
namespace {

std::string text_of(const std::vector<Table>& tables) {
  std::string text;
  for (const Table& table : tables) text += to_text(table) + "\n";
  return text;
}

// The cell in the row `name` under `header`.
std::string cell(const Table& table, const std::string& name, const std::string& header) {
  for (const auto& row : table.rows) {
    for (size_t c = 0; c < table.columns.size(); ++c) {
      if (row[0] == name && table.columns[c].header == header) return row.at(c);
    }
  }
  return "(no such cell)";
}

// The published number below an attention's row.
std::string published_beside(const Table& table, const std::string& name) {
  for (size_t r = 1; r < table.rows.size(); ++r) {
    if (table.rows[r][0] == name + kPublishedRow && table.rows[r - 1][0] == name)
      return table.rows[r][1];
  }
  return "(no such cell)";
}

TEST(AccuracyTable, OneRunShowsWilsonsIntervalBesideThePublishedNumber) {
  const auto tables = accuracy_tables(
      std::vector<Result>{example_result("nystrom"), example_result("standard", 0, 700)});
  ASSERT_EQ(tables.size(), 1u);
  EXPECT_EQ(cell(tables[0], "nystrom", "listops %"), "37.05 [34.96, 39.19]");
  EXPECT_EQ(published_beside(tables[0], "nystrom"), "37.15");
  EXPECT_EQ(published_beside(tables[0], "standard"), "37.10");
  EXPECT_EQ(cell(tables[0], "(most frequent label)", "listops %"), "17.30");
  EXPECT_EQ(tables[0].title, "Accuracy: protocol lra-strict, float32");
  const std::string text = text_of(tables);
  EXPECT_TRUE(contains(text, "data: listops aaaaaaaa"));
  EXPECT_TRUE(contains(text, "published: Xiong et al."));
  EXPECT_TRUE(contains(text, "difference of protocol, lra-strict against nystromformer2021: "));
  EXPECT_TRUE(contains(text, "trained on: Xeon, 2 cores, 8 GiB"));
  EXPECT_FALSE(contains(text, "synthetic"));
}

TEST(AccuracyTable, FootnotesSayWhoMadeThePublishedNumbersAndTheirSlips) {
  Result run = example_result("sinkhorn");
  run.protocol = "tay2020";
  const auto tables = accuracy_tables(std::vector<Result>{run});
  EXPECT_EQ(published_beside(tables[0], "sinkhorn"), "33.67");
  const std::string text = text_of(tables);
  EXPECT_TRUE(contains(text,
                       "ICLR 2021, Table 1, arXiv 2011.04006 v1 (2020-11); official, made by "
                       "LRA's authors"));
  EXPECT_TRUE(contains(text, "slip in tay2020: Sinkhorn's average is printed as 51.39"));
  EXPECT_TRUE(
      contains(text, "difference of protocol, tay2020 against tay2020: the table predates"));
}

// Runs of every pair of a published set and a protocol that it may stand beside.
TEST(AccuracyTable, WhatDiffersFromThePublishedRunsStandsBelowEveryTable) {
  int pairs = 0;
  for (const Published& reference : published()) {
    for (const std::string& protocol : reference.accuracy->protocols) {
      const std::vector<Published> alone{reference};
      const PublishedAccuracy::Row& row = reference.accuracy->rows.front();
      Result run = example_result(row.variant->name);
      run.protocol = protocol;
      const std::vector<Result> runs{run};
      const std::string note =
          fmt::format("difference of protocol, {} against {}: {}", protocol, reference.name,
                      reference.accuracy->differences.at(protocol));
      const auto accuracy = accuracy_tables(runs, alone),
                 differences = published_difference_tables(runs, alone);
      ASSERT_EQ(accuracy.size(), 1u) << note;
      ASSERT_EQ(differences.size(), 1u) << note;
      for (const Table* table : {&accuracy[0], &differences[0]}) {
        EXPECT_EQ(std::ranges::count(table->notes, note), 1) << note << "\n" << to_text(*table);
        for (const std::string& slip : reference.accuracy->slips) {
          EXPECT_EQ(std::ranges::count(table->notes, "slip in " + reference.name + ": " + slip), 1)
              << slip;
        }
        const std::string head = "difference of protocol, " + protocol + " against ";
        for (const std::string& text :
             {to_text(*table), to_markdown(*table), to_html(*table), to_latex(*table, "x")})
          EXPECT_TRUE(contains(text, head)) << text;
      }
      ++pairs;
    }
  }
  EXPECT_EQ(pairs, 5);
}

TEST(AccuracyTable, AReleasedFormStandsBesideThePublishedRowOfItsName) {
  for (const auto& [name, row, percent] : {std::tuple{"local", "Local", "15.82"},
                                           {"reformer", "Reformer", "37.27"},
                                           {"sinkhorn", "Sinkhorn", "33.67"},
                                           {"performer", "Performer", "18.01"},
                                           {"synthesizer", "Synthesizer", "36.99"}}) {
    Result run = example_result(std::string(name) + "_tay2020");
    run.protocol = "tay2020";
    Result standard = example_result("standard");
    standard.protocol = "tay2020";
    const std::vector<Result> runs{run, standard};
    const Table accuracy = accuracy_tables(runs)[0], beside = published_difference_tables(runs)[0];
    EXPECT_EQ(published_beside(accuracy, run.attention.name), percent);
    EXPECT_EQ(beside.rows.size(), 2u) << to_text(beside);
    const std::string note =
        fmt::format("{}_tay2020: what the released code calls {}, beside the published row {}",
                    name, name, row);
    for (const Table* table : {&accuracy, &beside}) {
      EXPECT_EQ(std::ranges::count(table->notes, note), 1) << to_text(*table);
      EXPECT_FALSE(contains(to_text(*table), "standard: what the released code"));
    }
    EXPECT_TRUE(contains(to_csv(accuracy_long(runs)), std::string(percent) + ",tay2020"));
    run.attention = {.name = name, .label = name, .options = json::object()};
    EXPECT_FALSE(
        contains(text_of(accuracy_tables(std::vector<Result>{run})), "released code calls"))
        << "a run of the paper's function is not marked";
  }
}

// Even where a set says that it may, and however well its name sorts.
TEST(AccuracyTable, ALaterRegimeNeverStandsBesideIntervals) {
  std::vector<Published> references = published();
  Published later = references.front();
  later.name = "aaa";
  later.accuracy->regime = Regime::later;
  later.accuracy->protocols = {"lra-strict"};
  later.accuracy->tasks = {"listops"};
  later.accuracy->rows = {
      {.name = "x", .variant = parse_variant("nystrom"), .values = {99.5}, .average = 99.5}};
  references.insert(references.begin(), later);
  const std::vector<Result> runs{example_result("nystrom")};
  EXPECT_EQ(published_beside(accuracy_tables(runs, references)[0], "nystrom"), "37.15");
  const std::string text = text_of(accuracy_tables(runs, references)) +
                           text_of(published_difference_tables(runs, references)) +
                           to_csv(accuracy_long(runs, references));
  EXPECT_FALSE(contains(text, "99.5"));
  for (const char* number : {"59.60", "58.35", "60.47", "62.15", "63.14", "60.20"})
    EXPECT_FALSE(contains(text, number)) << number;
}

TEST(AccuracyTable, OtherRegimesHaveTablesOfTheirOwnThatSayWhetherPathXIsIn) {
  const std::vector<Table> tables = other_regime_tables();
  ASSERT_EQ(tables.size(), 2u);
  EXPECT_TRUE(contains(tables[0].title, "\"self-reported\""));
  EXPECT_TRUE(contains(tables[1].title, "\"later\""));
  EXPECT_TRUE(contains(tables[1].title, "no intervals"));
  EXPECT_EQ(cell(tables[1], "S5", "pathx %"), "98.58");
  EXPECT_EQ(cell(tables[1], "S5", "average"), "87.46");
  EXPECT_EQ(cell(tables[1], "S5", "average of"), "6 tasks, with pathx");
  EXPECT_EQ(cell(tables[1], "Luna-256", "pathx %"), "–");
  EXPECT_EQ(cell(tables[1], "Luna-256", "average of"), "–");
  EXPECT_EQ(cell(tables[1], "Transformer", "average"), "(no such cell)");
  EXPECT_EQ(cell(tables[0], "TLB", "image %"), "57.51");
  EXPECT_TRUE(contains(text_of(tables), "lru-2023: Image is of coloured CIFAR-10"));
  for (const Table& table : tables) EXPECT_FALSE(contains(to_text(table), "37.15"));
  Published five = published().front();
  five.accuracy->rows = {{.name = "y", .variant = {}, .values = {1, 2, 3, 4, 5}, .average = 3}};
  EXPECT_EQ(cell(other_regime_tables(std::vector<Published>{five})[0], "y", "average of"),
            "5 tasks, without pathx");
}

// The last checkpoint was not chosen at all.
TEST(AccuracyTable, ATestSetThatChoseTheCheckpointIsNamed) {
  const auto with = [](const json& evaluation) {
    Result run = example_result("nystrom");
    run.config["evaluation"] = evaluation;
    return contains(text_of(accuracy_tables(std::vector<Result>{run})), "listops: chosen on test");
  };
  EXPECT_TRUE(with({{"dev", "test"}}));
  EXPECT_TRUE(with({{"dev", "test"}, {"select_after", 0.2}}));
  EXPECT_FALSE(with({{"dev", "test"}, {"select_after", 1}}));
  EXPECT_FALSE(with({{"dev", "test"}, {"select_after", 1.0}}));
  EXPECT_FALSE(with({{"dev", "dev"}, {"select_after", 0}}));
  EXPECT_FALSE(with(json::object()));
}

// What drop_last leaves out is in no count, so the interval is that of the examples evaluated.
TEST(AccuracyTable, TheIntervalIsOfTheExamplesThatWereEvaluated) {
  const auto interval = [](int64_t count) {
    Result run = example_result("nystrom", 0, 741);
    run.test = Accuracy{.accuracy = 0.5, .correct = count / 2, .count = count, .ci95 = {}};
    return cell(accuracy_tables(std::vector<Result>{run})[0], "nystrom", "listops %");
  };
  // statsmodels' proportion_confint(count / 2, count, method='wilson')
  EXPECT_EQ(interval(17408), "50.00 [49.26, 50.74]");
  EXPECT_EQ(interval(2048), "50.00 [47.84, 52.16]");
  Result run = example_result("nystrom");
  run.test = Accuracy{.accuracy = 0.5, .correct = 992, .count = 1984, .ci95 = {}};
  EXPECT_TRUE(contains(text_of(accuracy_tables(std::vector<Result>{run})),
                       "listops: 1984 test examples here, 2000 in the published runs"));
}

TEST(AccuracyTable, SeveralSeedsShowTheirMeanAndStudentsInterval) {
  // 100 * stats.t.interval(.95, 2, np.mean(x), stats.sem(x)) of x = 742/2000, 724/2000, 778/2000
  const std::vector<Result> seeds{example_result("nystrom", 0, 742),
                                  example_result("nystrom", 1, 724),
                                  example_result("nystrom", 2, 778)};
  EXPECT_EQ(cell(accuracy_tables(seeds)[0], "nystrom", "listops %"), "37.40 [33.98, 40.82] n=3");
}

TEST(AccuracyTable, SeedsThatAgreeKeepTheSamplingOfTheTestSet) {
  // statsmodels' proportion_confint(280, 2000, method='wilson')
  const std::vector<Result> seeds{example_result("nystrom", 0, 280),
                                  example_result("nystrom", 1, 280)};
  EXPECT_EQ(cell(accuracy_tables(seeds)[0], "nystrom", "listops %"), "14.00 [12.55, 15.59] n=2");
}

TEST(AccuracyTable, ARepeatedSeedCountsOnce) {
  const auto tables = accuracy_tables(
      std::vector<Result>{example_result("nystrom", 0, 741), example_result("nystrom", 0, 800)});
  EXPECT_EQ(cell(tables[0], "nystrom", "listops %"), "37.05 [34.96, 39.19]");
  EXPECT_TRUE(contains(text_of(tables), "a seed that ran more than once counts once"));
}

TEST(AccuracyTable, OtherStatusesShowAsTheirWord) {
  Result bad = example_result("standard");
  bad.status = Status::diverged;
  bad.test.reset();
  Result seed1 = example_result("nystrom", 1);
  seed1.status = Status::oom;
  seed1.test.reset();
  const auto tables = accuracy_tables(std::vector<Result>{bad, example_result("nystrom"), seed1});
  EXPECT_EQ(cell(tables[0], "standard", "listops %"), "diverged");
  EXPECT_EQ(cell(tables[0], "nystrom", "listops %"), "37.05 [34.96, 39.19] (1 oom)");
}

TEST(AccuracyTable, ARunThatNeverSawItsDataStandsWithTheOthersOfItsRecipe) {
  Result pending = example_result("standard");
  pending.status = Status::pending;
  pending.test.reset();
  pending.data = {};
  const auto tables = accuracy_tables(std::vector<Result>{example_result("nystrom"), pending});
  ASSERT_EQ(tables.size(), 1u);
  EXPECT_EQ(cell(tables[0], "standard", "listops %"), "pending");
}

TEST(AccuracyTable, RecordsOlderThanASettingStandWithThoseThatDidTheSame) {
  Result older = example_result("nystrom"), newer = example_result("standard");
  newer.config["evaluation"] = {{"dev", "dev"}};
  EXPECT_EQ(accuracy_tables(std::vector<Result>{older, newer}).size(), 1u);
  newer.config["evaluation"] = {{"dev", "test"}};
  EXPECT_EQ(accuracy_tables(std::vector<Result>{older, newer}).size(), 2u);
}

TEST(AccuracyTable, DataThatWereNotGeneratedAreNamed) {
  Result jpeg = example_result("nystrom");
  jpeg.task = "image";
  jpeg.data.source = "CIFAR-10 (JPEG), from cifar10_jpeg.tar.xz";
  const auto tables = accuracy_tables(std::vector<Result>{example_result("nystrom"), jpeg});
  ASSERT_EQ(tables.size(), 1u);
  std::vector<std::string> found;
  for (const std::string& note : tables[0].notes) {
    if (note.starts_with("data of ")) found.push_back(note);
  }
  EXPECT_EQ(found,
            std::vector<std::string>{"data of image: CIFAR-10 (JPEG), from cifar10_jpeg.tar.xz"});
}

struct Difference {
  const char* name;
  void (*apply)(Result&);
  const char* in_title;
};
void PrintTo(const Difference& difference, std::ostream* to) { *to << difference.name; }

class NeverMerged : public testing::TestWithParam<Difference> {};

TEST_P(NeverMerged, RunsThatDifferInIt) {
  Result other = example_result("standard");
  GetParam().apply(other);
  const auto tables = accuracy_tables(std::vector<Result>{example_result("nystrom"), other});
  ASSERT_EQ(tables.size(), 2u);
  int titled = 0;
  for (Table table : tables) {
    titled += contains(table.title + "\n" + fmt::format("{}", fmt::join(table.notes, "\n")),
                       GetParam().in_title);
    EXPECT_TRUE(contains(table.title, "recipe ")) << table.title;
    std::erase_if(table.rows, [](const auto& row) { return row[0].ends_with(kPublishedRow); });
    EXPECT_EQ(table.rows.size(), 2u);  // one attention and the most frequent label
  }
  EXPECT_EQ(titled, 1);
  EXPECT_EQ(training_tables(std::vector<Result>{example_result("nystrom"), other}).size(), 2u);
}

INSTANTIATE_TEST_SUITE_P(
    AccuracyTable, NeverMerged,
    testing::Values(
        Difference{"fingerprint", [](Result& r) { r.data.fingerprint = std::string(64, 'b'); },
                   "listops bbbbbbbb"},
        Difference{"protocol", [](Result& r) { r.protocol = "tay2020"; }, "protocol tay2020"},
        Difference{"overridden", [](Result& r) { r.config["overridden"] = {"training.steps"}; },
                   "not the recipe of lra-strict: training.steps=5000"},
        Difference{"synthetic", [](Result& r) { r.data.synthetic = true; }, "synthetic data"},
        Difference{"dtype", [](Result& r) { r.config["dtype"] = "bfloat16"; }, "bfloat16"}),
    [](const auto& difference) { return difference.param.name; });

TEST(AccuracyTable, TheSameOverriddenKeyWithOtherValuesIsAnotherTable) {
  Result a = example_result("nystrom"), b = example_result("standard");
  a.config["overridden"] = b.config["overridden"] = {"training.steps"};
  b.config["training"]["steps"] = 10;
  EXPECT_EQ(accuracy_tables(std::vector<Result>{a, b}).size(), 2u);
}

TEST(AccuracyTable, ASettingThatNobodyDeclaredOverriddenStillSeparates) {
  Result a = example_result("nystrom"), b = example_result("standard");
  b.config["training"]["steps"] = 10;  // a protocol file of the same name, say
  const auto tables = accuracy_tables(std::vector<Result>{a, b});
  ASSERT_EQ(tables.size(), 2u);
  EXPECT_TRUE(contains(to_text(tables[0]), "with: training.steps=10\n")) << to_text(tables[0]);
  EXPECT_TRUE(contains(to_text(tables[1]), "with: training.steps=5000\n")) << to_text(tables[1]);
}

TEST(AccuracyTable, TasksWithValuesOfTheirOwnShareATable) {
  Result a = example_result("nystrom"), b = example_result("nystrom");
  a.config["overridden"] = b.config["overridden"] = {"training.steps"};
  b.task = "text";
  b.data.fingerprint = std::string(64, 'c');
  b.config["training"]["steps"] = 10;
  const auto tables = accuracy_tables(std::vector<Result>{a, b});
  ASSERT_EQ(tables.size(), 1u);
  EXPECT_TRUE(contains(to_text(tables[0]), "training.steps=10 (text), 5000 (listops)"))
      << to_text(tables[0]);
  EXPECT_TRUE(contains(tables[0].title, "1 setting overridden")) << tables[0].title;
}

// A cell of a suite of a budget that sets other keys for each of two tasks.
Result cell_of_quick(const std::string& attention, const std::string& task, int64_t correct) {
  Result r = example_result(attention, 0, correct);
  r.task = task;
  r.data.fingerprint = std::string(64, task[0]);
  r.config["training"]["batch"] = task == "text" ? 16 : 32;
  r.config["overridden"] = {task == "text" ? "training.batch" : "training.steps"};
  r.budget = {.name = "quick", .tasks = "{}", .keys = {"training.batch", "training.steps"}};
  return r;
}

TEST(AccuracyTable, WhatABudgetSetsByTaskIsOneRecipe) {
  std::vector<Result> results{
      cell_of_quick("nystrom", "listops", 741), cell_of_quick("nystrom", "text", 1200),
      cell_of_quick("standard", "listops", 700), cell_of_quick("standard", "text", 1300)};
  for (Result& r : results) r.data.synthetic = r.task == "text";
  const auto tables = accuracy_tables(results);
  ASSERT_EQ(tables.size(), 1u);
  const Table& table = tables[0];
  EXPECT_EQ(table.title, "Accuracy: protocol lra-strict, budget quick, float32");
  EXPECT_EQ(table.columns.size(), 4u);
  EXPECT_EQ(table.columns[2].header, "text* %");
  EXPECT_TRUE(cell(table, "standard", "average of 2*").starts_with("50.00 [")) << to_text(table);
  EXPECT_EQ(table.bold, (std::set<std::pair<size_t, size_t>>{{0, 1}, {1, 2}, {1, 3}}));
  EXPECT_TRUE(contains(to_text(table),
                       "settings of budget quick, not the recipe of lra-strict: "
                       "training.batch=16 (text); training.steps=5000 (listops)"))
      << to_text(table);
  EXPECT_TRUE(contains(to_text(table), "* text: synthetic: stand-in data"));
  EXPECT_EQ(published_beside(table, "nystrom"), "(no such cell)") << "of another recipe";
  // The user's own attention, trained by hand on the same data with the same settings.
  Result own = cell_of_quick("own", "listops", 600);
  own.budget = {};
  results.push_back(own);
  EXPECT_EQ(accuracy_tables(results).size(), 1u);
  // Another budget of that name, or another setting over it, is another recipe.
  results.back() = cell_of_quick("own", "listops", 600);
  results.back().budget.tasks = "{\"text\":{}}";
  EXPECT_EQ(accuracy_tables(results).size(), 2u);
  results.back() = cell_of_quick("own", "listops", 600);
  results.back().config["overridden"].push_back("optimizer.lr");
  EXPECT_EQ(accuracy_tables(results).size(), 2u);
  // Without the budget the keys differ by task.
  for (Result& r : results) r.budget = {};
  EXPECT_EQ(accuracy_tables(std::span(results).first(4)).size(), 2u);
}

TEST(AccuracyTable, HowABatchIsSplitIsNoRecipe) {
  Result a = example_result("nystrom"), b = example_result("standard");
  b.config["training"]["micro_batch"] = 8;
  b.config["overridden"] = {"training.micro_batch"};
  EXPECT_EQ(accuracy_tables(std::vector<Result>{a, b}).size(), 1u);
}

TEST(AccuracyTable, SeedsAndAttentionOptionsAreNoRecipe) {
  Result a = example_result("nystrom"), b = example_result("standard", 3);
  a.config["seed"] = 0;
  b.config["seed"] = 3;
  a.config["attention"] = {{"name", "nystrom"}};
  b.config["attention"] = {{"name", "standard"}};
  EXPECT_EQ(accuracy_tables(std::vector<Result>{a, b}).size(), 1u);
}

TEST(AccuracyTable, NotesNameAnOverriddenRecipeAndStandInData) {
  Result r = example_result();
  r.config["overridden"] = {"training.steps"};
  r.data.synthetic = true;
  const std::string text = text_of(accuracy_tables(std::vector<Result>{r}));
  EXPECT_TRUE(
      contains(text, "smoke or overridden run, not the recipe of lra-strict: training.steps=5000"));
  EXPECT_TRUE(contains(text, "synthetic: stand-in data, comparable with no published number"));
}

TEST(AccuracyTable, NotesNameATestSetOfAnotherSize) {
  Result r = example_result();
  r.test = Accuracy{
      .accuracy = 0.5, .correct = 100, .count = 200, .ci95 = {0.43, 0.57}, .by_length = {}};
  EXPECT_TRUE(contains(text_of(accuracy_tables(std::vector<Result>{r})),
                       "listops: 200 test examples here, 2000 in the published runs"));
}

TEST(AccuracyTable, AProtocolThatNoPaperUsedHasNoPublishedRow) {
  Result r = example_result();
  r.protocol = "mine";
  const auto tables = accuracy_tables(std::vector<Result>{r});
  EXPECT_EQ(published_beside(tables[0], "nystrom"), "(no such cell)");
  EXPECT_TRUE(contains(text_of(tables), "no published numbers for protocol mine"));
}

TEST(AccuracyTable, OneLabelWithDifferentOptionsIsTwoRows) {
  Result other = example_result("nystrom", 1);
  other.attention.options["num_landmarks"] = 32;
  const auto tables = accuracy_tables(std::vector<Result>{example_result("nystrom"), other});
  EXPECT_EQ(published_beside(tables[0], "nystrom {num_landmarks=64}"), "37.15");
  EXPECT_EQ(published_beside(tables[0], "nystrom {num_landmarks=32}"), "(no such cell)");
}

TEST(AccuracyTable, AnAverageNeedsEveryTask) {
  Result text = example_result("nystrom");
  text.task = "text";
  text.data.fingerprint = std::string(64, 'c');
  const auto tables = accuracy_tables(
      std::vector<Result>{example_result("nystrom"), example_result("standard"), text});
  ASSERT_EQ(tables.size(), 1u);
  EXPECT_EQ(tables[0].columns[1].header, "listops %");
  EXPECT_EQ(cell(tables[0], "nystrom", "average of 2"), "37.05 [35.57, 38.56]");
  EXPECT_EQ(cell(tables[0], "standard", "average of 2"), "–");
}

TEST(TrainingTable, ShowsMediansOverSeeds) {
  Result a = example_result("nystrom", 0), b = example_result("nystrom", 1),
         c = example_result("nystrom", 2);
  b.training.steps_per_second = 12.0;
  c.training.steps_per_second = 99.0;
  const auto tables = training_tables(std::vector<Result>{a, b, c});
  ASSERT_EQ(tables.size(), 1u);
  EXPECT_EQ(tables[0].rows,
            (std::vector<std::vector<std::string>>{
                {"listops", "nystrom", "12", "655360", "300.5", "200000", "1000", "100", "ok"}}));
}

TEST(TrainingTable, NeverMixesMachines) {
  Result other = example_result("standard");
  other.machine.gpu = "H100";
  const auto tables = training_tables(std::vector<Result>{example_result("nystrom"), other});
  ASSERT_EQ(tables.size(), 2u);
  EXPECT_TRUE(contains(tables[0].title, "on H100, Xeon"));
}

TEST(TrainingTable, KeepsRunsOfSeveralProcessesApart) {
  Result other = example_result("standard");
  other.training.processes = 4;
  other.training.engine = "mpi";
  const std::vector<Result> both{example_result("nystrom"), other};
  const auto tables = training_tables(both);
  ASSERT_EQ(tables.size(), 2u);
  EXPECT_TRUE(contains(tables[1].title, "on Xeon, 2 cores, 8 GiB, 4 processes (mpi)"));
  EXPECT_EQ(accuracy_tables(both).size(), 1u) << "the recipe is the same";
}

TEST(TrainingTable, KeepsApartWhatChangesCostsAlone) {
  const Result plain = example_result("nystrom");
  Result one = plain, two = plain, reference = plain, parts = plain;
  one.training.threads = 1;
  two.training.threads = 2;
  reference.config["kernels"] = "reference";
  parts.config["training"]["micro_batch"] = 8;
  const std::vector<Result> all{plain, one, two, reference, parts};
  const auto tables = training_tables(all);
  ASSERT_EQ(tables.size(), 5u);
  std::string titles;
  for (const Table& table : tables) titles += table.title + "\n";
  for (const char* part : {"GiB\n", "GiB, 1 thread\n", "GiB, 2 threads\n",
                           "GiB, kernels reference\n", "GiB, batch in parts of 8\n"}) {
    EXPECT_TRUE(contains(titles, part)) << part << titles;
  }
  EXPECT_EQ(accuracy_tables(all).size(), 1u) << "the recipe is the same";
}

TEST(TrainingTable, CountsARepeatedSeedOnce) {
  Result again = example_result("nystrom");
  again.training.steps_per_second = 1000.0;
  const auto tables = training_tables(std::vector<Result>{example_result("nystrom"), again});
  ASSERT_EQ(tables.size(), 1u);
  EXPECT_EQ(tables[0].rows[0][2], "10");
}

TEST(LongForms, HoldEveryRunAndEveryCell) {
  const std::vector<Result> results{example_result("nystrom", 0), example_result("nystrom", 1),
                                    example_result("standard")};
  const Table runs = results_long(results);
  EXPECT_EQ(runs.rows.size(), 3u);
  const Table cells = accuracy_long(results);
  ASSERT_EQ(cells.rows.size(), 2u);
  EXPECT_EQ(cells.rows[0][6], "nystrom");
  EXPECT_EQ(cells.rows[0][12], "student");
  EXPECT_EQ(cells.rows[1][12], "wilson");
  for (const Table& table : {runs, cells}) {
    for (const auto& row : table.rows) EXPECT_EQ(row.size(), table.columns.size());
  }
}

}  // namespace
}  // namespace lra
