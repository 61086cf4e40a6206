// What a table says of attentions that break the contract, and the record that it reads.
#include "results/analysis/contract_notes.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "results/report/run_page.h"
#include "results/tables/accuracy_table.h"
#include "tests/results/examples.h"

namespace lra {
namespace {

const ContractRecord kBroken = {.passed = 16,
                                .of = 19,
                                .failed = {{"padding invariance", "wrong"},
                                           {"all-padding samples", "fragile"},
                                           {"large logits", "fragile"}}};

TEST(ContractRecordTest, IsReadAsWrittenAndMayBeMissing) {
  Result result = example_result();
  EXPECT_FALSE(make_result(result).contains("contract"));
  EXPECT_FALSE(parse_result(make_result(result)).contract);
  result.contract = kBroken;
  const json record = make_result(result);
  EXPECT_EQ(record["contract"]["passed"], 16);
  EXPECT_EQ(record["contract"]["failed"][1],
            json::parse(R"({"clause": "all-padding samples", "grade": "fragile"})"));
  const Result read = parse_result(record);
  ASSERT_TRUE(read.contract);
  EXPECT_EQ(read.contract->count(), "16 of 19");
  EXPECT_EQ(read.contract->failures(),
            "wrong: padding invariance; fragile: all-padding samples, large logits");
  EXPECT_EQ(make_result(read), record);
}

TEST(ContractNotes, StandBelowTheTableWhereNotAllHolds) {
  Result own = example_result("torchscript"), kept = example_result("other"),
         ours = example_result();
  own.contract = kBroken;
  kept.contract = ContractRecord{.passed = 19, .of = 19, .failed = {}};
  const std::vector<Result> results = {own, kept, ours};
  const std::vector<Table> tables = accuracy_tables(results, {});
  ASSERT_EQ(tables.size(), 1u);
  int64_t notes = 0;
  for (const std::string& note : tables[0].notes) {
    if (note.find("contract") == std::string::npos) continue;
    ++notes;
    EXPECT_EQ(note,
              "WARNING: torchscript: 16 of 19 clauses of the contract hold; wrong: padding "
              "invariance; fragile: all-padding samples, large logits");
  }
  EXPECT_EQ(notes, 1);
}

TEST(ContractNotes, StandInEveryRunsRowAndOnItsPage) {
  Result own = example_result("torchscript"), kept = example_result("other");
  own.contract = kBroken;
  kept.contract = ContractRecord{.passed = 19, .of = 19, .failed = {}};
  const Table runs = results_long(std::vector<Result>{own, kept, example_result()});
  const auto column = std::ranges::find(runs.columns, "contract", &Column::header);
  ASSERT_NE(column, runs.columns.end());
  const auto at = static_cast<size_t>(column - runs.columns.begin());
  EXPECT_EQ(runs.rows[0][at], "16 of 19");
  EXPECT_EQ(runs.rows[0][at + 1],
            "wrong: padding invariance; fragile: all-padding samples, large logits");
  EXPECT_EQ(runs.rows[1][at] + runs.rows[1][at + 1], "19 of 19");
  EXPECT_EQ(runs.rows[2][at] + runs.rows[2][at + 1], "");
  const std::string page = run_page(own, "n", {}, {});
  EXPECT_NE(page.find("16 of 19; wrong: padding invariance;"), std::string::npos) << page;
  EXPECT_EQ(run_page(example_result(), "n", {}, {}).find("contract"), std::string::npos);
}

}  // namespace
}  // namespace lra
