// `lra report` as a user runs it.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "attention_variants/base/files.h"
#include "lra/data/task.h"
#include "results/records/profile.h"
#include "results/where/record.h"
#include "tests/harness/program.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

class ReportCommand : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_ / "runs/a"); }

  void write(const std::string& name, const std::string& text) const {
    write_file(folder_ / name, text);
  }
  std::string read(const std::string& name) const { return read_file(folder_ / name); }
  std::string in(const std::string& name) const { return (folder_ / name).string(); }
  ProgramResult report(const std::string& path) const {
    return run_program({"report", in(path), "--out", in("out")});
  }

  Scratch scratch_;
  const fs::path folder_ = scratch_.path();
};

std::string a_result() {
  Result r;
  r.task = "listops";
  r.attention = {.name = "standard", .label = "standard", .options = json::object()};
  r.protocol = "lra-strict";
  r.test = Accuracy{.accuracy = 0.375, .correct = 750, .count = 2000, .ci95 = {}, .by_length = {}};
  r.data.fingerprint = "abc";
  return make_result(r).dump();
}

TEST_F(ReportCommand, WritesTheFilesAndPrintsTheTables) {
  write("runs/a/result.json", a_result());
  write("runs/broken.jsonl", "{\"schema\": ");
  const ProgramResult outcome = report("runs");
  EXPECT_EQ(outcome.status, 0) << outcome.text();
  EXPECT_NE(outcome.text().find("37.50 [35.40, 39.64]"), std::string::npos) << outcome.text();
  EXPECT_NE(outcome.text().find("broken.jsonl: line 1: not valid JSON"), std::string::npos)
      << outcome.text();
  EXPECT_NE(read("out/report.md").find("37.50 \\[35.40, 39.64\\]"), std::string::npos);
  EXPECT_NE(read("out/accuracy.csv").find("37.5000"), std::string::npos);
  EXPECT_TRUE(fs::exists(folder_ / "out/accuracy.tex"));
}

std::string a_profile(int64_t length) {
  Profile p;
  p.attention = {.name = "standard", .label = "standard", .options = json::object()};
  p.length = length;
  p.batch = p.heads = 1;
  p.head_dim = 8;
  p.scope = ProfileScope::model;
  p.mode = ProfileMode::training;
  p.dtype = "float32";
  p.device = "cpu";
  p.time = ProfileTime{.median = 1, .samples = {1}};
  p.memory = ProfileMemory{.peak = 1};
  return make_profile(p).dump() + "\n";
}

TEST_F(ReportCommand, LeavesTheProbesOfASuiteOut) {
  write("runs/a/result.json", a_result());
  write("runs/profile.jsonl", a_profile(1111));
  write("runs/probe.jsonl", a_profile(7777) + "{\n");
  const ProgramResult outcome = report("runs");
  EXPECT_EQ(outcome.status, 0) << outcome.text();
  const std::string table = read("out/memory_time.csv");
  EXPECT_NE(table.find("1111"), std::string::npos) << table;
  EXPECT_EQ(table.find("7777"), std::string::npos) << table;
  EXPECT_EQ(outcome.text().find("probe.jsonl"), std::string::npos) << outcome.text();
  // Who names the file itself means it.
  EXPECT_EQ(report("runs/probe.jsonl").status, 0);
  EXPECT_NE(read("out/memory_time.csv").find("7777"), std::string::npos);
}

Where a_where() {
  Where record;
  record.attention = {.name = "standard", .label = "standard", .options = json::object()};
  record.length = record.batch = record.threads = record.steps = 1;
  record.protocol = "lra-strict";
  record.task = "listops";
  record.dtype = "float32";
  record.device = "cpu";
  record.step_ms = 2;
  record.recorded_ms = record.ops_ms = 3;
  record.roofline = {.gflops = 1, .gigabytes_per_second = 1};
  record.ops = {{.kind = WorkKind::products, .op = "aten::mm", .part = "head", .ms = 3}};
  return record;
}

TEST_F(ReportCommand, ShowsWhereAStepsTimeGoes) {
  write("runs/where.jsonl", make_where(a_where()).dump() + "\n");
  const ProgramResult outcome = report("runs");
  EXPECT_EQ(outcome.status, 0) << outcome.text();
  EXPECT_NE(outcome.text().find("Time of a step by kind of work"), std::string::npos)
      << outcome.text();
  EXPECT_NE(read("out/where-1.gp").find("'standard: step 2 ms'"), std::string::npos);
  EXPECT_NE(read("out/where.csv").find("aten::mm"), std::string::npos);
  EXPECT_NE(read("out/report.html").find("<h2 id=\"where\">"), std::string::npos);
  if (outcome.err.find("gnuplot is not installed") != std::string::npos)
    GTEST_SKIP() << "gnuplot is not installed";
  EXPECT_EQ(outcome.err.find("exit status"), std::string::npos) << outcome.err;
  EXPECT_NE(read("out/where-1.svg").find("standard: step 2 ms"), std::string::npos);
  EXPECT_NE(read("out/report.html").find("alt=\"Self time of a step"), std::string::npos);
}

TEST_F(ReportCommand, SaysWhatARecordOfAStepLacks) {
  json record = make_where(a_where());
  record.erase("ops");
  write("where.jsonl", record.dump() + "\n");
  const ProgramResult outcome = report("where.jsonl");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.text().find(in("where.jsonl") + ": line 1: field 'ops' is missing"),
            std::string::npos)
      << outcome.text();
  EXPECT_FALSE(fs::exists(folder_ / "out"));
}

TEST_F(ReportCommand, WritesPagesAndEventFiles) {
  write("runs/a/result.json", a_result());
  write("runs/a/metrics.jsonl",
        "{\"step\":1,\"split\":\"train\",\"loss\":2,\"accuracy\":0.1,\"learning_rate\":0.1,"
        "\"seconds\":1}\n{\"step\":2,\"split\":\"dev\",\"loss\":2,\"accuracy\":0.1,"
        "\"learning_rate\":0.1,\"seconds\":2}\n");
  const ProgramResult outcome =
      run_program({"report", in("runs"), "--out", in("out"), "--tensorboard", in("board")});
  EXPECT_EQ(outcome.status, 0) << outcome.text();
  EXPECT_NE(outcome.err.find("report.html is the page to open"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("wrote the logs of 1 runs to " + in("board")), std::string::npos)
      << outcome.err;
  EXPECT_NE(read("out/report.html").find("runs/a.html"), std::string::npos);
  const std::string page = read("out/runs/a.html");
  const bool drawn = outcome.err.find("gnuplot is not installed") == std::string::npos;
  EXPECT_EQ(
      page.find("alt=\"standard on listops, seed 0, loss. Across: steps") != std::string::npos,
      drawn);
  EXPECT_NE(read("board/a/events.out.tfevents.0.lra").find("brain.Event:2"), std::string::npos);
  for (const auto& entry : fs::directory_iterator(folder_ / "out"))
    EXPECT_FALSE(entry.path().filename().string().starts_with(".")) << entry.path();
}

TEST_F(ReportCommand, ShowsTheExamplesOfConfidentMistakes) {
  prepare_tiny_listops(folder_ / "data");
  const PreparedData data(folder_ / "data", "listops", /*check_hashes=*/true);
  Result r = parse_result(json::parse(a_result()));
  const Split& split = data.split("test");
  std::string predictions = "index,label,predicted,confidence\n";
  for (int64_t i = 0; i < split.size(); ++i)
    predictions += std::to_string(i) + "," + std::to_string(split.label(i)) + "," +
                   std::to_string(i == 7 ? (split.label(i) + 1) % 10 : split.label(i)) + ",0.9\n";
  r.test = Accuracy{.accuracy = 0.98, .correct = 49, .count = 50, .ci95 = {}, .by_length = {}};
  r.data.fingerprint = data.manifest().fingerprint();
  write("runs/a/result.json", make_result(r).dump());
  write("runs/a/predictions-test.csv", predictions);
  write("runs/a/config.json", json{{"data", {{"directory", in("data")}}}}.dump());
  EXPECT_EQ(report("runs").status, 0);
  const std::string page = "out/runs/a.html";
  std::vector<int64_t> ids(static_cast<size_t>(split.length(7)));
  split.copy(7, 0, static_cast<int64_t>(ids.size()), ids.data());
  const std::string text = task("listops").render(std::vector<uint16_t>(ids.begin(), ids.end()));
  EXPECT_NE(read(page).find("<pre>" + text + "</pre>"), std::string::npos) << text;
  // Of other data nothing is shown.
  r.data.fingerprint = "abc";
  write("runs/a/result.json", make_result(r).dump());
  EXPECT_EQ(report("runs").status, 0);
  EXPECT_NE(read(page).find("The examples are not shown: the data in " + in("data") +
                            " are others now than the run was tested on"),
            std::string::npos);
  fs::remove(folder_ / "runs/a/config.json");
  EXPECT_EQ(report("runs").status, 0);
  EXPECT_NE(read(page).find("no config.json beside the record"), std::string::npos);
}

TEST_F(ReportCommand, ShowsPicturesOfATaskOfImages) {
  task("pathfinder")
      .prepare(
          {.out = folder_ / "data", .seed = 1, .train = 2, .dev = 2, .test = 2, .resolution = 32});
  const PreparedData data(folder_ / "data", "pathfinder", /*check_hashes=*/true);
  const Split& split = data.split("test");
  Result r = parse_result(json::parse(a_result()));
  r.task = "pathfinder";
  r.test = Accuracy{.accuracy = 0, .correct = 0, .count = 2, .ci95 = {}, .by_length = {}};
  r.data.fingerprint = data.manifest().fingerprint();
  write("runs/a/result.json", make_result(r).dump());
  write("runs/a/predictions-test.csv",
        "index,label,predicted,confidence\n0," + std::to_string(split.label(0)) + "," +
            std::to_string(1 - split.label(0)) + ",0.9\n1," + std::to_string(split.label(1)) + "," +
            std::to_string(1 - split.label(1)) + ",0.8\n");
  write("runs/a/config.json", json{{"data", {{"directory", in("data")}}}}.dump());
  EXPECT_EQ(report("runs").status, 0);
  const std::string page = read("out/runs/a.html"),
                    start = "src=\"data:image/png;base64,iVBORw0KGgo";  // a PNG's first bytes
  const size_t first = page.find(start);
  ASSERT_NE(first, std::string::npos);
  EXPECT_NE(page.find(start, first + 1), std::string::npos);
}

TEST_F(ReportCommand, HostileAndBrokenFilesAreListedAndTheRestIsReported) {
  const std::string hostile = "</td><script>alert(1)</script>";
  write("runs/a/result.json", a_result());
  json bad = json::parse(a_result());
  bad["task"] = bad["protocol"] = bad["attention"]["name"] = hostile;
  const auto place = [&](const std::string& name, const std::string& text) {
    fs::create_directories(folder_ / "runs" / name);
    write("runs/" + name + "/result.json", text);
  };
  place("script<script>", bad.dump());
  write("runs/script<script>/metrics.jsonl", "{\"step\": \"" + hostile + "\"}\n");
  write("runs/script<script>/predictions-test.csv", hostile);
  place("cut", a_result().substr(0, 200));
  place("later", "{\"schema\": \"lra.result/2\"}");
  place("huge", "{\"schema\": \"lra.result/1\", \"seed\": 1e999}");
  place("nan", "{\"schema\": \"lra.result/1\", \"seed\": NaN}");
  place("empty", "");
  const ProgramResult outcome = report("runs");
  EXPECT_EQ(outcome.status, 0) << outcome.text();
  const std::string page = read("out/report.html");
  EXPECT_EQ(page.find("<script"), std::string::npos);
  EXPECT_NE(page.find("&lt;script&gt;alert(1)"), std::string::npos);
  EXPECT_NE(page.find("7 files or runs could not be used"), std::string::npos);
  for (const char* reason :
       {"cut/result.json</th><td class=\"wide\">not valid JSON (cut short?)",
        "later/result.json</th><td class=\"wide\">schema &quot;lra.result/2&quot; is not one",
        "huge/result.json</th><td class=\"wide\">not valid JSON (cut short?): number overflow",
        "nan/result.json</th><td class=\"wide\">not valid JSON (cut short?): parse error",
        "empty/result.json</th><td>is empty", "metrics.jsonl</th><td class=\"wide\">line 1: field",
        "predictions-test.csv</th><td class=\"wide\">line 1: should be"})
    EXPECT_NE(page.find(reason), std::string::npos) << reason;
  for (const auto& entry : fs::directory_iterator(folder_ / "out/runs"))
    EXPECT_EQ(read_file(entry.path()).find("<script"), std::string::npos) << entry.path();
}

// A pipe that nobody writes to would be waited for, and a device has no end.
TEST_F(ReportCommand, OpensNoPipeAndNoDevice) {
  const std::string predictions = "index,label,predicted,confidence\n0,1,0,0.9\n1,1,1,0.9\n";
  Result r = parse_result(json::parse(a_result()));
  r.test = Accuracy{.accuracy = 0.5, .correct = 1, .count = 2, .ci95 = {}, .by_length = {}};
  for (const char* name : {"runs/a", "runs/b"}) {
    fs::create_directories(folder_ / name);
    write(std::string(name) + "/result.json", make_result(r).dump());
  }
  ASSERT_EQ(mkfifo(in("runs/a/predictions-test.csv").c_str(), 0600), 0);
  fs::create_symlink("/dev/zero", folder_ / "runs/a/metrics.jsonl");
  write("runs/b/predictions-test.csv", predictions);
  fs::create_directory(folder_ / "runs/b/metrics.jsonl");
  ASSERT_EQ(mkfifo(in("runs/b/config.json").c_str(), 0600), 0);

  Program program({"report", in("runs"), "--out", in("out")});
  for (int i = 0; i < 6000 && !program.ended(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  ASSERT_TRUE(program.ended());
  const ProgramResult outcome = program.wait();
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  for (const char* name : {"a/predictions-test.csv", "a/metrics.jsonl", "b/metrics.jsonl"})
    EXPECT_NE(outcome.err.find(in("runs/") + name + ": is no regular file"), std::string::npos)
        << outcome.err;
  EXPECT_NE(read("out/runs/b.html").find("config.json is no regular file"), std::string::npos);
}

TEST_F(ReportCommand, LeavesNothingOfAPlotThatFailed) {
  // A gnuplot that dies as it draws.
  fs::create_directories(folder_ / "bin");
  write("bin/gnuplot", "#!/bin/sh\ntouch \"${1%.gp}.svg\" \"${1%.gp}.pdf\"\nexit 1\n");
  fs::permissions(folder_ / "bin/gnuplot", fs::perms::owner_all);
  const std::string path = std::getenv("PATH");
  setenv("PATH", (in("bin") + ":" + path).c_str(), /*overwrite=*/1);
  write("runs/a/result.json", a_result());
  write("runs/a/metrics.jsonl",
        "{\"step\":1,\"split\":\"dev\",\"loss\":2,\"accuracy\":0.1,\"learning_rate\":0.1,"
        "\"seconds\":1}\n");
  const ProgramResult outcome = report("runs");
  setenv("PATH", path.c_str(), /*overwrite=*/1);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("gnuplot curves-1-dev-loss.gp: exit status 1"), std::string::npos)
      << outcome.err;
  EXPECT_TRUE(fs::exists(folder_ / "out/curves-1-dev-loss.gp"));
  for (const char* extension : {".svg", ".pdf"})
    EXPECT_FALSE(fs::exists(in("out/curves-1-dev-loss") + extension));
  EXPECT_EQ(read("out/report.html").find("<img"), std::string::npos);
}

// What gnuplot itself makes of it.
TEST_F(ReportCommand, DrawsWholePicturesOfHostileNamesAndHugeValues) {
  const std::string hostile = "=1</text></svg><script>alert(1)</script>'\"`touch " + in("ran") +
                              "` $(touch " + in("ran") + ")\n@EOD\nEOD\nsystem('touch " +
                              in("ran") + "')";
  json record = json::parse(a_result());
  record["attention"]["name"] = record["task"] = record["protocol"] = hostile;
  record["machine"] = {{"processor", hostile}};
  for (int run = 0; run < 2; ++run) {
    record["attention"]["label"] = hostile + std::to_string(run);
    record["training"] = {{"steps_per_second", run == 0 ? 1e-20 : 2.0}, {"peak_memory_mib", 1e149}};
    const std::string name = "runs/" + std::to_string(run);
    fs::create_directories(folder_ / name);
    write(name + "/result.json", record.dump());
    write(name + "/metrics.jsonl",
          "{\"step\":9000000000000000000,\"split\":\"dev\",\"loss\":1e149,\"accuracy\":0.1,"
          "\"learning_rate\":1e149,\"seconds\":1}\n{\"step\":1,\"split\":\"train\",\"loss\":2,"
          "\"accuracy\":0.1,\"learning_rate\":0.1,\"seconds\":1}\n");
  }
  const ProgramResult outcome = report("runs");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.err.find("exit status"), std::string::npos) << outcome.err;
  EXPECT_FALSE(fs::exists(folder_ / "ran"));
  for (const auto& entry : fs::directory_iterator(folder_ / "out")) {
    if (entry.path().extension() != ".svg") continue;
    const std::string svg = read_file(entry.path());
    EXPECT_NE(svg.find("</svg>"), std::string::npos) << entry.path();
    EXPECT_EQ(svg.find("<script"), std::string::npos) << entry.path();
  }
}

// The folder is the user's: of what lies in it, only what a report wrote is removed.
TEST_F(ReportCommand, ASecondReportRemovesWhatTheFirstAloneWrote) {
  write("runs/a/result.json", a_result());
  write("runs/profile.jsonl", a_profile(1111));
  fs::create_directories(folder_ / "runs/b");
  write("runs/b/result.json", a_result());
  EXPECT_EQ(report("runs").status, 0);
  for (const char* name : {"out/memory_time.csv", "out/runs/b.html", "out/report-files.txt"})
    EXPECT_TRUE(fs::exists(folder_ / name)) << name;
  write("out/mine.csv", "x");
  write("out/runs/mine.html", "x");
  write("outside", "x");
  // A list that was changed leads nowhere else.
  write("out/report-files.txt",
        read("out/report-files.txt") + "../outside\n" + in("outside") + "\nruns/../../outside\n");
  EXPECT_EQ(report("runs/a").status, 0);
  for (const char* name : {"out/memory_time.csv", "out/memory_time.tex", "out/runs/b.html"})
    EXPECT_FALSE(fs::exists(folder_ / name)) << name;
  for (const char* name : {"out/mine.csv", "out/runs/mine.html", "out/runs/a.html", "outside"})
    EXPECT_TRUE(fs::exists(folder_ / name)) << name;
  EXPECT_EQ(read("out/report-files.txt").find("memory_time"), std::string::npos);
}

TEST_F(ReportCommand, ReplacesNoFileOfTheUser) {
  write("runs/a/result.json", a_result());
  for (const std::string file : {"out/report.md", "out/runs/a.html"}) {
    fs::remove_all(folder_ / "out");
    fs::create_directories(folder_ / "out/runs");
    write(file, "mine");
    const ProgramResult refused = report("runs");
    EXPECT_EQ(refused.status, 1);
    EXPECT_NE(refused.err.find(in(file) + " is of no earlier report"), std::string::npos)
        << refused.err;
    EXPECT_EQ(read(file), "mine");
    EXPECT_FALSE(fs::exists(folder_ / "out/runs.csv"));
    fs::rename(folder_ / file, folder_ / "out/mine");
    EXPECT_EQ(report("runs").status, 0);
    EXPECT_EQ(report("runs").status, 0) << "its own";
  }
}

// As `lra suite` leaves it; its budget sets other keys for each task.
TEST_F(ReportCommand, TheTasksOfASuitesBudgetShareATable) {
  json runs = json::array();
  for (const char* task : {"listops", "text"}) {
    json record = json::parse(a_result());
    record["task"] = task;
    record["data"]["fingerprint"] = task;
    const char* key = task == std::string("text") ? "training.batch" : "training.steps";
    record["config"] = {{"training", {{"batch", 8}, {"steps", 10}}}, {"overridden", {key}}};
    const std::string run = std::string("runs/") + task + "/standard/seed0";
    fs::create_directories(folder_ / run);
    write(run + "/result.json", record.dump());
    runs.push_back(run);
  }
  json suite = {{"schema", "lra.suite/1"},
                {"budget",
                 {{"name", "tiny"},
                  {"tasks",
                   {{"listops", {{"set", {{"training.steps", 10}}}}},
                    {"text", {{"set", {{"training.batch", 8}}}}}}}}},
                {"runs", runs}};
  const auto tables = [&] {
    EXPECT_EQ(report("runs").status, 0);
    const std::string text = read("out/report.md");
    size_t count = 0;
    for (size_t at = 0; (at = text.find("**Accuracy: ", at)) != std::string::npos; ++at) ++count;
    return count;
  };
  EXPECT_EQ(tables(), 2u) << "no suite.json";
  write("suite.json", suite.dump());
  EXPECT_EQ(tables(), 1u);
  EXPECT_NE(read("out/report.md").find("budget tiny"), std::string::npos);
  const std::string last =
      "regime,settings,diverged,data_variant,sample_majority_percent,recipe,dev_percent\r\n";
  EXPECT_NE(read("out/accuracy.csv").find(",budget,metric,pretrained," + last), std::string::npos);
  suite["runs"].erase(0);
  write("suite.json", suite.dump());
  EXPECT_EQ(tables(), 2u) << "one is no cell of it";
  write("suite.json", std::string(100000, '['));
  EXPECT_EQ(tables(), 2u);
}

TEST_F(ReportCommand, SaysWhatItLookedForWhereThereIsNothing) {
  const ProgramResult outcome = report("runs");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(
      outcome.text().find("nothing to report in " + in("runs") +
                          ": looked for result.json (lra.result/1) and *.jsonl (lra.profile/1, "
                          "lra.fidelity/1, lra.where/1)"),
      std::string::npos)
      << outcome.text();
  EXPECT_FALSE(fs::exists(folder_ / "out"));
}

TEST_F(ReportCommand, NamesAPathThatIsMissing) {
  const ProgramResult outcome = report("nowhere");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.text().find(in("nowhere") + ": no such file or folder"), std::string::npos)
      << outcome.text();
}

TEST_F(ReportCommand, RefusesAFileForItsFolder) {
  write("out", "x");
  const ProgramResult outcome = report("runs");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_NE(outcome.text().find("is a file; name a folder"), std::string::npos) << outcome.text();
}

class SlowReportCommand : public ReportCommand {
 protected:
  // What ended children and theirs have taken, in the program and in the system for it.
  static double children_seconds() {
    rusage usage{};
    getrusage(RUSAGE_CHILDREN, &usage);
    const auto seconds = [](const timeval& time) {
      return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
  }
};

// 10 attentions on 5 tasks with 20 seeds, each with a log of 440 lines and 2,000 predictions.
TEST_F(SlowReportCommand, AThousandRunsTakeUnderTenSeconds) {
  std::string log;
  for (int step = 10; step <= 4000; step += 10) {
    for (const char* split : {"train", "dev"}) {
      if (split == std::string("dev") && step % 100 != 0) continue;
      log += "{\"step\":" + std::to_string(step) + ",\"split\":\"" + split +
             "\",\"loss\":2.3708001375198364,\"accuracy\":0.071875,\"learning_rate\":"
             "4.864864864864865e-06,\"seconds\":16.465915895}\n";
    }
  }
  const std::string base = a_result();
  for (int run = 0; run < 1000; ++run) {
    json record = json::parse(base);
    const int correct = 700 + run % 50;
    record["task"] = "task" + std::to_string(run % 5);
    record["attention"] = {{"name", "attention" + std::to_string(run / 5 % 10)}};
    record["seed"] = run / 50;
    record["test"] = {{"accuracy", correct / 2000.0}, {"correct", correct}, {"count", 2000}};
    record["training"] = {{"steps_per_second", 1.0 + run % 7}, {"peak_memory_mib", 100 + run % 11}};
    std::string predictions = "index,label,predicted,confidence\n";
    for (int i = 0; i < 2000; ++i)
      predictions += std::to_string(i) + "," + std::to_string(i % 10) + "," +
                     std::to_string(i < correct ? i % 10 : (i + 1) % 10) + ",0.51234\n";
    const std::string name = "runs/" + std::to_string(run);
    fs::create_directories(folder_ / name);
    // Not write_file: a thousand times waiting for the disk would be the test's time, not the
    // report's.
    for (const auto& [file, text] : {std::pair{"/result.json", record.dump()},
                                     {"/metrics.jsonl", log},
                                     {"/predictions-test.csv", predictions}})
      std::ofstream(folder_ / (name + file), std::ios::binary) << text;
  }
  const auto begin = std::chrono::steady_clock::now();
  const double before = children_seconds();
  const ProgramResult outcome = report("runs");
  const double busy = children_seconds() - before;
  const double wall =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf("1,000 runs: %.1f s of processor time, %.1f s in all\n", busy, wall);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_LT(busy, 10);  // not the wall's clock: what else the machine does must not decide
  EXPECT_TRUE(fs::exists(folder_ / "out/runs/999.html"));
}

}  // namespace
}  // namespace lra
