// What a suite says at its end: with what to go on.
#include "harness/suite/finish.h"

#include <set>

#include "harness/host/runtime.h"
#include "harness/report/write_report.h"
#include "results/records/file_names.h"
#include "results/store/store.h"
#include "tests/harness/suite/fixture.h"

namespace lra::suite {
namespace {

namespace fs = std::filesystem;

class NextCommandsTest : public SuiteTest {
 protected:
  static Suite planned(const std::string& budget, const std::string& attentions, fs::path out,
                       std::vector<uint64_t> seeds = {0}) {
    SuiteRequest request;
    request.budget = load_budget("smoke");
    request.budget.name = budget;
    request.tasks = request.budget.default_tasks();
    request.attentions = parse_attentions(attentions);
    request.seeds = std::move(seeds);
    request.out = std::move(out);
    return plan_suite(request);
  }
};

TEST_F(NextCommandsTest, AreThreeThatNameWhatThisSuiteMade) {
  const std::string program = out("checkout/run").string();
  fs::create_directories(out("checkout/tests/examples"));
  write_file(out("checkout/tests/examples/my_attention.cpp"), "");
  const auto lines =
      next_commands(planned("smoke", "standard,nystrom[num_landmarks=8]", "a b", {0, 1}), program);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_TRUE(lines[0].starts_with(
      program + " compare 'a b/runs/listops/standard' 'a b/runs/listops/nystrom[num_landmarks=8]'"))
      << lines[0];
  EXPECT_TRUE(lines[1].starts_with(
      "LRA_EXTRA_VARIANTS=" + out("checkout/tests/examples/my_attention.cpp").string() + " " +
      program + " suite --budget smoke --attentions standard,softplus --out 'a b-own'"))
      << lines[1];
  EXPECT_TRUE(lines[2].starts_with(program + " suite plan --budget quick --probe")) << lines[2];
}

TEST_F(NextCommandsTest, AreOnlyWhatThereIs) {
  const auto lines = next_commands(planned("smoke", "standard", "s"), "lra");
  ASSERT_EQ(lines.size(), 2u) << "one attention, and no checkout to build another into";
  EXPECT_TRUE(lines[0].starts_with("lra list attentions")) << lines[0];
  EXPECT_TRUE(next_commands(planned("quick", "standard,linear", "s"), "lra").empty());
}

TEST_F(NextCommandsTest, EndASmokeSuite) {
  json budget = read_json(budget_);
  budget["name"] = "smoke";
  write_json(budget_, budget, Links::replace);
  const ProgramResult result = run_program(words("s", "standard,linear"));
  ASSERT_EQ(result.status, 0) << result.err;
  const size_t at = result.err.find("\nnext: ");
  ASSERT_NE(at, std::string::npos) << result.err;
  const std::string end = result.err.substr(at + 1);
  EXPECT_EQ(std::ranges::count(end, '\n'), 3) << end;
  const std::string first = end.substr(0, end.find('\n'));
  const std::string compare = "compare " + (out("s") / "runs/listops/standard").string() + " " +
                              (out("s") / "runs/listops/linear").string();
  EXPECT_NE(first.find(compare), std::string::npos) << first;
  EXPECT_EQ(run_program({"compare", (out("s") / "runs/listops/standard").string(),
                         (out("s") / "runs/listops/linear").string()})
                .status,
            0);
}

// Under the protocol they are two; measured by itself, without it, they are one.
TEST_F(NextCommandsTest, WhatTheProtocolAloneTellsApartIsMeasuredOnce) {
  const fs::path own = out("own.json");
  fs::create_directories(own.parent_path());
  write_file(own, json{{"schema", "lra.protocol/1"},
                       {"extends", "lra-strict"},
                       {"name", "own"},
                       {"attentions", {{"nystrom", {{"num_landmarks", 8}}}}}}
                      .dump());
  const ProgramResult result = run_program(
      with(words("s", "nystrom,nystrom[num_landmarks=64]"), {"--protocol", own.string()}));
  ASSERT_EQ(result.status, 0) << result.err;
  std::set<std::string> labels;
  for (const json& cell : read_lines(out("s") / kProfileFile))
    labels.insert(cell["attention"]["label"]);
  EXPECT_EQ(labels, std::set<std::string>{"nystrom"});
}

TEST_F(NextCommandsTest, AProfileWithACrashIsNotDone) {
  const auto w = words(
      "s", "standard,torchscript:" LRA_SOURCE_DIR "/tests/fixtures/torchscript-wrong_shape.pt");
  for (int call = 0; call < 2; ++call) {
    const ProgramResult result = run_program(w);
    EXPECT_EQ(result.status, 1);
    EXPECT_NE(result.err.find("1 of 2 cells were not measured: crash of torchscript:"),
              std::string::npos)
        << result.err;
    EXPECT_FALSE(fs::exists(out("s") / "profile.done"));
    EXPECT_TRUE(fs::exists(out("s") / "report" / "report.md"));
  }
}

TEST_F(NextCommandsTest, AProfileThatLostCellsIsMeasuredAgain) {
  const auto w = words("s", "standard,linear");
  ASSERT_EQ(run_program(w).status, 0);
  for (const char* left : {"", "null", "{\"sha256\": 3}"}) {  // as a full disk leaves it
    write_file(out("s") / "profile.done", left);
    const ProgramResult again = run_program(w);
    EXPECT_EQ(again.status, 0) << again.err;
    EXPECT_TRUE(read_json(out("s") / "profile.done").contains("profile")) << left;
  }
  const fs::path file = out("s") / kProfileFile;
  const std::string whole = read_file(file);
  ASSERT_EQ(std::ranges::count(whole, '\n'), 2);
  write_file(file, whole.substr(0, whole.find('\n') + 1));
  EXPECT_EQ(run_program(w).status, 0);
  EXPECT_EQ(std::ranges::count(read_file(file), '\n'), 2);
  write_file(file, whole.substr(0, whole.find('\n') / 2));
  const ProgramResult cut = run_program(w);
  EXPECT_EQ(cut.status, 1);
  EXPECT_NE(cut.err.find("remove " + file.string() + ", and the same command"), std::string::npos)
      << cut.err;
}

// Its cells would stand in two tables, of which one is never whole.
TEST_F(NextCommandsTest, AProfileGoesOnWithTheThreadsThatItBeganWith) {
  if (host::set_threads(0) < 2) GTEST_SKIP() << "all processors are one thread";
  ASSERT_EQ(run_program(words("s", "standard,linear")).status, 0);
  const fs::path file = out("s") / kProfileFile;
  const std::string whole = read_file(file);
  write_file(file, whole.substr(0, whole.find('\n') + 1));
  const ProgramResult rest = run_program({"suite", "--out", out("s").string(), "--resume"});
  ASSERT_EQ(rest.status, 0) << rest.err;
  EXPECT_NE(rest.err.find("the profile goes on with 1 thread, as its cells had"), std::string::npos)
      << rest.err;
  for (const json& line : read_lines(file)) EXPECT_EQ(line["threads"], 1);
}

TEST_F(NextCommandsTest, AReportThatFailedIsMadeByWhatThereIs) {
  const fs::path suite = out("a b");
  fs::create_directories(suite / "runs");
  write_file(suite / "report", "in the folder's place");
  const std::string message =
      error_text([&] { report_suite(planned("quick", "standard", suite)); });
  const std::string command = "lra report '" + (suite / "runs").string() + "' --out '" +
                              (suite / "report").string() + "' makes it";
  EXPECT_TRUE(message.ends_with("; " + command)) << message;
}

TEST_F(NextCommandsTest, AReportThatEndsBeforeItsTimeIsNone) {
  const fs::path folder = out("report"), file = folder / kReportFile;
  const Records records = find_records({LRA_SOURCE_DIR "/results/measured/smoke"});
  write_report(records, folder);
  ASSERT_TRUE(fs::exists(file));
  fs::remove(folder / "runs.csv");
  fs::create_directory(folder / "runs.csv");
  write_file(folder / "runs.csv/file", "in its place");
  EXPECT_THROW(write_report(records, folder), Error);
  EXPECT_FALSE(fs::exists(folder / kReportPage));
  EXPECT_FALSE(fs::exists(file)) << "by which lra suite status knows a whole one";
}

// Else a first suite shows two attentions between which there is nothing to see.
TEST(SmokeBudget, ItsAttentionsDifferAsMeasured) {
  const fs::path runs = fs::path(LRA_SOURCE_DIR) / "results/measured/smoke/runs/listops";
  const auto attentions = parse_attentions(load_budget("smoke").attentions);
  ASSERT_EQ(attentions.size(), 2u);
  std::vector<json> intervals;
  for (const AttentionSpec& attention : attentions) {
    const json result = read_json(runs / attention.text() / "seed0" / kResultFile);
    intervals.push_back(result["test"]["ci95"]);
  }
  EXPECT_TRUE(intervals[0][1] < intervals[1][0] || intervals[1][1] < intervals[0][0])
      << intervals[0] << " " << intervals[1];
}

}  // namespace
}  // namespace lra::suite
