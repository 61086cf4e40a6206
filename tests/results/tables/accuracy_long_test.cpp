// Runs, cells of accuracy and cells of profiles as rows for other programs.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "results/tables/accuracy_table.h"
#include "results/tables/profile_table.h"
#include "tests/results/examples.h"

namespace lra {
namespace {

std::vector<std::string> column(const Table& table, const std::string& name) {
  std::vector<std::string> found;
  for (size_t i = 0; i < table.columns.size(); ++i) {
    if (table.columns[i].header != name) continue;
    for (const auto& row : table.rows) found.push_back(row[i]);
  }
  return found;
}

std::vector<std::string> sorted_column(const Table& table, const std::string& name) {
  std::vector<std::string> found = column(table, name);
  std::ranges::sort(found);
  return found;
}

TEST(LongForms, HoldEveryRunAndEveryCell) {
  const std::vector<Result> results{example_result("nystrom", 0), example_result("nystrom", 1),
                                    example_result("standard")};
  const Table runs = results_long(results);
  EXPECT_EQ(runs.rows.size(), 3u);
  const Table cells = accuracy_long(results);
  ASSERT_EQ(cells.rows.size(), 2u);
  EXPECT_EQ(cells.rows[0][6], "nystrom");
  EXPECT_EQ(cells.rows[0][12], "seeds");
  EXPECT_EQ(cells.rows[1][12], "wilson");
  for (const Table& table : {runs, cells}) {
    for (const auto& row : table.rows) EXPECT_EQ(row.size(), table.columns.size());
  }
}

TEST(LongForms, SayWhereARunWentOnElsewhere) {
  std::vector<Result> results{example_result("nystrom", 0), example_result("nystrom", 1)};
  results[1].training.measured_from = 900;
  const Table runs = results_long(results);
  EXPECT_EQ(column(runs, "measured_from"), (std::vector<std::string>{"", "900"}));
}

TEST(LongForms, SayWhatWeightsWereTrainedForBefore) {
  std::vector<Result> results{example_result("nystrom", 0), example_result("nystrom", 1)};
  results[1].pretrained = example_pretraining();
  const Table runs = results_long(results), cells = accuracy_long(results);
  for (const Table& table : {runs, cells})
    EXPECT_EQ(sorted_column(table, "pretrained"), (std::vector<std::string>{"", "masked"}));
  EXPECT_EQ(sorted_column(runs, "total_steps"), (std::vector<std::string>{"", "1500"}));
  // A first seed that failed before it had any.
  results[1].seed = 0;
  results[0] = example_result("nystrom", 1);
  results[0].status = Status::timeout;
  results[0].test.reset();
  for (Result& r : results) r.config["pretraining"] = {{"training", {{"steps", 9}}}};
  EXPECT_EQ(column(accuracy_long(results), "pretrained"), (std::vector<std::string>{"masked"}));
  EXPECT_EQ(sorted_column(runs, "total_seconds"), (std::vector<std::string>{"", "180.5"}));
}

TEST(LongForms, ARunIsFoundInItsCell) {
  std::vector<Result> results{example_result("nystrom", 0), example_result("nystrom", 0),
                              example_result("standard", 0)};
  results[1].attention.options["num_landmarks"] = 8;  // under one label: two rows
  results[2].protocol = "tay2020";
  const Table runs = results_long(results), cells = accuracy_long(results);
  std::vector<std::string> of_runs, of_cells;
  for (size_t i = 0; i < 3; ++i) {
    of_runs.push_back(column(runs, "recipe")[i] + column(runs, "row")[i]);
    of_cells.push_back(column(cells, "recipe")[i] + column(cells, "attention")[i]);
  }
  std::ranges::sort(of_runs);
  std::ranges::sort(of_cells);
  EXPECT_EQ(of_runs, of_cells);
  EXPECT_NE(of_runs[0], of_runs[1]);
}

TEST(LongForms, NameAVariantOfTheData) {
  std::vector<Result> results{example_result("nystrom", 0), example_result("nystrom", 1)};
  for (Result& r : results) r.data.source = "CIFAR-10 (JPEG), from cifar10_jpeg.tar.xz";
  for (const Table& table : {results_long(results), accuracy_long(results)})
    EXPECT_EQ(column(table, "data_variant"),
              std::vector<std::string>(table.rows.size(), "CIFAR-10 (JPEG)"));
  EXPECT_EQ(column(results_long(std::vector{example_result()}), "data_variant"),
            std::vector<std::string>{""});
}

TEST(LongForms, NeverIsNotUnknown) {
  std::vector<Result> results{example_result("nystrom", 0), example_result("nystrom", 1),
                              example_result("nystrom", 2)};
  for (Result& r : results) r.left_majority_at.reset();
  for (size_t i = 0; i < 2; ++i) {
    results[i].dev = results[i].test;
    results[i].data.dev_majority = 0.2;
  }
  results[0].left_majority_at = 50;
  results[2].data.dev_majority.reset();
  EXPECT_EQ(column(results_long(results), "never_left_majority"),
            (std::vector<std::string>{"false", "true", ""}));
}

TEST(LongForms, RunsThatWereNotToBeTestedHaveDev) {
  std::vector<Result> results{example_result("nystrom", 0), example_result("nystrom", 1)};
  for (Result& r : results) r.dev = std::exchange(r.test, std::nullopt);
  const std::string dev =
      fmt::format("{:.4f}", 50 * (results[0].dev->accuracy + results[1].dev->accuracy));
  EXPECT_EQ(column(accuracy_long(results), "dev_percent"), std::vector<std::string>{dev});
  const std::string text = accuracy_tables(results, {}).at(0).rows.at(0).at(1);
  EXPECT_EQ(text, fmt::format("dev {} (2 not tested)", dev.substr(0, dev.size() - 2)));
}

TEST(LongForms, SaysWhichCellsALaterLineReplaces) {
  Profile failed = example_profile("standard", 512, 1, 1), other = failed;
  failed.status = Status::oom;
  failed.time.reset();
  failed.memory.reset();
  other.length = 1024;
  const Table table =
      memory_time_long(std::vector{failed, other, example_profile("standard", 512, 2, 2)}, {});
  ASSERT_EQ(table.columns.back().header, "superseded");
  EXPECT_EQ(table.rows[0].back(), "true");
  EXPECT_EQ(table.rows[1].back(), "false");
  EXPECT_EQ(table.rows[2].back(), "false");
}

}  // namespace
}  // namespace lra
