// What the accuracy tables show, and above all what they never mix.
#include "results/tables/accuracy_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "tests/results/examples.h"
#include "tests/results/tables/table_text.h"

namespace lra {
namespace {

TEST(AccuracyTable, SaysWhatTheIntervalOfLabelsAtPositionsIs) {
  std::vector<Result> results{example_result("nystrom")};
  const auto said = [&] {
    return contains(to_text(accuracy_tables(results)[0]), "that of their effective number");
  };
  EXPECT_FALSE(said());
  results[0].test->samples = 20;
  EXPECT_TRUE(said());
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
  EXPECT_FALSE(contains(text_of(accuracy_tables(std::vector<Result>{run})), "test examples here"))
      << "the released code drops an incomplete batch too";
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
  EXPECT_EQ(cell(accuracy_tables(seeds)[0], "nystrom", "listops %"),
            "14.00 [12.55, 15.59] n=2, learned 0/2");
}

TEST(AccuracyTable, SeedsThatDidNotAllLearnTheTaskAreNotHiddenInTheirMean) {
  // The most frequent label is 17.3 % of the test set: 340 right of 2000 are no more.
  std::vector<Result> seeds{example_result("nystrom", 0, 760), example_result("nystrom", 1, 340),
                            example_result("nystrom", 2, 764)};
  const std::string text = cell(accuracy_tables(seeds)[0], "nystrom", "listops %");
  EXPECT_TRUE(text.starts_with("31.07 [")) << text;
  EXPECT_TRUE(text.ends_with("] n=3, learned 2/3: 38.10")) << text;
  const std::string narrow =
      cell(accuracy_tables(seeds, {}, IntervalText::half_width)[0], "nystrom", "listops %");
  EXPECT_TRUE(narrow.ends_with(" n=3 (2/3: 38.10)")) << narrow;
  EXPECT_EQ(cell(accuracy_tables(std::vector<Result>{example_result("nystrom", 0, 1999)}, {},
                                 IntervalText::half_width)[0],
                 "nystrom", "listops %"),
            "99.95±0.2");
  Result near_all = example_result("nystrom", 0, 1999);
  near_all.test->count *= 100;
  near_all.test->correct *= 100;
  EXPECT_EQ(cell(accuracy_tables(std::vector<Result>{near_all}, {}, IntervalText::half_width)[0],
                 "nystrom", "listops %"),
            "99.95±0.01");
  seeds[1] = example_result("nystrom", 1, 758);
  EXPECT_FALSE(contains(cell(accuracy_tables(seeds)[0], "nystrom", "listops %"), "learned"));
}

// A cell of a suite of a budget that sets other keys for each of two tasks.
Result cell_of_quick(const std::string& attention, const std::string& task, int64_t correct) {
  Result r = example_result(attention, 0, correct);
  r.task = task;
  r.data.fingerprint = std::string(64, task[0]);
  r.config["training"]["batch"] = task == "text" ? 16 : 32;
  r.config["overridden"] = {task == "text" ? "training.batch" : "training.steps"};
  r.budget = {.name = "quick",
              .tasks = "{}",
              .set = {{"listops", {{"training.steps", 5000}}}, {"text", {{"training.batch", 16}}}}};
  return r;
}

TEST(AccuracyTable, AnAverageWithATaskThatWasNotLearnedIsNoBest) {
  std::vector<Result> results{
      cell_of_quick("linear", "listops", 800), cell_of_quick("linear", "text", 1400),
      cell_of_quick("standard", "listops", 760), cell_of_quick("standard", "text", 1300)};
  Result& lucky = results[1];  // high on test, and never above the most frequent label of dev
  lucky.dev = lucky.test;
  lucky.data.dev_majority = 0.5;
  const Table table = accuracy_tables(results)[0];
  EXPECT_EQ(table.bold, (std::set<std::pair<size_t, size_t>>{{0, 1}, {1, 2}, {1, 3}}))
      << to_text(table);
}

TEST(AccuracyTable, NarrowCellsMarkWhatFailedAndWhatWasNotLearned) {
  Result failed = example_result("standard", 1);
  failed.status = Status::oom;
  failed.test.reset();
  const std::vector<Result> results{example_result("standard", 0, 760), failed,
                                    example_result("linear", 0, 340)};
  const Table table = accuracy_tables(results, {}, IntervalText::half_width)[0];
  EXPECT_TRUE(cell(table, "standard", "listops %").ends_with("†"));
  EXPECT_TRUE(cell(table, "linear", "listops %").ends_with("‡"));
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

// Their numbers are of other images.
TEST(AccuracyTable, ImagesThatAreNotThePublicOnesHaveNoPublishedRow) {
  Result image = example_result("nystrom");
  image.task = "image";
  image.protocol = "nystromformer2021";
  image.config["overridden"] = json::array();
  const auto table_of = [&](const std::string& source) {
    image.data.source = source;
    const auto tables = accuracy_tables(std::vector<Result>{image}, published());
    EXPECT_EQ(tables.size(), 1u);
    return tables.at(0);
  };
  const Table exact = table_of("CIFAR-10, from cifar-10-binary.tar.gz"),
              jpeg = table_of("CIFAR-10 (JPEG), from cifar10_jpeg.tar.xz");
  ASSERT_EQ(exact.rows.size(), 3u) << "the attention, what is published, the most frequent label";
  EXPECT_EQ(exact.title.find("CIFAR"), std::string::npos);
  EXPECT_EQ(jpeg.rows.size(), 2u);
  EXPECT_NE(jpeg.title.find(", image of CIFAR-10 (JPEG)"), std::string::npos) << jpeg.title;
}

// Of other lengths, a difficulty of their own, or parts.
TEST(AccuracyTable, DataUnlikeThePublicOnesHaveNoPublishedNumber) {
  Result run = example_result("nystrom");
  run.protocol = "nystromformer2021";
  const auto table_of = [&](const std::vector<std::string>& unlike) {
    run.data.unlike = unlike;
    const auto tables = accuracy_tables(std::vector<Result>{run}, published());
    EXPECT_EQ(tables.size(), 1u);
    return tables.at(0);
  };
  EXPECT_EQ(table_of({}).rows.size(), 3u);
  const Table accuracy = table_of({"train 40, not 96000", "max_length 100, not 2000"});
  EXPECT_EQ(accuracy.rows.size(), 2u);
  EXPECT_EQ(std::ranges::count(accuracy.notes,
                               "data of listops unlike the public: train 40, not 96000; "
                               "max_length 100, not 2000"),
            1);
  const Table beside = published_difference_tables(std::vector<Result>{run}).at(0);
  EXPECT_EQ(std::ranges::count(
                beside.notes,
                "not the published recipe or data: the difference says nothing about either"),
            1);
  EXPECT_TRUE(beside.title.ends_with(", not the published recipe or data")) << beside.title;
  EXPECT_EQ(beside.rows.at(0).back(), "of another recipe or data");
  EXPECT_EQ(first_cell(accuracy_long(std::vector<Result>{run}), "published_percent"), "");
  run.data.unlike.clear();
  EXPECT_EQ(first_cell(accuracy_long(std::vector<Result>{run}), "published_percent"), "37.15");
  run.config = {{"overridden", {"training.steps=50"}}};  // another recipe
  EXPECT_EQ(first_cell(accuracy_long(std::vector<Result>{run}), "published_percent"), "");
}

// They are no accuracies of the task.
TEST(AccuracyTable, AccuraciesOfTokensStandBesideNoPublishedNumber) {
  Result run = example_result("nystrom");
  run.protocol = "nystromformer2021";
  ASSERT_EQ(published_difference_tables(std::vector<Result>{run}).size(), 1u);
  run.metric = "masked_token_accuracy";
  EXPECT_EQ(published_difference_tables(std::vector<Result>{run}).size(), 0u);
  EXPECT_EQ(first_cell(accuracy_long(std::vector<Result>{run}), "published_percent"), "");
}

TEST(AccuracyTable, AFileThatChangedIsToldApartByTheBeginningOfItsHash) {
  Result before = example_result("python:my.py:A"), after = before;
  before.attention.options = {{"file", "my.py"}, {"sha256", std::string(64, 'a')}};
  after.attention.options = {{"file", "my.py"}, {"sha256", std::string(64, 'b')}};
  const auto tables = accuracy_tables(std::vector<Result>{before, after});
  EXPECT_NE(cell(tables.at(0), "python:my.py:A {sha256=aaaaaaaa}", "listops %"), "(no such cell)");
  EXPECT_NE(cell(tables.at(0), "python:my.py:A {sha256=bbbbbbbb}", "listops %"), "(no such cell)");
}

TEST(AccuracyTable, AFileIsOneByAllOfItsNames) {
  std::vector<Result> runs;
  for (const std::string file : {"./my.py", "my.py", "/home/me/my.py"}) {
    runs.push_back(example_result("python:" + file + ":A"));
    runs.back().attention.options = {{"file", file}, {"sha256", std::string(64, 'a')}};
    runs.back().seed = runs.size();
  }
  const auto tables = accuracy_tables(runs);
  EXPECT_NE(cell(tables.at(0), "python:my.py:A", "listops %").find(" n=3"), std::string::npos)
      << to_text(tables.at(0));
  runs[2].attention.options["sha256"] = std::string(64, 'b');
  EXPECT_NE(cell(accuracy_tables(runs).at(0), "python:my.py:A", "listops %").find(" n=2"),
            std::string::npos);
}

TEST(AccuracyTable, RunsOfOneSeedThatDisagreeAreNamed) {
  Result first = example_result("standard"), other = first;
  first.path = "a";
  other.path = "b";
  const auto notes_of = [&] {
    return accuracy_tables(std::vector<Result>{first, other}).at(0).notes;
  };
  const auto warns = [](const std::string& note) {
    return note.starts_with("WARNING: seed 0 of standard on listops ran more than once");
  };
  EXPECT_TRUE(std::ranges::none_of(notes_of(), warns));
  other.test->accuracy = 0.75;
  const std::vector<std::string> notes = notes_of();
  const auto warning = std::ranges::find_if(notes, warns);
  ASSERT_NE(warning, notes.end());
  EXPECT_NE(warning->find("75.00 % (b)"), std::string::npos) << *warning;
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

TEST(AccuracyTable, WhatABudgetSetsByTaskIsOneRecipe) {
  std::vector<Result> results{
      cell_of_quick("nystrom", "listops", 741), cell_of_quick("nystrom", "text", 1200),
      cell_of_quick("standard", "listops", 700), cell_of_quick("standard", "text", 1300)};
  for (Result& r : results) r.data.synthetic = r.task == "text";
  const auto tables = accuracy_tables(results);
  ASSERT_EQ(tables.size(), 1u);
  const Table& table = tables[0];
  EXPECT_EQ(table.title,
            "Accuracy: protocol lra-strict, budget quick, float32, synthetic data of text");
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
  // Also where the protocol gives other attentions values of their own of what the budget sets.
  std::vector<Result> by_attention = results;
  for (Result& r : by_attention) r.config["by_attention"] = {"training.steps", "training.batch"};
  EXPECT_EQ(accuracy_tables(by_attention).size(), 1u);
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
                       "listops: 200 test examples here, 1984 in the published runs"));
}

TEST(AccuracyTable, AProtocolThatNoPaperUsedHasNoPublishedRow) {
  Result r = example_result();
  r.protocol = "mine";
  const auto tables = accuracy_tables(std::vector<Result>{r});
  EXPECT_EQ(published_beside(tables[0], "nystrom"), "(no such cell)");
  EXPECT_TRUE(contains(text_of(tables), "no published numbers for protocol mine"));
}

TEST(AccuracyTable, NotesNameWhatIsSoftmaxAttentionAtItsLength) {
  Result windowed = example_result("local");
  windowed.attention.sees_all = true;
  EXPECT_EQ(make_result(windowed)["attention"]["sees_all"], true);
  EXPECT_FALSE(make_result(example_result())["attention"].contains("sees_all"));
  const std::vector<Result> runs = {parse_result(make_result(windowed)), example_result()};
  EXPECT_TRUE(contains(text_of(accuracy_tables(runs)),
                       "listops: at the length of these runs every position sees all others in "
                       "local, which is softmax attention there"));
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

}  // namespace
}  // namespace lra
