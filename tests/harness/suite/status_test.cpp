// lra suite status: where a suite stands, by its folder.
#include "harness/suite/status.h"

#include "harness/suite/cell.h"
#include "harness/suite/suite_file.h"
#include "results/store/store.h"
#include "tests/harness/suite/fixture.h"

namespace lra::suite {
namespace {

namespace fs = std::filesystem;

class SuiteStatusTest : public SuiteTest {};

TEST_F(SuiteStatusTest, ShowsEveryCellAsItStands) {
  ASSERT_EQ(run_program(with(words("s"), {"--only", "0", "--seeds", "0,1,2"})).status, 0);
  // The second cell is at work, by its lock and its log; the third was left at a step.
  const std::string log =
      R"({"step":3,"split":"train","loss":2.0,"accuracy":0.1,"learning_rate":0.1,"seconds":1.5})"
      "\n"
      R"({"step":4,"split":"dev","loss":2.0,"accuracy":0.25,"learning_rate":0.1,"seconds":2.0})"
      "\n";
  for (const int64_t seed : {1, 2}) {
    fs::create_directories(run("s", "standard", seed));
    write_file(run("s", "standard", seed) / kMetricsFile, log + (seed == 2 ? "{\"step\":9" : ""));
  }
  const host::FolderLock working(run("s", "standard", 1));
  const ProgramResult result =
      run_program({"suite", "status", "--out", out("s").string(), "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const json status = json::parse(result.out);
  ASSERT_EQ(status["cells"].size(), 6u);
  const json &done = status["cells"][0], &at_work = status["cells"][1], &left = status["cells"][2];
  EXPECT_EQ(done["state"], "ok");
  EXPECT_EQ(done["accuracy"], read_json(run("s", "standard") / kResultFile)["test"]["accuracy"]);
  EXPECT_EQ(done["accuracy_of"], "test");
  EXPECT_EQ(at_work["state"], "running");
  EXPECT_EQ(at_work["step"], 4);
  EXPECT_EQ(at_work["steps"], 12);
  EXPECT_EQ(at_work["accuracy"], 0.25);
  EXPECT_EQ(at_work["accuracy_of"], "dev");
  EXPECT_EQ(at_work["steps_per_second"], 2.0);
  EXPECT_EQ(at_work["eta_seconds"], 4.0);
  EXPECT_EQ(at_work["by"], "process " + std::to_string(getpid()));
  EXPECT_EQ(left["state"], "pending");
  EXPECT_EQ(left["step"], 4) << "half a line is none";
  EXPECT_EQ(left["eta_seconds"], nullptr);
  EXPECT_EQ(status["counts"], (json{{"ok", 1}, {"pending", 4}, {"running", 1}}));
  EXPECT_EQ(status["steps"], 72);
  EXPECT_EQ(status["steps_done"], 20);

  const ProgramResult table = run_program({"suite", "status", "--out", out("s").string()});
  for (const char* part :
       {"[###.......]", "4/12", "25.00 (dev)", "nystrom[num_landmarks=8]",
        "27.8 % of the steps · 6 cells: 1 ok, 4 pending, 1 running", "0 runners"})
    EXPECT_TRUE(contains(table.out, part)) << part << "\n" << table.out;
  EXPECT_FALSE(final_status(run("s", "standard", 1))) << "looking changes nothing";

  json stand_in = read_json(run("s", "standard") / kResultFile);
  stand_in["data"]["synthetic"] = true;
  write_json(run("s", "standard") / kResultFile, stand_in, Links::replace);
  EXPECT_TRUE(contains(status_text(suite_status(out("s"))), "listops: synthetic stand-in data"));
  EXPECT_EQ(status_json(suite_status(out("s")))["cells"][0]["data"], "synthetic stand-in data");

  // One that was ended for its time says how far it got.
  json timeout = read_json(run("s", "standard") / kResultFile);
  for (const char* key : {"test", "steps", "training"}) timeout.erase(key);
  timeout["status"] = "timeout";
  write_json(run("s", "standard", 2) / kResultFile, timeout);
  const ProgramResult ended =
      run_program({"suite", "status", "--out", out("s").string(), "--json"});
  const json cell = json::parse(ended.out)["cells"][2];
  EXPECT_EQ(cell["state"], "timeout");
  EXPECT_EQ(cell["step"], 4);
}

TEST_F(SuiteStatusTest, CountsTheStepsOfAPretraining) {
  const ProgramResult ran =
      run_program(with(words("s", "standard"), {"--only", "0", "--seeds", "0,1,2", "--set",
                                                "pretraining.training.steps=8"}));
  ASSERT_EQ(ran.status, 0) << ran.err;
  const auto cells = [&] {
    return json::parse(run_program({"suite", "status", "--out", out("s").string(), "--json"}).out);
  };
  // The second is at step 4 of its pretraining, the third at step 4 of its own run.
  const std::string log =
      R"({"step":2,"split":"train","loss":2.0,"accuracy":0.1,"learning_rate":0.1,"seconds":1.0})"
      "\n"
      R"({"step":4,"split":"dev","loss":2.0,"accuracy":0.25,"learning_rate":0.1,"seconds":2.0})"
      "\n";
  const fs::path second = run("s", "standard", 1), third = run("s", "standard", 2);
  for (const fs::path& folder : {second / kPretrainingFolder, third}) {
    fs::create_directories(folder);
    write_file(folder / kMetricsFile, log);
  }
  const host::FolderLock in_first(second), in_own(third);
  const json status = cells();
  const json &done = status["cells"][0], &first = status["cells"][1], &own = status["cells"][2];
  EXPECT_EQ(done["step"], 20);
  EXPECT_EQ(done["steps"], 20);
  EXPECT_EQ(first["state"], "running");
  EXPECT_EQ(first["step"], 4);
  EXPECT_EQ(first["steps"], 20);
  EXPECT_EQ(first["accuracy"], nullptr) << "of tokens";
  EXPECT_EQ(first["steps_per_second"], 2.0);
  EXPECT_EQ(first["eta_seconds"], nullptr) << "the rate of its own run is not known";
  EXPECT_EQ(own["step"], 12);
  EXPECT_EQ(own["accuracy"], 0.25);
  EXPECT_EQ(own["eta_seconds"], 4.0);
  EXPECT_EQ(status["steps"], 60);
  EXPECT_EQ(status["steps_done"], 36);
}

TEST_F(SuiteStatusTest, OneThatDivergedInItsPretrainingIsOneRun) {
  const ProgramResult ran =
      run_program(with(words("s", "standard"), {"--set", "pretraining.training.steps=8", "--set",
                                                "pretraining.optimizer.lr=1e30"}));
  ASSERT_EQ(ran.status, 1) << ran.err;
  const json cell =
      json::parse(run_program({"suite", "status", "--out", out("s").string(), "--json"}).out)
          .at("cells")[0];
  EXPECT_EQ(cell["state"], "diverged");
  EXPECT_LE(cell["step"], 8);
  EXPECT_EQ(cell["steps"], 20);
  const Records records = find_records({out("s") / "runs"});
  ASSERT_EQ(records.results.size(), 1u) << "the run before is no run of its own";
  EXPECT_EQ(records.results[0].status, Status::diverged);
}

TEST_F(SuiteStatusTest, WatchesToTheEndAndNamesWhatFailed) {
  const ProgramResult ran =
      run_program(with(words("s", "standard"), {"--set", "optimizer.lr=1e30"}));
  EXPECT_EQ(ran.status, 1);
  const ProgramResult watched =
      run_program({"suite", "status", "--watch", "--out", out("s").string()});
  EXPECT_EQ(watched.status, 0);
  EXPECT_TRUE(contains(watched.out, "1 cells: 1 diverged")) << watched.out;
  EXPECT_TRUE(contains(watched.out, "profile measured, report written")) << watched.out;
  EXPECT_EQ(std::ranges::count(watched.out, '\n'), 1) << "one line where there is no terminal";
  EXPECT_TRUE(contains(run_program({"suite", "status", "--out", out("s").string()}).out,
                       "the loss or a gradient was not finite"));
}

TEST_F(SuiteStatusTest, SaysWhatItCannotRead) {
  const ProgramResult none = run_program({"suite", "status", "--out", out("a b").string()});
  EXPECT_EQ(none.status, 1);
  EXPECT_TRUE(contains(none.err, "holds no suite (no suite.json)")) << none.err;
  EXPECT_TRUE(contains(none.err, "--out '" + out("a b").string() + "' makes one")) << none.err;
  EXPECT_TRUE(contains(run_program({"suite", "status"}).err, "--out is required"));
  fs::create_directories(out("bad"));
  write_file(out("bad") / kSuiteFile, R"({"schema": "lra.suite/1", "cells": [], "runs": 3})");
  EXPECT_EQ(run_program({"suite", "status", "--out", out("bad").string()}).status, 0);
  write_file(out("bad") / kSuiteFile, R"({"schema": "lra.suite/1"})");
  EXPECT_TRUE(contains(run_program({"suite", "status", "--out", out("bad").string()}).err,
                       "is not the file of a suite of this version"));
  // A broken record is one cell's trouble.
  ASSERT_EQ(run_program(words("s")).status, 0);
  write_file(run("s", "standard") / kResultFile, "{");
  const ProgramResult result = run_program({"suite", "status", "--out", out("s").string()});
  EXPECT_EQ(result.status, 0);
  EXPECT_TRUE(contains(result.out, "is not valid JSON")) << result.out;
  EXPECT_TRUE(contains(result.out, "1 ok, 1 pending")) << result.out;
}

TEST(SuiteStatusText, FitsAScreen) {
  SuiteStatus status;
  for (size_t i = 0; i < 50; ++i) {
    status.cells.push_back({.index = i,
                            .task = "listops",
                            .attention = "standard",
                            .seed = i,
                            .state = i == 40   ? Status::running
                                     : i == 30 ? Status::crash
                                               : Status::ok,
                            .step = 5,
                            .steps = 10});
  }
  const std::string text = status_text(status, 4);
  EXPECT_NE(text.find("... and 46 more"), std::string::npos) << text;
  EXPECT_LT(text.find("running"), text.find("crash"));
  EXPECT_EQ(status_text(status).find("more"), std::string::npos);
}

// A thousand cells, the clock included: what someone with a cluster looks at all day.
TEST(SlowSuiteStatus, OfAThousandRunFoldersTakesSeconds) {
  const Scratch scratch;
  json suite = {{"schema", "lra.suite/1"}, {"runs", json::array()}, {"cells", json::array()}};
  std::string log;
  for (int64_t step = 10; step <= 5000; step += 10)
    log += fmt::format(
        "{{\"step\":{},\"split\":\"train\",\"loss\":2.0,\"accuracy\":0.1,"
        "\"learning_rate\":0.1,\"seconds\":{}}}\n",
        step, step);
  const json record = read_json(fs::path(LRA_SOURCE_DIR) /
                                "results/measured/smoke/runs/listops/standard/seed0/result.json");
  const Protocol protocol = load_protocol("lra-strict");
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    const std::string run = fmt::format("runs/listops/standard/seed{}", seed);
    suite["runs"].push_back(run);
    suite["cells"].push_back(
        make_config(protocol, "listops", {.name = "standard"}, {}, seed, "float32").to_json());
    fs::create_directories(scratch.path() / run);
    std::ofstream(scratch.path() / run / kMetricsFile) << log;
    if (seed % 2 == 0) std::ofstream(scratch.path() / run / kResultFile) << record.dump(2);
  }
  write_json(scratch.path() / kSuiteFile, suite);
  const auto begin = std::chrono::steady_clock::now();
  const ProgramResult result = run_program({"suite", "status", "--out", scratch.path().string()});
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find("1000 cells: 500 ok, 500 pending"), std::string::npos);
  EXPECT_LT(seconds, 10);
  RecordProperty("seconds", std::to_string(seconds));
}

}  // namespace
}  // namespace lra::suite
