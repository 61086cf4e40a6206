// lra suite plan: predictions from what was measured, and the cut of --max-hours.
#include "harness/suite/plan/plan.h"

#include "harness/steps/schedule.h"
#include "tests/harness/suite/fixture.h"

namespace lra::suite {
namespace {

namespace fs = std::filesystem;

class SuitePlanTest : public SuiteTest {
 protected:
  json plan(const std::string& out, const std::vector<std::string>& more,
            int64_t threads = 1) const {
    auto w = with_threads(words(out), threads);
    w.insert(w.begin() + 1, {"plan", "--json"});
    const ProgramResult result = run_program(with(w, more));
    EXPECT_EQ(result.status, 0) << result.err;
    return json::parse(result.out);
  }
};

TEST_F(SuitePlanTest, SaysWhatIsKnownAndFromWhere) {
  const json unknown = plan("s", {"--records", scratch_.path().string()});
  ASSERT_EQ(unknown["cells"].size(), 2u);
  EXPECT_EQ(unknown["unknown"], 2);
  EXPECT_EQ(unknown["cells"][0]["from"], "unknown");
  EXPECT_EQ(unknown["cells"][0]["seconds"], nullptr);
  EXPECT_EQ(unknown["cells"][1]["attention"], "nystrom[num_landmarks=8]");
  EXPECT_EQ(unknown["cells"][1]["steps"], 12);
  EXPECT_FALSE(fs::exists(out("s"))) << "a plan writes nothing";
}

TEST_F(SuitePlanTest, SaysHowToKnowMore) {
  auto w = words("s");
  w.insert(w.begin() + 1, {"plan", "--records", scratch_.path().string()});
  const ProgramResult result = run_program(w);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find("2 to run, time unknown, use --probe"), std::string::npos)
      << result.out;
  EXPECT_EQ(result.out.find("about 0s"), std::string::npos) << result.out;
  for (const std::string& line : text_lines(result.out)) {
    if (line.find("pending") == std::string::npos) continue;
    EXPECT_NE(line.find("unknown, use --probe"), std::string::npos) << line;
  }
}

// Wherever it is called: a copy of the program with records above it.
TEST_F(SuitePlanTest, FindsTheRecordsOfItsOwnFolder) {
  const fs::path program = out("copy") / "build/bin/lra", measured = out("copy/results/measured");
  fs::create_directories(program.parent_path());
  fs::copy_file(LRA_PROGRAM, program);
  ASSERT_EQ(run_program(with(words("s"), {"--only", "0"})).status, 0);
  fs::create_directories(measured);
  fs::copy(out("s") / "runs", measured, fs::copy_options::recursive);
  auto w = words("other");
  w.insert(w.begin() + 1, {"plan", "--json"});
  const ProgramResult result = Program(w, program).wait();
  ASSERT_EQ(result.status, 0) << result.err;
  const json cells = json::parse(result.out)["cells"];
  EXPECT_TRUE(cells[0]["from"].get<std::string>().starts_with(measured.string())) << cells[0];
}

TEST_F(SuitePlanTest, ACellTellsThoseOfOtherSeeds) {
  ASSERT_EQ(run_program(with(words("s"), {"--seeds", "0,1", "--only", "0"})).status, 0);
  const json own = plan("s", {"--seeds", "0,1", "--jobs", "2"}, /*threads=*/2);
  ASSERT_EQ(own["cells"].size(), 4u);
  EXPECT_EQ(own["cells"][0]["status"], "ok");
  EXPECT_EQ(own["cells"][0]["seconds_left"], 0);
  EXPECT_EQ(own["cells"][0]["from"], "its own run");
  EXPECT_EQ(own["cells"][1]["status"], "pending");
  EXPECT_EQ(own["cells"][1]["from"], "seed 0 of this suite");
  EXPECT_GT(own["cells"][1]["seconds"], 0);
  EXPECT_EQ(own["cells"][1]["memory_mib"], own["cells"][0]["memory_mib"]);
  EXPECT_EQ(own["unknown"], 2) << "nothing of nystrom";
  EXPECT_EQ(own["ended"], 1);
  EXPECT_EQ(own["pending"], 3);
  const json other = plan("other", {"--records", out("s").string(), "--set", "kernels=reference"});
  EXPECT_EQ(other["unknown"], 2) << "other kernels take another time";

  // A cell that crashed is still to run.
  json crash = read_json(run("s", "standard") / kResultFile);
  crash.erase("test");
  crash.erase("training");
  crash["status"] = "crash";
  fs::create_directories(run("s", "standard", 1));
  write_json(run("s", "standard", 1) / kResultFile, crash);
  const json again = plan("s", {"--seeds", "0,1"});
  EXPECT_EQ(again["cells"][1]["status"], "crash");
  EXPECT_EQ(again["cells"][1]["seconds_left"], own["cells"][1]["seconds_left"]);
  EXPECT_EQ(again["ended"], 1);
  EXPECT_EQ(again["pending"], 3);
  fs::remove(run("s", "standard", 1) / kResultFile);

  auto w = words("s");
  w.insert(w.begin() + 1, "plan");
  const ProgramResult table = run_program(with(w, {"--seeds", "0,1"}));
  for (const char* part : {"4 cells: 1 ended, 3 to run, about ",
                           "2 of them not counted: nothing is known of them on this machine with 1 "
                           "thread a cell; --probe measures them",
                           "nystrom[num_landmarks=8]"})
    EXPECT_NE(table.out.find(part), std::string::npos) << part << "\n" << table.out;
}

TEST_F(SuitePlanTest, ARecordTellsOfAnotherSuiteOfTheSameStep) {
  ASSERT_EQ(run_program(with(words("s"), {"--only", "0"})).status, 0);
  const json elsewhere = plan("t", {"--records", (out("s") / "runs").string()});
  EXPECT_EQ(elsewhere["cells"][0]["from"], (run("s", "standard") / kResultFile).string());
  EXPECT_EQ(elsewhere["unknown"], 1);
  // With other threads it says nothing.
  EXPECT_EQ(plan("t", {"--records", (out("s") / "runs").string()}, /*threads=*/2)["unknown"], 2);
  // Nor of another processor of the same name; one that does not say its model may be this one.
  json record = read_json(run("s", "standard") / kResultFile);
  for (const auto& [model, unknown] : {std::pair("family 1 model 2", 2), {"", 1}}) {
    record["machine"]["processor_model"] = model;
    write_json(run("s", "standard") / kResultFile, record, Links::replace);
    EXPECT_EQ(plan("t", {"--records", (out("s") / "runs").string()})["unknown"], unknown) << model;
  }
  // Nor of other sizes; of other steps it does.
  EXPECT_EQ(
      plan("t", {"--records", (out("s") / "runs").string(), "--set", "model.layers=1"})["unknown"],
      2);
  const json longer =
      plan("t", {"--records", (out("s") / "runs").string(), "--set", "training.steps=12000"});
  EXPECT_GT(longer["cells"][0]["seconds"].get<double>(),
            2 * elsewhere["cells"][0]["seconds"].get<double>());
}

TEST_F(SuitePlanTest, AProbeMeasuresWhatIsNotKnownOnce) {
  const json first = plan("s", {"--probe"});
  EXPECT_EQ(first["unknown"], 0);
  for (const json& cell : first["cells"]) {
    EXPECT_EQ(cell["from"], "a probe");
    EXPECT_GT(cell["seconds"], 0);
    EXPECT_GT(cell["memory_mib"], 0);
  }
  const std::string probes = read_file(out("s") / kProbeFile);
  const json probed = json::parse(probes.substr(0, probes.find('\n')));
  EXPECT_FALSE(probed.contains("roofline")) << "it takes as long as the probe";
  const json& memory = probed.at("memory_mib");
  EXPECT_EQ(first["cells"][0]["memory_mib"], memory.at("peak").get<double>() +
                                                 memory.at("parameters").get<double>() +
                                                 memory.at("optimizer").get<double>())
      << "as a run's record counts";
  EXPECT_EQ(plan("s", {}), first) << "what was probed stays known";
  EXPECT_EQ(read_file(out("s") / kProbeFile), probes);

  // Evaluations count where data are still to be made: of as many samples as the task has.
  const auto seconds_with_dev = [&](const json& dev) {
    json budget = read_json(budget_);
    budget["tasks"]["listops"].erase("dev");
    if (dev.is_number()) budget["tasks"]["listops"]["dev"] = dev;
    write_json(budget_, budget);
    return plan("s", {})["cells"][0]["seconds"].get<double>();
  };
  const double of_task = seconds_with_dev(json());
  EXPECT_GT(of_task, 1.2 * first["cells"][0]["seconds"].get<double>());
  EXPECT_DOUBLE_EQ(of_task, seconds_with_dev(task("listops").dev));
}

// One whose name alone makes no attention, and one whose record holds an option that nobody may ask
// its causal form for.
TEST_F(SuitePlanTest, AProbeIsFoundAgainByItsRecordsOptions) {
  const std::string file = LRA_SOURCE_DIR "/tests/fixtures/torchscript-linear.pt";
  for (const auto& [attention, sets] :
       {std::pair{"torchscript:" + file, std::vector<std::string>{}},
        {std::string("s4d[state=4]"), {"--set", "model.causal=true"}}}) {
    auto w = with(words("s" + attention.substr(0, 2), attention), sets);
    w.insert(w.begin() + 1, {"plan", "--json", "--probe"});
    const ProgramResult result = run_program(w);
    ASSERT_EQ(result.status, 0) << result.err;
    const json plan = json::parse(result.out);
    EXPECT_EQ(plan["unknown"], 0) << plan;
    ASSERT_EQ(plan["cells"].size(), 1u);
    EXPECT_EQ(plan["cells"][0]["from"], "a probe");
  }
}

// As that which `lra tune` writes; a record has the protocol's name, not its file's.
TEST_F(SuitePlanTest, AProbeIsFoundAgainUnderAProtocolFromAFile) {
  const fs::path file = scratch_.path() / "mine.json";
  json mine = json::parse(run_program({"protocol", "show", "lra-strict"}).out);
  mine["name"] = "mine";
  write_json(file, mine);
  const auto planned = [&](const std::vector<std::string>& more) {
    return plan("s", with({"--protocol", file.string()}, more));
  };
  EXPECT_EQ(planned({"--probe"})["unknown"], 0);
  EXPECT_EQ(planned({})["cells"][0]["from"], "a probe");
  mine["tasks"]["listops"]["model"]["feed_forward"] = 96;
  write_json(file, mine, Links::replace);
  EXPECT_EQ(planned({})["unknown"], 2) << "measured of what the file no longer says";
}

TEST_F(SuitePlanTest, MaxHoursCutsEveryCellByTheSamePart) {
  ASSERT_EQ(run_program(with(words("s"), {"--only", "0-1"})).status, 0);
  const std::vector<std::string> from = {"--records", (out("s") / "runs").string(), "--set",
                                         "training.steps=4000"};
  const json whole = plan("t", from);
  const double hours =
      (whole["cells"][0]["seconds"].get<double>() + whole["cells"][1]["seconds"].get<double>()) /
      3600;
  // 20.4 of 4,000 steps, which are rounded down.
  const std::vector<std::string> cut =
      with(from, {"--max-hours", fmt::format("{}", hours * 0.0051)});
  const json planned = plan("t", cut);
  EXPECT_NEAR(planned["fraction"].get<double>(), 0.0051, 1e-9);
  EXPECT_EQ(planned["cells"][0]["steps"], 20);
  EXPECT_EQ(planned["cells"][1]["steps"], 20);
  const std::vector<std::string> cells = with(words("t"), {"--only", "0-1"});
  const ProgramResult result = run_program(with(cells, cut));
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.err.find("cut to 0.51 % of every cell's steps"), std::string::npos)
      << result.err;
  const json record = read_json(run("t", "standard") / kResultFile);
  EXPECT_EQ(record["steps"], 20);
  EXPECT_EQ(record["config"]["schedule"]["warmup"], 1);
  const auto overridden = record["config"]["overridden"].get<std::vector<std::string>>();
  for (const char* key : {"training.steps", "schedule.warmup"})
    EXPECT_GE(std::ranges::count(overridden, key), 1) << key;
  // The cut was made once: what is known by now changes nothing.
  EXPECT_EQ(run_program(with(cells, cut)).status, 0);
  EXPECT_EQ(read_json(run("t", "standard") / kResultFile), record);
  const ProgramResult other = run_program(with(words("t"), {from[2], from[3]}));
  EXPECT_NE(other.err.find("holds another suite (--max-hours "), std::string::npos) << other.err;
}

// As with fewer --jobs than there were when it began.
TEST_F(SuitePlanTest, CutsNoSuiteThatHasBegun) {
  const std::vector<std::string> hours = {"--max-hours", "1", "--only", "0"};
  ASSERT_EQ(run_program(with(words("s"), {"--only", "0-1"})).status, 0);
  const std::vector<std::string> from = {"--records", (out("s") / "runs").string()};
  ASSERT_EQ(run_program(with(with(words("u"), hours), from)).status, 0);
  json file = read_json(out("u") / kSuiteFile);
  file["max_hours"] = 1e-5;
  write_json(out("u") / kSuiteFile, file, Links::replace);
  const ProgramResult plan =
      run_program(with({"suite", "plan", "--json", "--out", out("u").string()}, from));
  ASSERT_EQ(plan.status, 0) << plan.err;
  EXPECT_EQ(json::parse(plan.out)["cells"][0]["steps"], 12);
}

TEST_F(SuitePlanTest, HoldsThePretrainingOfACell) {
  const std::vector<std::string> two = {"--set", "pretraining.training.steps=8"};
  EXPECT_EQ(plan("s", two)["cells"][0]["steps"], 20);
  // A run of the task alone says nothing of the steps before it.
  ASSERT_EQ(run_program(with(words("plain"), {"--only", "0"})).status, 0);
  const std::vector<std::string> records = {"--records", (out("plain") / "runs").string()};
  const json alone = plan("t", records)["cells"][0],
             half = plan("s", with(two, records))["cells"][0];
  EXPECT_EQ(half["seconds"], alone["seconds"]);
  EXPECT_EQ(half["from"], alone["from"].get<std::string>() + ", without its pretraining");
  auto w = words("s", "standard");
  w.insert(w.begin() + 1, "plan");
  const ProgramResult table = run_program(with(with(w, two), records));
  EXPECT_NE(table.out.find("1 counted without their pretraining"), std::string::npos) << table.out;
  const ProgramResult cut = run_program(with(with(with(w, two), records), {"--max-hours", "1"}));
  EXPECT_EQ(cut.status, 1);
  EXPECT_NE(cut.err.find("nothing is known of the pretraining of listops standard seed 0"),
            std::string::npos)
      << cut.err;

  // One that has both tells of both.
  const std::vector<std::string> seeds = with(two, {"--seeds", "0,1"});
  ASSERT_EQ(run_program(with(with(words("s"), seeds), {"--only", "0"})).status, 0);
  const json cells = plan("s", seeds)["cells"];
  const json record = read_json(run("s", "standard") / kResultFile);
  EXPECT_EQ(cells[0]["seconds"], record["pretrained"]["total_seconds"]);
  EXPECT_EQ(cells[0]["seconds_left"], 0);
  EXPECT_EQ(cells[1]["from"], "seed 0 of this suite");
  EXPECT_GT(cells[1]["seconds"].get<double>(), 6) << "3 s before the first step of each run";
  EXPECT_EQ(cells[1]["seconds_left"], cells[1]["seconds"]);
  const std::vector<std::string> elsewhere = {"--records", (out("s") / "runs").string()};
  const json other = plan("u", with(two, elsewhere))["cells"][0];
  EXPECT_EQ(other["from"].get<std::string>().find("without its pretraining"), std::string::npos)
      << other;
  EXPECT_GT(other["seconds"].get<double>(), 6) << "both runs";
  auto apart = words("u", "standard");
  apart.insert(apart.begin() + 1, "plan");
  const ProgramResult cut_apart =
      run_program(with(with(with(apart, two), elsewhere), {"--max-hours", "1"}));
  EXPECT_EQ(cut_apart.status, 0) << cut_apart.err;
}

TEST(SuiteCut, CutsThePretrainingAlike) {
  const auto config = [](const std::vector<std::string>& cut) {
    std::vector<std::string> sets = {"training.steps=5000", "training.evaluate_every=50",
                                     "schedule.warmup=1000", "pretraining.training.steps=2000",
                                     "pretraining.schedule.warmup=400"};
    sets.insert(sets.end(), cut.begin(), cut.end());
    return make_config(load_protocol("lra-strict"), "listops", parse_attention("standard"), sets, 0,
                       "float32");
  };
  const std::vector<std::string> quarter = cut_sets(config({}), 0.25);
  EXPECT_EQ(quarter,
            (std::vector<std::string>{
                "training.steps=1250", "schedule.warmup=250", "pretraining.training.steps=500",
                "pretraining.training.evaluate_every=50", "pretraining.schedule.warmup=100"}));
  EXPECT_EQ(pretraining_config(config(quarter)).settings.training.steps, 500);
  // What the cell's own run would have been given, the one before keeps.
  EXPECT_EQ(
      pretraining_config(config(cut_sets(config({}), 0.005))).settings.training.evaluate_every, 10);
  EXPECT_EQ(config(cut_sets(config({}), 0.005)).settings.training.evaluate_every, 25);
  EXPECT_NE(error_text([&] { cut_sets(config({}), 0.0009); }).find("1 step of 2000 steps"),
            std::string::npos);
}

TEST(SuiteCut, ScalesTheScheduleAndKeepsTheEvaluationsApart) {
  Config config;
  config.task = "listops";
  config.attention = {.name = "standard"};
  config.settings.training.steps = 5000;
  config.settings.training.evaluate_every = 50;
  config.settings.schedule.warmup = 1000;
  EXPECT_EQ(cut_sets(config, 1), std::vector<std::string>{});
  EXPECT_EQ(cut_sets(config, 0.25),
            (std::vector<std::string>{"training.steps=1250", "schedule.warmup=250"}));
  EXPECT_EQ(cut_sets(config, 0.004),
            (std::vector<std::string>{"training.steps=20", "training.evaluate_every=20",
                                      "schedule.warmup=4"}));
  config.settings.schedule.kind = ScheduleKind::step;
  config.settings.schedule.warmup = 0;
  config.settings.schedule.decay_every = 2000;
  EXPECT_EQ(cut_sets(config, 0.5),
            (std::vector<std::string>{"training.steps=2500", "schedule.decay_every=1000"}));
  // It stays within the run, and one that is never reached stays out.
  config.settings.schedule.decay_every = 4999;
  EXPECT_EQ(cut_sets(config, 0.5),
            (std::vector<std::string>{"training.steps=2500", "schedule.decay_every=2499"}));
  config.settings.schedule.decay_every = 20000;
  EXPECT_EQ(cut_sets(config, 0.5), (std::vector<std::string>{"training.steps=2500"}));
  config.settings.schedule.decay_every = 2000;
  EXPECT_EQ(error_text([&] { cut_sets(config, 0.0003); }),
            "--max-hours leaves 1 step of 5000 steps of listops standard; allow more hours, or run "
            "fewer cells");
}

// The rates of tay2020, whose highest is lr / sqrt(warmup), or on retrieval that of the last step.
TEST(SuiteCut, KeepsTheRatesOfAnInverseSquareRoot) {
  const auto highest = [](const Settings& s) {
    double lr = 0;
    for (int64_t step = 0; step < s.training.steps; ++step)
      lr = std::max(lr, schedule_at(step, s.training.steps, s.optimizer, s.schedule).lr);
    return lr;
  };
  const Protocol tay = load_protocol("tay2020");
  for (const char* task_name : {"listops", "text", "retrieval"}) {
    const auto config = [&](const std::vector<std::string>& sets) {
      return make_config(tay, task_name, parse_attention("standard"), sets, 0, "float32");
    };
    const double whole = highest(config({}).settings);
    for (const double fraction : {0.99, 0.5, 0.1}) {
      const Settings cut = config(cut_sets(config({}), fraction)).settings;
      ASSERT_EQ(cut.schedule.kind, ScheduleKind::rsqrt);
      EXPECT_NEAR(highest(cut) / whole, 1, 0.02) << task_name << " " << fraction;
    }
  }
  const auto sets = cut_sets(
      make_config(tay, "listops", parse_attention("standard"),
                  {R"(optimizer.groups=[{"match":["slow"]},{"match":["*.bias"],"lr":0.5}])"}, 0,
                  "float32"),
      0.25);
  EXPECT_EQ(std::ranges::count(
                sets, R"(optimizer.groups=[{"match":["slow"]},{"match":["*.bias"],"lr":0.25}])"),
            1)
      << sets.back();
}

TEST(SuiteMakespan, IsThatOfWorkersTakingTheCellsInTheirOrder) {
  EXPECT_EQ(makespan({}, 2), 0);
  EXPECT_EQ(makespan({3, 3, 2}, 1), 8);
  EXPECT_EQ(makespan({3, 3, 2}, 2), 5);
  EXPECT_EQ(makespan({1, 1, 10}, 2), 11) << "not the best there is: the runner's own";
}

}  // namespace
}  // namespace lra::suite
