// Sections of a report: runs that never began to learn.
#include <gtest/gtest.h>

#include "results/report/html_report.h"
#include "results/report/report.h"
#include "tests/results/examples.h"

namespace lra {
namespace {

TEST(Report, WarnsOfRunsThatNeverLeftTheMajorityClass) {
  Result stuck = example_result("nystrom", 1), free = example_result("nystrom", 2);
  for (Result* r : {&stuck, &free}) {
    r->dev = r->test;
    r->data.dev_majority = 0.18;
  }
  free.left_majority_at = 100;
  Records records;
  records.results = {parse_result(make_result(free))};
  EXPECT_FALSE(contains(make_report(records).at("report.md"), "majority class"));
  records.results.push_back(parse_result(make_result(stuck)));
  const std::string report = make_report(records).at("report.md");
  EXPECT_TRUE(contains(report, "## Runs that never left the majority class")) << report;
  EXPECT_TRUE(contains(report, "| listops | nystrom | 1 | – | 1000 | 37.05 | 18.00 |")) << report;
  EXPECT_TRUE(contains(report, "WARNING: 1 of 2 runs never left the majority class")) << report;
}

TEST(Pages, WarnOfARunThatNeverLeftTheMajorityClass) {
  Result r = example_result("nystrom");
  r.path = "runs/nystrom/result.json";
  r.dev = r.test;
  r.data.dev_majority = 0.18;
  r.left_majority_at = 20;
  const std::string warning = "<li class=\"warn\">WARNING: never left the majority class",
                    of_all = "<li class=\"warn\">WARNING: 1 of 1 runs never left the majority";
  const auto pages = [&r] {
    Records records;
    records.results = {r};
    return make_pages(records, {}, {});
  };
  EXPECT_FALSE(contains(pages().at("runs/nystrom.html"), warning));
  EXPECT_FALSE(contains(pages().at("report.html"), of_all));
  r.left_majority_at.reset();
  EXPECT_TRUE(contains(pages().at("runs/nystrom.html"), warning));
  EXPECT_TRUE(contains(pages().at("report.html"), of_all));
  EXPECT_TRUE(contains(pages().at("report.html"), "<h2 id=\"curves\">")) << "without pictures too";
}

}  // namespace
}  // namespace lra
