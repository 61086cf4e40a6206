// Classes of Python wherever an attention is named: check, train, evaluate, profile, suite. What
// needs no program is tested in tests/python.
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <torch/version.h>

#include <cstdlib>
#include <fstream>
#include <set>

#include "harness/training/run_folder.h"
#include "lra/formats/safetensors.h"
#include "results/store/store.h"
#include "tests/harness/suite/fixture.h"
#include "tests/harness/training/train_fixture.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

const fs::path kTests = fs::path(LRA_SOURCE_DIR) / "tests";

std::string example(const std::string& file_and_class) {
  return "python:" + (kTests / "examples" / "python" / file_and_class).string();
}

std::string faulty(const std::string& name) {
  return "python:" + (kTests / "python" / "faulty.py").string() + ":" + name;
}

class PythonTest : public TrainTest {
 protected:
  static void SetUpTestSuite() {
    reason_ = run_program({"check", "--attention", faulty("NoSuchClass")}).err;
    if (contains(reason_, "NoSuchClass is not in it")) reason_.clear();
  }
  void SetUp() override {
    // ./run test says where it has set up a Python with torch.
    const char* const asked = std::getenv("LRA_TEST_PYTHON");
    const bool required = asked != nullptr && std::string_view(asked) == "required";
    const bool is_missing =
        contains(reason_, "has no module for Python") || contains(reason_, "cannot import torch");
    if (!required && is_missing) GTEST_SKIP() << reason_;
    ASSERT_EQ(reason_, "");
    TrainTest::SetUp();
  }

  Result result(const std::string& name) const {
    return parse_result(read_json(run(name) / kResultFile));
  }

  // Two runs that were trained to the same bits, whatever their folders are called.
  void expect_same_bits(const std::string& a, const std::string& b) const {
    const TensorFile x = read_tensors(run(a) / kLastCheckpoint),
                     y = read_tensors(run(b) / kLastCheckpoint);
    ASSERT_EQ(x.tensors.size(), y.tensors.size());
    for (const auto& [name, tensor] : x.tensors)
      EXPECT_TRUE(torch::equal(tensor, y.at(name))) << name;
    EXPECT_EQ(read_file(run(a) / kPredictionsFile), read_file(run(b) / kPredictionsFile));
  }

  // Of classes of faulty.py what is said of them, on the terminal and in the record.
  void expect_raised(const std::vector<std::pair<std::string, std::string>>& classes) const {
    for (const auto& [name, reason] : classes) {
      SCOPED_TRACE(name);
      expect_refusal(with(words(name, faulty(name)), {"--quiet"}), 1, reason);
      EXPECT_EQ(result(name).status, Status::crash);
      EXPECT_TRUE(contains(result(name).reason, reason)) << result(name).reason;
    }
  }

 private:
  static inline std::string reason_;
};

TEST_F(PythonTest, StoppedItContinuesToTheSameBits) {
  // Noisy draws from Python's generator and torch's and replaces a buffer.
  ASSERT_EQ(run_program(words("whole", faulty("Noisy[dropout=0.1]"), 60)).status, 0);
  auto cut = words("cut", faulty("Noisy[dropout=0.1]"), 60);
  ASSERT_TRUE(kill_in_training(cut, {run("cut")}, std::chrono::milliseconds(0)));
  const ProgramResult resumed = run_program(cut);
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  expect_same_bits("whole", "cut");

  const TensorFile last = read_tensors(run("whole") / kLastCheckpoint);
  EXPECT_GT(last.at("random.python").numel(), 1000);
  EXPECT_GT(last.at("model.layer0_attention.module.mean").abs().max().item<double>(), 0);
  EXPECT_FALSE(torch::equal(last.at("model.layer0_attention.module.weight"),
                            last.at("model.layer1_attention.module.weight")));
}

TEST_F(PythonTest, TrainsAsTheSameFunctionInCppDoes) {
  ASSERT_EQ(run_program(words("native", "linear", 30)).status, 0);
  ASSERT_EQ(run_program(words("python", example("linear.py:LinearAttention"), 30)).status, 0);
  const std::vector<json> native = read_lines(run("native") / kMetricsFile),
                          python = read_lines(run("python") / kMetricsFile);
  ASSERT_EQ(native.size(), python.size());
  for (size_t i = 0; i < native.size(); ++i) {
    EXPECT_NEAR(native[i]["loss"].get<double>(), python[i]["loss"].get<double>(), 1e-4);
    EXPECT_NEAR(native[i]["accuracy"].get<double>(), python[i]["accuracy"].get<double>(), 0.03)
        << "an example or so may change sides";
  }
}

TEST_F(PythonTest, ARunKeepsTheSourceAndUsesItOnceTheFileHasChanged) {
  const fs::path file = scratch_.path() / "my.py";
  fs::copy_file(kTests / "examples" / "python" / "linear.py", file);
  const std::string attention = "python:" + file.string() + ":LinearAttention";
  ASSERT_EQ(run_program(words("a", attention)).status, 0);
  const Result trained = result("a");
  EXPECT_EQ(trained.attention.label, attention);
  EXPECT_EQ(trained.attention.options["sha256"], sha256_file(file));
  EXPECT_EQ(read_file(run("a") / "attention.py"), read_file(file));

  std::ofstream(file, std::ios::app) << "\nraise RuntimeError('changed')\n";
  const ProgramResult kept = run_program({"evaluate", run("a").string(), "--json"});
  ASSERT_EQ(kept.status, 0) << kept.err;
  EXPECT_EQ(json::parse(kept.out)["correct"], trained.test->correct);
  fs::remove(run("a") / "attention.py");
  expect_refusal({"evaluate", run("a").string()}, 1, "that was asked for; it has changed");
}

TEST_F(PythonTest, ARunKeepsWhatTheSourceImportsFromBesideIt) {
  const fs::path file = scratch_.path() / "mine.py", helper = scratch_.path() / "lra_beside.py";
  fs::copy_file(kTests / "examples" / "python" / "linear.py", helper);
  write_file(file, "from lra_beside import LinearAttention\n");
  const std::string attention = "python:" + file.string() + ":LinearAttention";
  ASSERT_EQ(run_program(words("a", attention)).status, 0);
  const Result trained = result("a");
  EXPECT_FALSE(trained.attention.options.contains("dropout"));
  EXPECT_EQ(trained.attention.options["imports_sha256"],
            (json{{"lra_beside.py", sha256_file(helper)}}));

  std::ofstream(helper, std::ios::app) << "\nraise RuntimeError('changed')\n";
  const ProgramResult kept = run_program({"evaluate", run("a").string(), "--json"});
  ASSERT_EQ(kept.status, 0) << kept.err;
  EXPECT_EQ(json::parse(kept.out)["correct"], trained.test->correct);
  fs::remove_all(run("a") / "attention_imports");
  expect_refusal({"evaluate", run("a").string()}, 1, "No module named 'lra_beside'");
}

// A file of the working folder stands for none of Python's own modules.
TEST_F(PythonTest, FilesOfTheWorkingFolderStandInNobodysWay) {
  const fs::path before = fs::current_path();
  fs::create_directories(scratch_.path() / "here" / "own");
  for (const char* name : {"random.py", "json.py", "lra.py", "types.py"})
    write_file(scratch_.path() / "here" / name, "raise RuntimeError('not meant')\n");
  write_file(scratch_.path() / "here" / "own" / "attention.py",
             read_file(kTests / "examples" / "python" / "linear.py"));
  fs::current_path(scratch_.path() / "here");
  const ProgramResult checked =
      run_program({"check", "--attention", "python:own.attention:LinearAttention"});
  fs::current_path(before);
  EXPECT_EQ(checked.status, 0) << checked.text();
  EXPECT_TRUE(contains(checked.out, "clauses hold")) << checked.text();
}

TEST_F(PythonTest, WhatABackwardPassRaisesIsToldByAttendToo) {
  const fs::path input = scratch_.path() / "in.safetensors";
  const torch::Tensor heads = torch::ones({1, 2, 8, 4});
  write_tensors(input,
                {.tensors = {{"q", heads}, {"k", heads}, {"v", heads}, {"grad_output", heads}}});
  expect_refusal({"attend", "--attention", faulty("BackwardRaises"), "--input", input.string(),
                  "--output", (scratch_.path() / "out.safetensors").string()},
                 1, "BackwardRaises: KeyError: 'no gradient today' (faulty.py:");
}

class SlowPythonTest : public PythonTest {};

TEST_F(PythonTest, WhatTheClassRaisesStandsInTheRecordWithItsPlace) {
  expect_raised({{"BackwardRaises", "KeyError: 'no gradient today' (faulty.py:"},
                 {"WrongShape", "as it was given, not [8,2,63,32] Float"}});
}

TEST_F(SlowPythonTest, WhateverTheClassRaisesStandsInTheRecordWithItsPlace) {
  expect_raised({{"ForwardRaises", " in forward, faulty.py:"},
                 {"Exits", "called sys.exit(3) (faulty.py:"},
                 {"WrongType", "as it was given, not [8,2,64,32] Half"},
                 {"WrongDevice", "as it was given, not [8,2,64,32] Float on meta"},
                 {"MakesParameters", "make them in __init__"},
                 {"Forks", "forward may not fork this process"}});
}

TEST_F(PythonTest, WhatCannotServeIsRefusedBeforeAnyWork) {
  const auto refused = [&](const std::string& attention, int status, const std::string& message) {
    expect_refusal(words("refused", attention), status, message);
    EXPECT_FALSE(fs::exists(run("refused"))) << attention;
  };
  refused("python:none.py:X", 1, "there is no file 'none.py'");
  refused("python:my.py", 2, "the file or the class is missing");
  refused(faulty("Layer[witdh=3]"), 2, "did you mean 'width'?");
  refused(faulty("InitRaises"), 1, "ValueError: a bad start (faulty.py:");
  refused(faulty("Lazy"), 1, "has no shape yet");
}

TEST_F(PythonTest, CheckTellsTheReadmesClassFromOneThatIgnoresTheMask) {
  const std::string readme = read_file(fs::path(LRA_SOURCE_DIR) / "README.md");
  const size_t begin = readme.find("```python\n") + 10;
  write_file(scratch_.path() / "my.py", readme.substr(begin, readme.find("```", begin) - begin));
  const ProgramResult right = run_program(
      {"check", "--attention", "python:" + (scratch_.path() / "my.py:Softplus").string()});
  EXPECT_EQ(right.status, 0) << right.text();
  EXPECT_TRUE(contains(right.out, "19 of 19 clauses hold")) << right.out;
  const ProgramResult wrong =
      run_program({"check", "--attention", example("ignores_mask.py:IgnoresMask")});
  EXPECT_EQ(wrong.status, 1) << wrong.text();
  EXPECT_TRUE(contains(wrong.out, "padding")) << wrong.out;
}

TEST_F(PythonTest, AClassMayPromiseThatPaddingFurtherChangesNothing) {
  const ProgramResult kept =
      run_program({"check", "--attention", example("linear.py:LinearAttention")});
  EXPECT_EQ(kept.status, 0) << kept.text();
  const ProgramResult broken = run_program({"check", "--attention", faulty("BreaksPromise")});
  EXPECT_EQ(broken.status, 1) << broken.text();
  EXPECT_TRUE(contains(broken.out, "length invariance")) << broken.out;
}

TEST_F(PythonTest, WhatItPrintsDoesNotStandInWhatTheProgramPrints) {
  ASSERT_EQ(run_program(words("a", faulty("Prints"))).status, 0);
  const ProgramResult evaluated = run_program({"evaluate", run("a").string(), "--json"});
  EXPECT_EQ(evaluated.status, 0);
  EXPECT_TRUE(contains(evaluated.err, "printed by forward"));
  EXPECT_EQ(json::parse(evaluated.out)["correct"], result("a").test->correct);
}

// The words of a tiny suite in run(name), which goes on where it was.
class PythonSuiteTest : public PythonTest {
 protected:
  std::vector<std::string> suite_words(const std::string& name,
                                       const std::vector<std::string>& attentions) {
    const fs::path budget = scratch_.path() / "budget.json";
    write_json(budget, {{"schema", "lra.budget/1"},
                        {"name", "tiny"},
                        {"tasks", {{"listops", json::object()}}},
                        {"profile", {{"lengths", "64"}, {"seconds", 0.02}}}});
    std::vector<std::string> words = {"suite",
                                      "--budget",
                                      budget.string(),
                                      "--attentions",
                                      fmt::format("{}", fmt::join(attentions, ",")),
                                      "--tasks",
                                      "listops",
                                      "--data",
                                      data_.string(),
                                      "--out",
                                      run(name).string(),
                                      "--threads",
                                      "1",
                                      "--seeds",
                                      "0",
                                      "--resume"};
    for (const std::string& set : tiny_settings()) words.insert(words.end(), {"--set", set});
    return words;
  }
};

TEST_F(PythonSuiteTest, TrainsItBesideBuiltInAttentions) {
  const ProgramResult made =
      run_program(suite_words("suite", {"linear", faulty("Noisy[dropout=0.1]")}));
  ASSERT_EQ(made.status, 0) << made.err;
  const Records records = find_records({run("suite")});
  ASSERT_EQ(records.results.size(), 2u);
  for (const Result& each : records.results) EXPECT_EQ(each.status, Status::ok) << each.reason;
}

// Two of one class, in a folder whose name would part a list of them.
TEST_F(PythonSuiteTest, WhatChangesMeanwhileIsReadAsItWas) {
  const fs::path file = scratch_.path() / "my.py", helper = scratch_.path() / "lra_beside.py";
  write_file(helper, "GAIN = 0.5\n");
  write_file(file, R"(import torch
from lra_beside import GAIN


class Gated(torch.nn.Module):
    def __init__(self, head_dim, features=4):
        super().__init__()
        self.gate = torch.nn.Parameter(torch.full((head_dim,), GAIN * features))

    def forward(self, q, k, v, mask):
        return v.masked_fill(~mask[:, None, :, None], 0) * self.gate
)");
  const std::string first = "python:" + file.string() + ":Gated", second = first + "[features=8]";
  const json source = sha256_file(file), imports = {{"lra_beside.py", sha256_file(helper)}};
  Program program(suite_words("s[1]", {first, second}));
  const fs::path begun =
      run("s[1]") / "runs/listops" / suite::folder_name(first) / "seed0" / kLastCheckpoint;
  ASSERT_TRUE(wait_until(program, [&] { return fs::exists(begun); }));
  write_file(helper, "raise RuntimeError('changed')\n");
  const ProgramResult ended = program.wait();
  EXPECT_EQ(ended.status, 0) << ended.err;
  const Records records = find_records({run("s[1]")});
  ASSERT_EQ(records.results.size(), 2u);
  ASSERT_EQ(records.profiles.size(), 2u);
  std::set<std::string> trained, measured;
  const auto expect_as_it_was = [&](const auto& record) {
    EXPECT_EQ(record.status, Status::ok) << record.reason;
    EXPECT_EQ(record.attention.options["file"], file.string());
    EXPECT_EQ(record.attention.options["sha256"], source);
    EXPECT_EQ(record.attention.options["imports_sha256"], imports);
    return record.attention.label;
  };
  for (const Result& one : records.results) trained.insert(expect_as_it_was(one));
  for (const Profile& one : records.profiles) measured.insert(expect_as_it_was(one));
  EXPECT_EQ(trained, (std::set{first, second}));
  EXPECT_EQ(measured, (std::set{first, second}));
}

class SlowPythonSuiteTest : public PythonSuiteTest {};

TEST_F(SlowPythonSuiteTest, KilledThreeTimesEndsAsOneThatWasNot) {
  const std::vector<std::string> attentions = {"linear", faulty("Noisy[dropout=0.1]"),
                                               example("rotary.py:RotaryAttention"),
                                               example("linear.py:LinearAttention")};
  const ProgramResult made = run_program(suite_words("whole", attentions));
  ASSERT_EQ(made.status, 0) << made.err;
  const fs::path cells = fs::path("runs") / "listops";
  std::vector<fs::path> whole, cut;
  for (const auto& cell : fs::directory_iterator(run("whole") / cells)) {
    whole.push_back(cell.path() / "seed0");
    cut.push_back(run("cut") / cells / cell.path().filename() / "seed0");
  }
  ASSERT_EQ(whole.size(), attentions.size());

  int kills = 0;
  for (int i = 0; i < 3; ++i) {
    kills +=
        kill_in_training(suite_words("cut", attentions), cut, std::chrono::milliseconds(0)) ? 1 : 0;
  }
  EXPECT_GT(kills, 0);
  const ProgramResult resumed = run_program(suite_words("cut", attentions));
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  for (size_t i = 0; i < whole.size(); ++i) suite::expect_same_run(whole[i], cut[i]);
}

TEST_F(PythonTest, IsMeasuredBesideBuiltInAttentions) {
  const std::string out = run("p.jsonl").string();
  const ProgramResult made =
      run_program({"profile", "--attentions", "linear," + example("linear.py:LinearAttention"),
                   "--lengths", "64", "--scope", "core", "--mode", "training", "--seconds", "0.05",
                   "--threads", "1", "--out", out});
  ASSERT_EQ(made.status, 0) << made.err;
  const Records records = find_records({out});
  ASSERT_EQ(records.profiles.size(), 2u);
  for (const Profile& cell : records.profiles) EXPECT_EQ(cell.status, Status::ok) << cell.reason;
}

// Each pass is a process that reads the file anew.
TEST_F(PythonTest, PassesAreOfOneFile) {
  const fs::path file = scratch_.path() / "mine.py", out = run("p.jsonl");
  fs::copy_file(kTests / "examples" / "python" / "linear.py", file);
  Program program({"profile", "--attentions", "python:" + file.string() + ":LinearAttention",
                   "--lengths", "64", "--scope", "core", "--mode", "training", "--passes", "50",
                   "--seconds", "0.05", "--threads", "1", "--out", out.string()});
  ASSERT_TRUE(wait_until(program, [&] { return fs::exists(out); }));
  std::ofstream(file, std::ios::app) << "# changed\n";
  const ProgramResult ended = program.wait();
  EXPECT_EQ(ended.status, 1);
  EXPECT_NE(ended.err.find("measured of its file as it was before it changed"), std::string::npos)
      << ended.err;
}

TEST_F(PythonTest, AnotherTorchIsRefusedByBothVersions) {
  fs::create_directories(scratch_.path() / "other" / "torch");
  write_file(scratch_.path() / "other" / "torch" / "__init__.py", "__version__ = '2.10.0+cpu'\n");
  {
    const ScopedVariable path("PYTHONPATH", (scratch_.path() / "other").c_str());
    expect_refusal({"check", "--attention", faulty("Right")}, 1, "has torch 2.10.0+cpu");
    expect_refusal({"check", "--attention", faulty("Right")}, 1, "built for torch " TORCH_VERSION);
  }
  {
    const ScopedVariable python("LRA_PYTHON", "/no/such/python");
    expect_refusal({"check", "--attention", faulty("Right")}, 1,
                   "'/no/such/python' cannot be started");
  }
  const ScopedVariable unset("LRA_PYTHON", "");
  const ProgramResult checked = run_program({"check", "--attention", faulty("Right")});
  EXPECT_NE(checked.out.find("clauses"), std::string::npos) << checked.out << checked.err;
}

}  // namespace
}  // namespace lra
