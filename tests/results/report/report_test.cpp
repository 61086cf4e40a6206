// The whole report.
#include "results/report/report.h"

#include <gtest/gtest.h>

#include "results/records/store.h"
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
                                      "report.md"}));
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
