// lra suite: data, runs, profile and tables from one command; killed, it goes on.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "harness/training/run_folder.h"
#include "tests/harness/suite/fixture.h"

namespace lra::suite {
namespace {

namespace fs = std::filesystem;

TEST_F(SuiteTest, EndsWithBothTables) {
  write_budget(12, "64,128");
  const ProgramResult result = run_program(words("s"));
  ASSERT_EQ(result.status, 0) << result.err;
  for (const char* part : {"nystrom[num_landmarks=8]", "standard", "128",
                           "settings of budget tiny, not the recipe of lra-strict"}) {
    EXPECT_NE(result.out.find(part), std::string::npos) << part << "\n" << result.out;
  }
  const size_t first = result.out.find("Accuracy: ");
  ASSERT_NE(first, std::string::npos) << result.out;
  EXPECT_EQ(result.out.find("Accuracy: ", first + 1), std::string::npos)
      << "runs of one recipe share a table:\n"
      << result.out;
  for (const char* name :
       {"report.md", "accuracy.csv", "accuracy.tex", "memory_time.csv", "memory_time.tex"}) {
    EXPECT_TRUE(fs::exists(out("s") / "report" / name)) << name;
  }
  EXPECT_TRUE(fs::exists(out("s") / "runs/listops/standard/seed0" / kResultFile));
  EXPECT_TRUE(fs::exists(out("s") / "runs/listops/nystrom[num_landmarks=8]/seed0" / kResultFile));

  // Again: nothing runs twice, the same tables.
  const std::string before = read_file(out("s") / "runs/listops/standard/seed0" / kResultFile);
  const ProgramResult again = run_program(words("s"));
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(again.out, result.out);
  EXPECT_EQ(read_file(out("s") / "runs/listops/standard/seed0" / kResultFile), before);
}

TEST_F(SuiteTest, MeasuresWhatAnEditedBudgetAsksFor) {
  const auto lengths = [&] {
    std::set<int64_t> found;
    for (const json& line : read_lines(out("s") / "profile.jsonl"))
      found.insert(line["length"].get<int64_t>());
    return found;
  };
  ASSERT_EQ(run_program(words("s", "standard")).status, 0);
  EXPECT_EQ(lengths(), (std::set<int64_t>{64}));
  write_budget(12, "32,64");
  ASSERT_EQ(run_program(words("s", "standard")).status, 0);
  EXPECT_EQ(lengths(), (std::set<int64_t>{32, 64}));
}

TEST_F(SuiteTest, ItsDataAreTheSameHoweverTheirFolderIsWritten) {
  prepare_tiny_listops(out("d"));
  for (const char* end : {"/", "", "/../d/"}) {
    const ProgramResult result = run_program(
        with(words("s", "standard"), {"--only", "0", "--data", out("d").string() + end}));
    EXPECT_EQ(result.status, 0) << end << result.err;
  }
}

TEST_F(SuiteTest, KilledItGoesOnAndEndsTheSame) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed of the delays: " + std::to_string(seed));
  std::mt19937 random(seed);
  write_budget(200);
  ASSERT_EQ(run_program(with(words("whole"), {"--only", "0-1"})).status, 0);
  std::vector<fs::path> names, runs;
  for (const char* attention : {"standard", "nystrom[num_landmarks=8]"}) {
    names.push_back(fs::path("runs/listops") / attention / "seed0");
    runs.push_back(out("cut") / names.back());
  }
  int kills = 0;
  for (int attempt = 0; attempt < 2; ++attempt) {
    const std::chrono::milliseconds delay(std::uniform_int_distribution<int64_t>(0, 250)(random));
    kills += kill_in_training(words("cut"), runs, delay) ? 1 : 0;
  }
  ASSERT_GE(kills, 1) << "kills that hit a run in progress";
  const ProgramResult end = run_program(words("cut"));
  ASSERT_EQ(end.status, 0) << end.err;
  for (const fs::path& name : names) {
    const fs::path cut = out("cut") / name, whole = out("whole") / name;
    EXPECT_EQ(read_file(cut / kPredictionsFile), read_file(whole / kPredictionsFile));
    EXPECT_EQ(read_json(cut / kResultFile)["test"], read_json(whole / kResultFile)["test"]);
  }
}

TEST_F(SuiteTest, ACellThatDivergesIsAStatusAndTheOthersGoOn) {
  auto w = words("s", "standard");
  w.insert(w.end(), {"--set", "optimizer.lr=1e30"});
  const ProgramResult result = run_program(w);
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.out.find("diverged"), std::string::npos) << result.out;
  EXPECT_NE(result.err.find("1 part(s) of the suite did not end as ok"), std::string::npos)
      << result.err;
}

TEST_F(SuiteTest, RefusesWithOneLineThatHelps) {
  const auto refused = [&](std::vector<std::string> more) {
    auto w = words("r");
    w.insert(w.end(), more.begin(), more.end());
    const ProgramResult result = run_program(w);
    EXPECT_EQ(result.status, 2) << result.err;
    EXPECT_FALSE(fs::exists(out("r"))) << "nothing half-written";
    return result.err;
  };
  EXPECT_NE(refused({"--tasks", "listop"}).find("did you mean 'listops'?"), std::string::npos);
  EXPECT_NE(refused({"--seeds", "0,x"}).find("--seeds should be a comma list of integers"),
            std::string::npos);
  EXPECT_NE(refused({"--set", "training.step=1"}).find("did you mean 'steps'?"), std::string::npos);
  EXPECT_NE(run_program({"suite", "--budget", "smok"})
                .err.find("unknown budget 'smok'; did you mean 'smoke'?"),
            std::string::npos);

  ASSERT_EQ(run_program(words("s", "standard")).status, 0);
  EXPECT_NE(run_program(words("s", "nystrom")).err.find("holds another suite"), std::string::npos);
  auto again = words("s", "standard");
  again.pop_back();
  EXPECT_NE(run_program(again).err.find("holds a suite already; go on with --resume"),
            std::string::npos);
}

TEST_F(SuiteTest, OfAFolderIsOfItsDevice) {
  ASSERT_EQ(run_program(words("s", "standard")).status, 0);
  const fs::path path = out("s") / kSuiteFile;
  const std::string folder = out("s").string();
  expect_refusal({"suite", "submit", "--slurm", "--dry-run", "--out", folder, "--gpus", "1"}, 2,
                 "is of device cpu, not cuda; choose it, or another --out folder");
  expect_refusal({"suite", "plan", "--out", folder, "--device", "cuda"}, 2,
                 "is of device cpu, not cuda; choose it");
  json held = read_json(path);
  held["device"] = "cuda";
  write_json(path, held);
  expect_refusal({"suite", "--out", folder, "--resume", "--device", "cpu"}, 2,
                 "is of device cuda, not cpu; choose it");
  const std::string resumed = run_program({"suite", "--out", folder, "--resume"}).err;
  EXPECT_EQ(resumed.find("choose it"), std::string::npos) << resumed;
}

// The right command comes after the wrong one.
TEST_F(SuiteTest, WithoutItsFileIsNotTakenForAnother) {
  ASSERT_EQ(run_program(words("s", "standard")).status, 0);
  fs::remove(out("s") / kSuiteFile);
  expect_refusal(with(words("s", "standard"), {"--set", "model.layers=3"}), 1,
                 "whose protocol or options have changed since");
  EXPECT_FALSE(fs::exists(out("s") / kSuiteFile));
  EXPECT_EQ(run_program(words("s", "standard")).status, 0);
}

TEST(SuiteFolders, HaveNamesThatFileSystemsHold) {
  const std::string most(255, 'a');
  EXPECT_EQ(folder_name(most), most);
  const std::string one = folder_name(most + "b"), other = folder_name(most + "c");
  EXPECT_EQ(one.size(), 255u);
  EXPECT_NE(one, other);
  EXPECT_EQ(one.substr(0, 238), most.substr(0, 238));
}

}  // namespace
}  // namespace lra::suite
