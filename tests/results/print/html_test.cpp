// The pages: what is in them, and what never is.
#include "results/print/html.h"

#include <gtest/gtest.h>

#include <regex>

#include "results/report/html_report.h"
#include "results/report/report.h"
#include "results/store/store.h"
#include "tests/results/examples.h"

namespace lra {
namespace {

const std::string kHostileText =
    "</td><script>alert(1)</script><img src=x onerror=alert(2)>\"'`&amp;\n\x1b[31m\xff\xe2\x80\xae";

// What a browser could take for markup of a record's own.
void expect_harmless_page(const std::string& name, const std::string& html) {
  EXPECT_FALSE(contains(html, "<script")) << name;
  EXPECT_FALSE(contains(html, "<img src=x")) << name;
  EXPECT_FALSE(contains(html, "\x1b")) << name;
  EXPECT_FALSE(contains(html, "\xff")) << name;
  EXPECT_FALSE(contains(html, "\xe2\x80\xae")) << name;
  EXPECT_FALSE(contains(html, "http://") || contains(html, "https://")) << name;
  EXPECT_TRUE(contains(html, "default-src 'none'")) << name;
}

std::vector<LogLine> example_log() {
  std::vector<LogLine> log;
  for (int64_t step = 10; step <= 100; step += 10) {
    const double x = static_cast<double>(step);
    log.push_back({.step = step,
                   .split = LogSplit::train,
                   .loss = 100 / x,
                   .accuracy = x / 200,
                   .learning_rate = 0.001,
                   .seconds = x});
    if (step % 50 == 0)
      log.push_back({.step = step,
                     .split = LogSplit::dev,
                     .loss = 110 / x,
                     .accuracy = x / 250,
                     .learning_rate = 0.001,
                     .seconds = x + 1});
  }
  return log;
}

Result whole_result(const std::string& attention) {
  Result r = with_predictions(example_result(attention), 50, [](int64_t i) { return i % 3 != 0; });
  auto predictions = std::make_shared<Predictions>(*r.predictions);
  for (int64_t i = 0; i < 50; ++i)
    predictions->confidence.push_back(0.5f + 0.01f * static_cast<float>(i));
  r.predictions = predictions;
  r.log = std::make_shared<std::vector<LogLine>>(example_log());
  r.path = "runs/" + attention + "/result.json";
  return r;
}

TEST(Html, TextIsEscaped) {
  EXPECT_EQ(html_text("<a href=\"x\">'&\n\x01"), "&lt;a href=&quot;x&quot;&gt;&#39;&amp; ?");
  EXPECT_EQ(html_lines("a<\nb\n"), "a&lt;\nb\n");
  EXPECT_EQ(html_lines(""), "");
}

TEST(Html, ATableIsInABoxThatScrollsByItself) {
  const Table table{.title = "T & U",
                    .columns = {{"name", Align::kLeft}, {"n"}},
                    .rows = {{"a<b", "1 [0, 2]"}, {std::string(60, 'x'), "2"}, {"short"}},
                    .notes = {"a note", "WARNING: not learned"},
                    .see = {2},
                    .bold = {{0, 1}}};
  EXPECT_EQ(to_html(table),
            "<h3>T &amp; U</h3>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" "
            "aria-label=\"T &amp; U\"><table>\n<thead><tr><th scope=\"col\">name</th>"
            "<th scope=\"col\" class=\"n\">n</th></tr></thead>\n<tbody>\n"
            "<tr><th scope=\"row\">a&lt;b</th><td class=\"n\"><b>1</b> [0, 2]</td></tr>\n"
            "<tr><th scope=\"row\" class=\"wide\">" +
                std::string(60, 'x') +
                "</th><td class=\"n\">2</td></tr>\n"
                "<tr><th scope=\"row\">short</th><td class=\"n\"></td></tr>\n"
                "</tbody></table></div>\n<ul class=\"notes\">\n<li>a note</li>\n"
                "<li class=\"warn\">WARNING: not learned</li>\n"
                "<li>see <a href=\"#note-2\">[2]</a></li>\n</ul>\n");
  EXPECT_EQ(
      notes_html({"x", "a<b"}),
      "<ol class=\"notes\">\n<li id=\"note-1\">x</li>\n<li id=\"note-2\">a&lt;b</li>\n</ol>\n");
}

TEST(Html, ATableOfManyColumnsBreaksItsCellsButNoInterval) {
  Table table{.title = "", .columns = std::vector<Column>(9, Column{"h"}), .rows = {}, .notes = {}};
  table.rows.push_back({"", "37.05 [34.96, 39.19] n=3"});
  EXPECT_TRUE(contains(to_html(table), "<td class=\"n dense\">37.05 [34.96,&nbsp;39.19] n=3</td>"));
  table.columns.resize(8);
  EXPECT_TRUE(contains(to_html(table), "<td class=\"n\">37.05 [34.96, 39.19] n=3</td>"));
  // Few columns, but together wider than a page.
  table.rows.push_back(std::vector<std::string>(8, "37.05 [34.96, 39.19]"));
  EXPECT_TRUE(contains(to_html(table), "<td class=\"n dense\">37.05 [34.96,&nbsp;39.19]</td>"));
}

TEST(Html, PicturesAreInsideThePage) {
  EXPECT_TRUE(contains(svg_figure("a", "x\"y"), "min-width: 0px\" alt=\"x&quot;y\""));
  EXPECT_TRUE(contains(svg_figure("<svg width=\"560\"/>", ""), "min-width: 364px"));
  EXPECT_TRUE(contains(svg_figure("ab", ""), "data:image/svg+xml;base64,YWI=\""));
  EXPECT_TRUE(contains(png_figure("abc", "", 192), "width=\"192\""));
  EXPECT_TRUE(contains(png_figure("\xff\xfe\xfd", "", 1), "base64,//79\""));
  EXPECT_TRUE(contains(png_figure("abcd", "", 1), "data:image/png;base64,YWJjZA==\""));
}

TEST(Pages, HoldEverySectionThatTheirRecordsAllow) {
  Records records;
  records.results = {whole_result("nystrom"), whole_result("standard")};
  for (Result& r : records.results) r.config["training"]["batch"] = 32;
  records.profiles = {example_profile("standard", 512, 1, 1)};
  records.bad = {{"x/result.json", "cut short"}};
  const auto pages = make_pages(
      records,
      {{"score-1", "<svg/>"}, {"tradeoff-1-time", "<svg/>"}, {"curves-1-dev-loss", "<svg/>"}}, {});
  std::vector<std::string> names;
  for (const auto& [name, page] : pages) names.push_back(name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"report.html", "runs/nystrom.html", "runs/standard.html"}));
  const std::string& report = pages.at("report.html");
  for (const char* id :
       {"accuracy", "tradeoff", "curves", "training", "memory-time", "runs", "provenance", "bad"})
    EXPECT_TRUE(contains(report, fmt::format("<h2 id=\"{}\">", id))) << id;
  EXPECT_FALSE(contains(report, "<h2 id=\"fidelity\">"));
  EXPECT_TRUE(contains(report, "<a href=\"runs/nystrom.html\">"));
  EXPECT_TRUE(contains(report, "1 files or runs could not be used, or not wholly"));
  EXPECT_TRUE(contains(report, "x/result.json</th><td>cut short</td>"));
  EXPECT_TRUE(contains(report, "Beside the published numbers"));
  EXPECT_TRUE(contains(report, "Differences to the best"));
  EXPECT_TRUE(contains(report, std::string(64, 'a')));
  // What is said twice below stands once, at the end; links and a summary stand on top.
  const std::string data = "data: listops aaaaaaaa";
  EXPECT_EQ(report.find(data), report.rfind(data));
  EXPECT_GT(report.find(data), report.find("<h2 id=\"notes\">"));
  const size_t score = report.find("<h2 id=\"score\">");
  ASSERT_NE(score, std::string::npos);
  for (const char* link : {"accuracy.csv", "accuracy.tex", "memory_time.tex", "runs.csv"})
    EXPECT_LT(report.find(fmt::format("<a href=\"{}\">", link)), score) << link;
  EXPECT_LT(report.find("highest accuracy"), score);
  EXPECT_LT(score, report.find("<h2 id=\"accuracy\">"));
  for (const char* alt : {"alt=\"listops: accuracy, speed and memory of training. Across: training",
                          "alt=\"listops: accuracy against time of a training step, ms. Across:",
                          "nystrom: 66.0 at 100."})
    EXPECT_TRUE(contains(report, alt)) << alt;
}

TEST(Pages, OfARunShowItsResultConfusionAndProvenance) {
  Result r = whole_result("nystrom");
  r.config["overridden"] = {"training.steps"};
  const std::string page = run_page(
      r, "n", {{"n-loss", "<svg/>"}, {"n-accuracy", "<svg/>"}},
      [](const Result&, int64_t index) { return Sample{.text = fmt::format("(MAX {} )", index)}; });
  EXPECT_TRUE(contains(page, "<h1>nystrom on listops, seed 0</h1>"));
  EXPECT_TRUE(contains(page, "66.00 % [52.15, 77.56], 33 of 50")) << page;
  EXPECT_TRUE(contains(page,
                       "alt=\"nystrom on listops, seed 0, loss. Across: steps; up: loss. training: "
                       "10.0 at 10.0 to 1 at "));
  EXPECT_TRUE(contains(page, "<th scope=\"row\">training.steps</th><td>5000</td>"));
  EXPECT_TRUE(contains(page, "<li>overridden: training.steps=5000</li>"));
  // Label 0 stands at 0, 10, 20, 30 and 40, of which 0 and 30 are wrong: predicted 1.
  EXPECT_TRUE(contains(page,
                       "<tr><th scope=\"row\">0</th><td style=\"--share: 0.270\">3</td>"
                       "<td style=\"--share: 0.180\">2</td><td style=\"--share: 0.000\">0</td>"));
  EXPECT_TRUE(contains(page, "<td style=\"--share: 0\">60.0</td>"));
  // The most confident mistake is the last wrong one.
  const size_t first = page.find("Test example 48: label 8, predicted 9 with 98.0 %"),
               second = page.find("Test example 45: label 5, predicted 6 with 95.0 %");
  EXPECT_NE(first, std::string::npos);
  EXPECT_LT(first, second);
  EXPECT_TRUE(contains(page, "<pre>(MAX 48 )</pre>"));
  EXPECT_EQ(confident_mistakes(*r.predictions, 3), (std::vector<int64_t>{48, 45, 42}));
}

TEST(Pages, OfARunSayWhatCannotBeShown) {
  Result r = whole_result("nystrom");
  EXPECT_TRUE(contains(run_page(r, "n", {}, {}), "The examples are not shown: no data given"));
  auto bare = std::make_shared<Predictions>(*r.predictions);
  bare->confidence.clear();
  r.predictions = bare;
  EXPECT_TRUE(contains(run_page(r, "n", {}, {}), "written without their confidence"));
  auto many = std::make_shared<Predictions>();
  for (int32_t i = 0; i < 100; ++i) {
    many->labels.push_back(i);
    many->predicted.push_back(i);
  }
  r.predictions = many;
  EXPECT_TRUE(contains(run_page(r, "n", {}, {}), "100 classes are too many to show"));
  r.predictions = nullptr;
  EXPECT_FALSE(contains(run_page(r, "n", {}, {}), "Confusion"));
  r = example_result();
  r.status = Status::oom;
  r.reason = "at step 3";
  r.test.reset();
  EXPECT_TRUE(
      contains(run_page(r, "n", {}, {}), "<th scope=\"row\">reason</th><td>at step 3</td>"));
}

TEST(Pages, HaveNamesThatAreSafeAndDifferent) {
  Result plain = example_result(), path = example_result(), long_one = example_result();
  path.attention.label = "../../etc/passwd";
  long_one.attention.label = std::string(5000, 'X');
  Result empty = example_result();
  empty.task = empty.attention.label = "<>";
  const auto names = page_names(std::vector<Result>{plain, plain, path, long_one, empty});
  EXPECT_EQ(names,
            (std::vector<std::string>{"listops-nystrom-seed0", "listops-nystrom-seed0-2",
                                      "listops-etc-passwd-seed0",
                                      "listops-" + std::string(72, 'x') + "-seed0", "seed0"}));
}

TEST(Pages, AreNamedByTheFoldersOfTheirRuns) {
  const auto names_of = [](const std::vector<std::string>& folders) {
    std::vector<Result> results;
    for (const std::string& folder : folders) {
      results.push_back(example_result());
      results.back().path = folder + "/result.json";
    }
    return page_names(results);
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names_of({"runs/lr-1e-3"}), Names{"lr-1e-3"});
  EXPECT_EQ(names_of({"/x/runs/a", "/x/runs/b"}), (Names{"a", "b"}));
  EXPECT_EQ(names_of({"x/a", "y/a"}), (Names{"x-a", "y-a"}));
  EXPECT_EQ(names_of({"out/runs/listops/nystrom/seed0"}), Names{"listops-nystrom-seed0"});
  EXPECT_EQ(names_of({"out/runs/listops/nystrom/seed0", "out/runs/text/nystrom[a=1]/seed0"}),
            (Names{"listops-nystrom-seed0", "text-nystrom-a-1-seed0"}));
  EXPECT_EQ(names_of({"one/runs/listops/nystrom/seed0", "two/runs/listops/nystrom/seed0"}),
            (Names{"one-listops-nystrom-seed0", "two-listops-nystrom-seed0"}));
  EXPECT_EQ(names_of({"a", "a"}), (Names{"a", "a-2"}));
  EXPECT_EQ(names_of({"../../etc", "<script>"}), (Names{"etc", "script"}));
}

TEST(Pages, HostileRecordsStayText) {
  Result r = whole_result("nystrom");
  r.task = r.protocol = r.attention.label = r.attention.name = r.data.source = r.data.fingerprint =
      r.machine.processor = r.machine.gpu = r.path = kHostileText;
  r.software = {{kHostileText, kHostileText}};
  r.attention.options[kHostileText] = kHostileText;
  r.config["overridden"] = {kHostileText};
  r.config[kHostileText] = {{kHostileText, {kHostileText}}};
  Result failed = r;
  failed.status = Status::oom;
  failed.reason = kHostileText;
  Profile p = example_profile("standard", 512, 1, 1);
  p.attention.label = p.dtype = p.device = p.machine.processor = p.noisy = kHostileText;
  Records records{.results = {r, failed}, .profiles = {p}, .bad = {{kHostileText, kHostileText}}};
  const auto pages = make_pages(records, {}, [](const Result&, int64_t) {
    return Sample{.text = kHostileText, .png = {kHostileText}};
  });
  ASSERT_EQ(pages.size(), 3u);
  for (const auto& [name, page] : pages) {
    expect_harmless_page(name, page);
    EXPECT_FALSE(contains(name, "script>")) << name;
  }
  EXPECT_TRUE(contains(pages.at("report.html"), "&lt;script&gt;alert(1)"));
  // gnuplot's scripts quote what comes from records, and name files by our own words alone.
  for (const auto& [name, content] : make_report(records)) {
    if (!name.ends_with(kPlotScript)) continue;
    EXPECT_TRUE(contains(content, "alert(1)")) << name;
    EXPECT_FALSE(contains(outside_quotes(content), "alert(")) << name;
  }
}

TEST(Pages, HugeNumbersBreakNothing) {
  Result r = whole_result("nystrom"), other = whole_result("standard");
  r.training = {.seconds = 1e149,
                .steps_per_second = 1e149,
                .tokens_per_second = 5e-324,
                .peak_memory_mib = 1e149};
  r.parameters = INT64_MAX;
  r.steps = INT64_MAX;
  r.seed = UINT64_MAX;
  auto log = example_log();
  log[3].loss = 1e308;
  log[4].step = INT64_MAX;
  r.log = std::make_shared<std::vector<LogLine>>(log);
  Records records;
  records.results = {parse_result(make_result(r)), other};
  records.results[0].log = r.log;
  EXPECT_TRUE(contains(make_pages(records, {}, {}).at("report.html"), "18446744073709551615"));
  for (const auto& [name, content] : make_report(records)) {
    EXPECT_FALSE(contains(content, "1e+308 1e+308")) << name;
    EXPECT_FALSE(std::regex_search(content, std::regex("\\b(nan|inf)\\b"))) << name;
  }
}

}  // namespace
}  // namespace lra
