// lra tune: the same cells for every attention, a choice on dev alone, and what goes on.
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "harness/suite/cell.h"
#include "harness/tune/search.h"
#include "lra/config/protocol.h"
#include "tests/harness/program.h"

namespace lra::tune {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

class TuneTest : public testing::Test {
 protected:
  void SetUp() override { prepare_tiny_listops(data_); }

  // Without the learning rate, which the grid gives.
  Words words(const std::string& out, const std::string& grid, const Words& more = {},
              int64_t steps = 12) const {
    Words all = {"tune",         "--task", "listops",
                 "--grid",       grid,     "--data",
                 data_.string(), "--out",  (scratch_.path() / out).string()};
    for (const std::string& set : tiny_settings(steps)) {
      if (!set.starts_with("optimizer.lr=")) all.insert(all.end(), {"--set", set});
    }
    const auto given = [&](const char* option) { return std::ranges::count(more, option) > 0; };
    if (!given("--attentions")) all.insert(all.end(), {"--attentions", "standard,linear"});
    if (!given("--seeds")) all.insert(all.end(), {"--seeds", "0"});
    if (!given("--threads")) all.insert(all.end(), {"--threads", "1"});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  fs::path out(const std::string& name) const { return scratch_.path() / name; }
  fs::path run(const std::string& name, const std::string& attention, const std::string& point,
               int64_t seed = 0) const {
    return out(name) / "runs/listops" / attention / point / ("seed" + std::to_string(seed));
  }
  TuneFile file(const std::string& name) const { return read_tune_file(out(name) / kTuneFile); }

  Scratch scratch_;
  fs::path data_ = scratch_.path() / "data";
};

// Holds the choice of each attention to the runs' own records.
void expect_highest_chosen(const TuneFile& file, const fs::path& out) {
  ASSERT_EQ(file.chosen.size(), file.attentions.size());
  for (const ChosenPoint& chosen : file.chosen) {
    double highest = 0, of_chosen = -1;
    for (const TunedCell& cell : file.cells) {
      if (cell.attention != chosen.attention) continue;
      const double dev = read_json(out / cell.run / kResultFile)["dev"]["accuracy"];
      EXPECT_EQ(cell.dev, dev) << cell.run;
      highest = std::max(highest, dev);
      if (cell.point == chosen.point) of_chosen = dev;
    }
    EXPECT_EQ(of_chosen, highest) << chosen.attention << ", of one seed";
  }
}

TEST_F(TuneTest, DoesNotReplaceTheProtocolThatItIsGiven) {
  const fs::path given = out("own") / "protocol.json";
  fs::create_directories(out("own"));
  write_file(given, R"({"schema":"lra.protocol/1","name":"mine","extends":"lra-strict"})");
  const std::string before = read_file(given);
  expect_refusal(words("own", "optimizer.lr=1e-3", {"--protocol", given.string()}), 2,
                 "would write its own protocol there; choose another --out");
  EXPECT_EQ(read_file(given), before);
}

// Whatever is in the test split, or if there is none.
TEST_F(TuneTest, ChoosesOnDevWithoutATestSplit) {
  write_file(data_ / "listops/test.safetensors", "no tensors");
  const std::string grid = "optimizer.lr=1e-5,3e-3";
  const ProgramResult result = run_program(words("t", grid));
  ASSERT_EQ(result.status, 0) << result.err;
  const TuneFile first = file("t");
  ASSERT_EQ(first.cells.size(), 4u);
  EXPECT_EQ(first.points, (std::vector<Point>{{"optimizer.lr=1e-05"}, {"optimizer.lr=0.003"}}));
  for (const TunedCell& cell : first.cells) {
    EXPECT_EQ(cell.status, Status::ok) << cell.run;
    const json record = read_json(out("t") / cell.run / kResultFile);
    ASSERT_TRUE(record.contains("test"));
    EXPECT_EQ(record["test"], nullptr);
    EXPECT_EQ(record["steps"], 12);
    EXPECT_EQ(record["data"]["fingerprint"], first.fingerprint);
    EXPECT_FALSE(fs::exists(out("t") / cell.run / kPredictionsFile));
    EXPECT_EQ(cell.seconds, record["training"]["seconds"].get<double>());
  }
  expect_highest_chosen(first, out("t"));
  EXPECT_GT(first.hours, 0);
  EXPECT_DOUBLE_EQ(first.hours, first.cost[0].hours + first.cost[1].hours);
  EXPECT_EQ(first.software["lra"], LRA_VERSION);
  for (const char* part : {"Dev accuracy on listops under lra-strict", "optimizer.lr=0.003",
                           "the test split was not read", "hours of training"})
    EXPECT_TRUE(contains(result.out, part)) << part << "\n" << result.out;

  // Again, without the file: nothing runs twice.
  fs::remove(data_ / "listops/test.safetensors");
  const auto begun = fs::last_write_time(run("t", "standard", "optimizer.lr=0.003") / kResultFile);
  const ProgramResult again = run_program(words("t", grid));
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(again.out, result.out);
  EXPECT_EQ(fs::last_write_time(run("t", "standard", "optimizer.lr=0.003") / kResultFile), begun);
  EXPECT_EQ(make_tune_file(file("t")), make_tune_file(first));
}

TEST_F(TuneTest, ItsProtocolTrainsWithWhatWasChosen) {
  const ProgramResult result =
      run_program(words("t", "optimizer.lr=3e-3", {"--attentions", "linear"}));
  ASSERT_EQ(result.status, 0) << result.err;
  const std::string path = (out("t") / "protocol.json").string();
  EXPECT_TRUE(contains(result.err, "--protocol " + path)) << result.err;
  auto train = tiny_train(data_, out("run"), "linear");
  train.insert(train.end(), {"--protocol", path});
  const auto rate = std::ranges::find(train, "optimizer.lr=0.001");
  ASSERT_NE(rate, train.end());
  train.erase(rate - 1, rate + 1);
  const ProgramResult trained = run_program(train);
  ASSERT_EQ(trained.status, 0) << trained.err;
  const json record = read_json(out("run") / kResultFile),
             tuned = read_json(run("t", "linear", "optimizer.lr=0.003") / kResultFile);
  EXPECT_EQ(record["config"]["optimizer"]["lr"], 0.003);
  EXPECT_TRUE(contains(record["protocol"].get<std::string>(), "lra-strict-tuned-"));
  EXPECT_EQ(record["dev"], tuned["dev"]) << "the same training, and then a test";
  EXPECT_TRUE(record["test"].is_object());
}

// An attention of one's own has an entry beside the others', so that their runs compare.
TEST_F(TuneTest, ItsProtocolTrainsAnAttentionFromAFileBesideTheOthers) {
  const fs::path script = scratch_.path() / "my.pt";
  fs::copy_file(LRA_SOURCE_DIR "/tests/fixtures/torchscript-linear.pt", script);
  const std::string own = "torchscript:" + script.string();
  const Words both = {"--attentions", "linear," + own};
  const ProgramResult result = run_program(words("t", "optimizer.lr=3e-3", both));
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_FALSE(contains(result.err, "no entry")) << result.err;
  const std::string path = (out("t") / "protocol.json").string();
  const Protocol tuned = load_protocol(path);
  EXPECT_EQ(task_settings(tuned, "listops", own).optimizer.lr, 0.003);
  EXPECT_EQ(task_settings(tuned, "listops", "standard").optimizer.lr, 1e-4);
  const std::vector<std::string> attentions = {"linear", own}, names = {"linear", "own"};
  for (size_t i = 0; i < 2; ++i) {
    auto train = with(tiny_train(data_, out(names[i]), attentions[i]), {"--protocol", path});
    const auto rate = std::ranges::find(train, "optimizer.lr=0.001");
    train.erase(rate - 1, rate + 1);
    const ProgramResult trained = run_program(train);
    ASSERT_EQ(trained.status, 0) << trained.err;
    EXPECT_EQ(read_json(out(names[i]) / kResultFile)["config"]["optimizer"]["lr"], 0.003);
  }
  const ProgramResult compared =
      run_program({"compare", out("linear").string(), out("own").string()});
  EXPECT_EQ(compared.status, 0) << compared.err;

  // Two forms of it would have one entry.
  expect_refusal(
      words("r", "optimizer.lr=3e-3", {"--attentions", "python:my.py:S,python:my.py:S[beta=2]"}), 2,
      "python:my.py:S and python:my.py:S[beta=2] have one entry of a protocol");

  // The search goes on with the file that it began with.
  fs::remove(script);
  const ProgramResult more = run_program(words("t", "optimizer.lr=1e-3", both));
  ASSERT_EQ(more.status, 0) << more.err;
  EXPECT_TRUE(contains(more.err, script.string() + " is gone; " + own + " goes on with the file"))
      << more.err;
  EXPECT_EQ(file("t").points.size(), 2u);
}

TEST_F(TuneTest, AnotherGridAddsCellsAndOtherSettingsAreRefused) {
  const Words one = {"--attentions", "linear"};
  ASSERT_EQ(run_program(words("t", "optimizer.lr=1e-3", one)).status, 0);
  const json before = read_json(run("t", "linear", "optimizer.lr=0.001") / kResultFile);
  const ProgramResult more =
      run_program(words("t", "optimizer.lr=3e-3,1e-3", {"--attentions", "linear"}));
  ASSERT_EQ(more.status, 0) << more.err;
  EXPECT_EQ(file("t").points, (std::vector<Point>{{"optimizer.lr=0.001"}, {"optimizer.lr=0.003"}}));
  EXPECT_EQ(read_json(run("t", "linear", "optimizer.lr=0.001") / kResultFile), before);
  EXPECT_TRUE(fs::exists(run("t", "linear", "optimizer.lr=0.003") / kResultFile));

  const auto refused = [&](const Words& given, int status = 1) {
    Words all = {"--attentions", "linear"};
    if (given.front() == "--attentions") all.clear();
    all.insert(all.end(), given.begin(), given.end());
    const ProgramResult result = run_program(words("t", "optimizer.lr=1e-3", all));
    EXPECT_EQ(result.status, status) << result.err;
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
    return result.err;
  };
  EXPECT_TRUE(
      contains(refused({"--seeds", "0,1"}), "holds another search (--seeds 0 there, 0,1 here)"));
  EXPECT_TRUE(contains(refused({"--attentions", "linear,standard"}),
                       "(--attentions linear there, linear,standard here)"));
  EXPECT_TRUE(contains(refused({"--set", "model.layers=1"}), "(--set "));
  EXPECT_TRUE(contains(refused({"--dtype", "bfloat16"}), "(--dtype float32 there, bfloat16 here)"));
  EXPECT_TRUE(contains(refused({"--protocol", "nystromformer2021"}),
                       "search (--protocol lra-strict there, nystromformer2021 here)"));
  EXPECT_TRUE(contains(refused({"--threads", "2"}, 2),
                       "have 1 thread each, as their results depend on it, and not 2"));
  remove_tree(data_);
  prepare_tiny_listops(data_, /*train=*/96);
  EXPECT_TRUE(contains(refused({"--seeds", "0"}), "(the data's fingerprint "));
  EXPECT_EQ(file("t").points.size(), 2u) << "what is refused changes nothing";
  fs::remove(out("t") / kTuneFile);
  EXPECT_TRUE(contains(refused({"--seeds", "0"}), " are of other data than "));
  EXPECT_FALSE(fs::exists(out("t") / kTuneFile));
}

// Runs record the fingerprint of data as they read them.
TEST_F(TuneTest, WithoutItsFileItTakesUpItsRuns) {
  const Words dropped = {"--attentions", "linear", "--set", "input.brackets=drop"};
  ASSERT_EQ(run_program(words("t", "optimizer.lr=1e-3", dropped)).status, 0);
  const json before = read_json(run("t", "linear", "optimizer.lr=0.001") / kResultFile);
  fs::remove(out("t") / kTuneFile);
  const ProgramResult again = run_program(words("t", "optimizer.lr=1e-3", dropped));
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(read_json(run("t", "linear", "optimizer.lr=0.001") / kResultFile), before);
}

TEST_F(TuneTest, WithoutItsFileItTakesUpNoRunsOfAnotherConfiguration) {
  const Words one = {"--attentions", "linear"};
  ASSERT_EQ(run_program(words("t", "optimizer.lr=1e-3", one)).status, 0);
  fs::remove(out("t") / kTuneFile);
  const ProgramResult other = run_program(
      words("t", "optimizer.lr=1e-3", {"--attentions", "linear", "--set", "model.layers=3"}));
  EXPECT_EQ(other.status, 1);
  EXPECT_TRUE(contains(other.err, "is of another configuration than the cell (model.layers: "))
      << other.err;
  EXPECT_FALSE(fs::exists(out("t") / kTuneFile)) << "it would refuse the right command";
  fs::remove(run("t", "linear", "optimizer.lr=0.001") / kResultFile);  // as where it was killed
  const ProgramResult begun = run_program(
      words("t", "optimizer.lr=1e-3", {"--attentions", "linear", "--set", "model.layers=3"}));
  EXPECT_TRUE(contains(begun.err, "holds a run of another configuration (model.layers: "))
      << begun.err;
  EXPECT_FALSE(fs::exists(out("t") / kTuneFile));
  EXPECT_EQ(run_program(words("t", "optimizer.lr=1e-3", one)).status, 0);
}

TEST_F(TuneTest, KilledItGoesOnAndEndsTheSame) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed of the delays: " + std::to_string(seed));
  std::mt19937 random(seed);
  const std::string grid = "optimizer.lr=1e-3,3e-3";
  const Words one = {"--attentions", "linear"};
  ASSERT_EQ(run_program(words("whole", grid, one, 200)).status, 0);
  const std::vector<fs::path> runs = {run("cut", "linear", "optimizer.lr=0.001"),
                                      run("cut", "linear", "optimizer.lr=0.003")};
  int kills = 0;
  for (int attempt = 0; attempt < 2; ++attempt) {
    const std::chrono::milliseconds delay(std::uniform_int_distribution<int64_t>(0, 250)(random));
    kills += kill_in_training(words("cut", grid, one, 200), runs, delay) ? 1 : 0;
  }
  ASSERT_GE(kills, 1) << "kills that hit a run in progress";
  const ProgramResult end = run_program(words("cut", grid, one, 200));
  ASSERT_EQ(end.status, 0) << end.err;
  const TuneFile cut = file("cut"), whole = file("whole");
  ASSERT_EQ(cut.cells.size(), whole.cells.size());
  for (size_t i = 0; i < cut.cells.size(); ++i) {
    EXPECT_EQ(cut.cells[i].dev, whole.cells[i].dev);
    EXPECT_EQ(cut.cells[i].best_step, whole.cells[i].best_step);
    EXPECT_EQ(cut.cells[i].left_majority_at, whole.cells[i].left_majority_at);
  }
  EXPECT_EQ(cut.chosen.front().point, whole.chosen.front().point);
  EXPECT_EQ(read_file(out("cut") / "protocol.json"), read_file(out("whole") / "protocol.json"));
}

// What is chosen is chosen among all points: that of a command that ends first, too.
TEST_F(TuneTest, TwoCommandsWithGridsOfTheirOwnEndWithOneChoice) {
  const Words one = {"--attentions", "linear"};
  Program first(words("t", "optimizer.lr=1e-4", one, 60));
  for (int i = 0; i < 6000 && !fs::exists(out("t") / kTuneFile); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  Program second(words("t", "optimizer.lr=1e-3,3e-3", one, 60));
  for (const ProgramResult& ended : {first.wait(), second.wait()}) {
    EXPECT_EQ(ended.status, 0) << ended.err;
    EXPECT_TRUE(contains(ended.out, "0.003")) << ended.out;
    EXPECT_FALSE(contains(ended.out, "pending")) << ended.out;
  }
  EXPECT_TRUE(contains(read_file(out("t") / "protocol.json"), "the highest of 3 points"));
}

TEST_F(TuneTest, CellsThatRanOutOfTimeCostTheirTime) {
  run_program(
      words("t", "optimizer.lr=1e-4", {"--attentions", "linear", "--timeout", "2"}, 1000000));
  EXPECT_EQ(file("t").cells.front().status, Status::timeout);
  EXPECT_GE(file("t").hours, 2.0 / 3600);
  // Beside a point that has ended: the choice would be among fewer than another attention's.
  const auto of_steps = [&](const std::string& grid, Words more = {}) {
    more.insert(more.end(), {"--attentions", "linear", "--set", "optimizer.lr=1e-3"});
    Words steps = words("u", grid, more);
    const auto given = std::ranges::find(steps, "training.steps=12");
    steps.erase(given - 1, given + 1);
    return run_program(steps);
  };
  ASSERT_EQ(of_steps("training.steps=16").status, 0);
  const std::string before = read_file(out("u") / "protocol.json");
  const ProgramResult beside = of_steps("training.steps=1000000", {"--timeout", "2"});
  EXPECT_EQ(beside.status, 1);
  EXPECT_TRUE(contains(beside.err, "1 of 2 cells ended neither as ok nor as diverged"))
      << beside.err;
  EXPECT_TRUE(contains(beside.err, "protocol.json is from an earlier call's points")) << beside.err;
  EXPECT_EQ(read_file(out("u") / "protocol.json"), before);
}

TEST_F(TuneTest, ARateThatDivergesIsAFindingAndNothingToChoose) {
  const Words one = {"--attentions", "standard"};
  const ProgramResult alone = run_program(words("t", "optimizer.lr=1e30", one));
  EXPECT_EQ(alone.status, 1);
  EXPECT_TRUE(contains(alone.out, "1 diverged")) << alone.out;
  EXPECT_TRUE(contains(alone.err, "nothing is chosen for standard")) << alone.err;
  EXPECT_FALSE(fs::exists(out("t") / "protocol.json"));
  const ProgramResult beside = run_program(words("t", "optimizer.lr=1e-3", one));
  EXPECT_EQ(beside.status, 0) << beside.err;
  EXPECT_EQ(file("t").chosen.front().point, (Point{"optimizer.lr=0.001"}));
  EXPECT_EQ(file("t").cells.front().status, Status::diverged);
  EXPECT_TRUE(fs::exists(out("t") / "protocol.json"));
}

TEST_F(TuneTest, ADryRunWritesNothing) {
  const ProgramResult result =
      run_program(words("t", "optimizer.lr=1e-3,1e-2", {"--seeds", "0-2", "--dry-run"}));
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(contains(result.out, "12 cells: 0 ended, 12 to run\n")) << result.out;
  EXPECT_TRUE(contains(result.out, "3 pending")) << result.out;
  EXPECT_FALSE(fs::exists(out("t")));
}

TEST_F(TuneTest, RefusesWithOneLineThatHelps) {
  const auto refused = [&](const std::string& grid, const Words& more, const std::string& message,
                           int status = 2) {
    expect_refusal(words("r", grid, more), status, message);
    EXPECT_FALSE(fs::exists(out("r"))) << "nothing half-written";
  };
  const std::string grid = "optimizer.lr=1e-3";
  refused("optimizer.lrr=1e-3", {}, "did you mean 'lr'?");
  refused("optimizer.lr=-1", {}, "--grid optimizer: lr should be more than 0, not -1");
  refused("optimizer.lr=", {}, "--grid optimizer.lr names no value");
  refused(grid, {"--grid", "optimizer.lr=1e-4"}, "--grid gives optimizer.lr twice");
  refused(grid, {"--set", "optimizer.lr=1e-4"}, "give the same setting");
  refused(grid, {"--set", "training.step=1"}, "unknown key 'step' in --set training");
  refused(grid, {"--attentions", "linear,linear"}, "--attentions names linear twice");
  refused(grid, {"--attentions", "nystrom,nystrom[num_landmarks=8]"},
          "nystrom and nystrom[num_landmarks=8] have one entry of a protocol");
  refused(grid, {"--attentions", "standrad"}, "did you mean 'standard'?");
  refused(grid, {"--seeds", "0,0"}, "--seeds names 0 twice");
  refused(grid, {"--set", "evaluation.dev=test"}, "give evaluation.dev=dev");
  refused("schedule.beta1_low=0,0.5", {"--set", "optimizer.lr=1e-3"},
          "schedule.beta1_low should be at most schedule.beta1_high");
  const fs::path suite = out("suite");
  fs::create_directories(suite);
  write_file(suite / "suite.json", "{}");
  expect_refusal(words("suite", grid, {}), 1, "holds a suite, whose runs are not a search's");
  // Settings of a protocol's own that train one attention for longer, or on more at a time.
  const std::string own = (scratch_.path() / "own.json").string();
  const auto with_entry = [&](const json& training) {
    write_json(own,
               {{"schema", "lra.protocol/1"},
                {"name", "own"},
                {"extends", "lra-strict"},
                {"tasks",
                 {{"listops",
                   {{"attentions", {{"linear", {{"settings", {{"training", training}}}}}}}}}}}});
    return Words{"--attentions", "standard,linear", "--protocol", own};
  };
  Words uneven = words("r", grid, with_entry({{"batch", 16}}));
  const auto set = std::ranges::find_if(
      uneven, [](const std::string& word) { return word.starts_with("training.batch="); });
  ASSERT_NE(set, uneven.end());
  uneven.erase(set - 1, set + 1);
  expect_refusal(uneven, 2,
                 "standard would train 32 samples a step and linear 16: a search costs every "
                 "attention the same; give --set training.batch=N");
  EXPECT_FALSE(fs::exists(out("r")));
  remove_tree(data_);
  refused(grid, {}, "lra data prepare listops --out " + data_.string(), /*status=*/1);
  expect_refusal({"tune", "--task", "listops", "--attentions", "linear", "--out", "r"}, 2,
                 "--grid is required");
}

}  // namespace
}  // namespace lra::tune
