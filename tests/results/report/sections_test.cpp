// Sections of a report: where a step's time goes, and runs that never began to learn.
#include <gtest/gtest.h>

#include "results/report/html_report.h"
#include "results/report/report.h"
#include "tests/results/examples.h"

namespace lra {
namespace {

TEST(Report, ShowsWhereAStepsTimeGoes) {
  Records records;
  records.where = {example_where(), example_where("b")};
  const auto files = make_report(records);
  EXPECT_EQ(files.size(), 3u);
  for (const char* name : {"report.md", "where-1.gp", "where.csv"})
    EXPECT_TRUE(files.contains(name)) << name;
  const std::string& report = files.at("report.md");
  EXPECT_TRUE(contains(report, "0 runs, 0 profile cells, 0 fidelity cells, 2 step profiles."));
  EXPECT_TRUE(contains(report, "| records | 2 step profiles |")) << report;
  const size_t picture = report.find("(where-1.svg)"), section = report.find("## Where a step");
  ASSERT_NE(picture, std::string::npos);
  EXPECT_LT(picture, section);
  EXPECT_TRUE(contains(report, "| a | 8.5 | 5 (55.6\u00a0%) | 1 (11.1\u00a0%) | 3 (33.3\u00a0%) |"))
      << report;
  EXPECT_TRUE(contains(report, "| 4.5 | 50.0 % | 2 | 0.2 | 2.0 % |")) << report;
  EXPECT_TRUE(contains(report, "**Ops of b: t N=64")) << report;
  EXPECT_TRUE(contains(report, "Xeon, 2 cores, 8 GiB | {\"lra\":\"0.1.0\"}")) << report;
  EXPECT_TRUE(contains(files.at("where.csv"), ",copies,aten::copy_,,forward,"))
      << files.at("where.csv");
  const std::string text = summary_text(records);
  EXPECT_TRUE(contains(text, "Time of a step by kind of work")) << text;
  EXPECT_FALSE(contains(text, "aten::mm")) << "the terminal shows no ops";
}

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
  records.results.push_back(example_result("nystrom", 3));  // an older record
  EXPECT_TRUE(contains(make_report(records).at("report.md"),
                       "WARNING: 1 of 2 runs (1 more do not say) never left the majority class"));
}

TEST(Pages, ShowWhereAStepsTimeGoesAsBarsAndTables) {
  Records records;
  records.where = {example_where(), example_where("b")};
  const std::string report =
      make_pages(records, {{"where-1", "<svg width=\"560\"/>"}}, {}).at("report.html");
  const size_t section = report.find("<h2 id=\"where\">"),
               picture = report.find("alt=\"Self time of a step by kind of work."),
               kinds = report.find("<h3>Time of a step by kind of work: "),
               parts = report.find("<h3>Time of a step by part: "),
               ops = report.find("<h3>Ops of b: ");
  ASSERT_NE(ops, std::string::npos);
  EXPECT_LT(section, picture);
  EXPECT_LT(picture, kinds);
  EXPECT_LT(kinds, parts);
  EXPECT_LT(parts, ops);
  EXPECT_TRUE(contains(report, "min-width: 364px"));
  EXPECT_TRUE(contains(report, "<a href=\"where.csv\">"));
  EXPECT_TRUE(contains(report, "of roofline</th>"));
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

TEST(Pages, NameAVariantOfTheData) {
  Records records;
  records.results = {example_result("nystrom")};
  Result& r = records.results[0];
  r.path = "runs/nystrom/result.json";
  EXPECT_FALSE(contains(make_pages(records, {}, {}).at("runs/nystrom.html"), "published numbers"));
  r.data.source = "CIFAR-10 (JPEG), from cifar10_jpeg.tar.xz";
  const auto pages = make_pages(records, {}, {});
  const std::string& page = pages.at("runs/nystrom.html");
  EXPECT_TRUE(contains(page, "<li>data: CIFAR-10 (JPEG), not the data of published numbers</li>"));
  EXPECT_TRUE(contains(page, "kind of data</th><td>CIFAR-10 (JPEG)</td>")) << page;
  EXPECT_TRUE(contains(pages.at("report.html"), "<td>listops, CIFAR-10 (JPEG)</td>"));
}

}  // namespace
}  // namespace lra
