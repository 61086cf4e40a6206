// Runs and cells of accuracy as rows for other programs.
#include <gtest/gtest.h>

#include <algorithm>

#include "results/tables/accuracy_table.h"
#include "tests/results/examples.h"

namespace lra {
namespace {

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
  EXPECT_EQ(runs.columns.back().header, "measured_from");
  EXPECT_EQ(runs.rows[0].back(), "");
  EXPECT_EQ(runs.rows[1].back(), "900");
}

TEST(LongForms, SayWhatWeightsWereTrainedForBefore) {
  std::vector<Result> results{example_result("nystrom", 0), example_result("nystrom", 1)};
  results[1].pretrained = example_pretraining();
  const Table runs = results_long(results), cells = accuracy_long(results);
  const auto column = [](const Table& table, const std::string& name) {
    std::vector<std::string> found;
    for (size_t i = 0; i < table.columns.size(); ++i) {
      if (table.columns[i].header != name) continue;
      for (const auto& row : table.rows) found.push_back(row[i]);
    }
    std::ranges::sort(found);
    return found;
  };
  for (const Table& table : {runs, cells})
    EXPECT_EQ(column(table, "pretrained"), (std::vector<std::string>{"", "masked"}));
  EXPECT_EQ(column(runs, "total_steps"), (std::vector<std::string>{"", "1500"}));
  // A first seed that failed before it had any.
  results[1].seed = 0;
  results[0] = example_result("nystrom", 1);
  results[0].status = Status::timeout;
  results[0].test.reset();
  for (Result& r : results) r.config["pretraining"] = {{"training", {{"steps", 9}}}};
  EXPECT_EQ(column(accuracy_long(results), "pretrained"), (std::vector<std::string>{"masked"}));
  EXPECT_EQ(column(runs, "total_seconds"), (std::vector<std::string>{"", "180.5"}));
}

}  // namespace
}  // namespace lra
