// Attentions from TorchScript files wherever an attention is named: attend, train, evaluate,
// profile; and that files made anew by a Python with torch compute the same.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "harness/attend/attend_file.h"
#include "harness/training/run_folder.h"
#include "lra/formats/safetensors.h"
#include "results/store/store.h"
#include "tests/harness/training/train_fixture.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

const fs::path kFixtures = fs::path(LRA_SOURCE_DIR) / "tests" / "fixtures";

std::string named(const std::string& name, const fs::path& folder = kFixtures) {
  return "torchscript:" + (folder / ("torchscript-" + name + ".pt")).string();
}

TensorFile attend_input(torch::ScalarType type) {
  torch::manual_seed(1);
  TensorFile in;
  for (const char* name : {"q", "k", "v", "grad_output"})
    in.tensors.emplace_back(name, torch::randn({3, 2, 23, 4}, torch::kDouble).to(type));
  in.tensors.emplace_back("mask",
                          torch::arange(23).unsqueeze(0) < torch::tensor({23, 9, 0}).unsqueeze(1));
  return in;
}

// The largest deviation in the output and in the gradients of q, k and v, each relative to its
// largest value.
double deviation(const TensorFile& ours, const TensorFile& theirs) {
  double worst = 0;
  for (const char* name : {"output", "grad.q", "grad.k", "grad.v"}) {
    const torch::Tensor a = ours.at(name), b = theirs.at(name);
    worst = std::max(worst, ((a - b).abs().max() / b.abs().max()).item<double>());
  }
  return worst;
}

TEST(TorchScriptTest, ComputesWhatTheSameFormulaComputesHere) {
  for (const char* name : {"softmax", "linear"}) {
    const std::string native = name == std::string("softmax") ? "standard" : "linear";
    for (const auto& [type, limit] : {std::pair{torch::kDouble, 1e-12}, {torch::kFloat, 1e-5}}) {
      const TensorFile in = attend_input(type);
      EXPECT_LT(deviation(attend_file(parse_attention(named(name)), in),
                          attend_file(parse_attention(native), in)),
                limit)
          << name << " " << type;
    }
  }
}

// Checkpoints hold the tensor that a buffer was, not one that forward puts in its place.
TEST(TorchScriptTest, ABufferMayBeWrittenAndNotReplaced) {
  const Scratch scratch;
  const auto said = [&](const std::string& name, const std::string& line) {
    torch::jit::Module script(name), part(name + "Part");
    part.register_buffer("seen", torch::zeros({1}));
    part.define("def forward(self, v):\n  " + line + "\n  return v + self.seen\n");
    script.register_module("part", part);
    script.define("def forward(self, q, k, v, mask):\n  return self.part.forward(v)\n");
    script.save((scratch.path() / ("torchscript-" + name + ".pt")).string());
    return error_text([&] {
      attend_file(parse_attention(named(name, scratch.path())), attend_input(torch::kFloat));
    });
  };
  EXPECT_EQ(said("Writes", "self.seen.add_(1)"), "(no error)");
  const std::string error = said("Replaces", "self.seen = self.seen + 1");
  EXPECT_NE(error.find("forward puts another tensor in the place of its buffer part.seen, and "
                       "checkpoints hold the one that it was; write into that, by copy_()"),
            std::string::npos)
      << error;
}

TEST(TorchScriptTest, ItsParametersCanBeGivenAndHaveGradients) {
  TensorFile in = attend_input(torch::kDouble);
  const TensorFile plain = attend_file(parse_attention(named("linear")), in);
  EXPECT_GT(plain.at("grad.param.module.feature.slope").abs().item<double>(), 1e-3);
  in.tensors.emplace_back("param.module.feature.slope", torch::full({1}, 0.5, torch::kDouble));
  EXPECT_GT(deviation(attend_file(parse_attention(named("linear")), in), plain), 1e-3);
}

class TorchScriptRun : public TrainTest {
 protected:
  std::vector<std::string> words(const std::string& name, const std::string& attention,
                                 int64_t steps = 20) const {
    return TrainTest::words(name, attention, steps);
  }
};

TEST_F(TorchScriptRun, TrainsEvaluatesAndSaysWhatItWas) {
  const fs::path file = scratch_.path() / "torchscript-linear.pt";
  fs::copy_file(kFixtures / "torchscript-linear.pt", file);
  const std::string attention = named("linear", scratch_.path());
  const ProgramResult trained = run_program(words("a", attention));
  ASSERT_EQ(trained.status, 0) << trained.err;
  const Result result = parse_result(read_json(run("a") / kResultFile));
  EXPECT_EQ(result.status, Status::ok);
  EXPECT_EQ(result.steps, 20);
  EXPECT_EQ(result.attention.label, attention);
  EXPECT_EQ(result.attention.options["file"], file.string());
  EXPECT_EQ(result.attention.options["sha256"], sha256_file(file));

  // Its parameter is in the checkpoint and moved, in each layer in its own way; what was saved with
  // requires_grad=False did not move.
  const TensorFile checkpoint = read_tensors(run("a") / kLastCheckpoint);
  const auto value = [&](const std::string& name) {
    return checkpoint.at("model." + name).item<double>();
  };
  const double first = value("layer0_attention.module.feature.slope"),
               second = value("layer1_attention.module.feature.slope");
  EXPECT_NE(first, 1);
  EXPECT_NE(second, 1);
  EXPECT_NE(first, second);
  EXPECT_EQ(value("layer0_attention.module.scale"), 1);

  const ProgramResult evaluated = run_program({"evaluate", run("a").string(), "--json"});
  ASSERT_EQ(evaluated.status, 0) << evaluated.err;
  EXPECT_EQ(json::parse(evaluated.out)["correct"], result.test->correct);

  // Another file under the same name is another attention; the run keeps its own.
  fs::copy_file(kFixtures / "torchscript-softmax.pt", file, fs::copy_options::overwrite_existing);
  const ProgramResult kept = run_program({"evaluate", run("a").string(), "--json"});
  ASSERT_EQ(kept.status, 0) << kept.err;
  EXPECT_EQ(json::parse(kept.out)["correct"], result.test->correct);
  fs::remove(run("a") / kAttentionFile);
  const ProgramResult refused = run_program({"evaluate", run("a").string()});
  EXPECT_EQ(refused.status, 1);
  EXPECT_NE(refused.err.find("that was asked for; it has changed"), std::string::npos)
      << refused.err;
}

TEST_F(TorchScriptRun, StoppedItContinuesToTheSameBits) {
  ASSERT_EQ(run_program(words("whole", named("mixer"), 60)).status, 0);
  // Killed right after a checkpoint; the mixer's dropout reads the random state too.
  auto cut = words("cut", named("mixer"), 60);
  ASSERT_TRUE(kill_in_training(cut, {run("cut")}, std::chrono::milliseconds(0)));
  ASSERT_EQ(run_program(cut).status, 0);
  const TensorFile a = read_tensors(run("whole") / kLastCheckpoint),
                   b = read_tensors(run("cut") / kLastCheckpoint);
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (const auto& [name, tensor] : a.tensors)
    EXPECT_TRUE(torch::equal(tensor, b.at(name))) << name;
}

TEST_F(TorchScriptRun, WhatItsModuleThrowsStandsInTheRecord) {
  const ProgramResult failed = run_program(words("a", named("wrong_shape")));
  EXPECT_EQ(failed.status, 1);
  EXPECT_NE(failed.err.find("forward should return"), std::string::npos) << failed.err;
  const Result result = parse_result(read_json(run("a") / kResultFile));
  EXPECT_EQ(result.status, Status::crash);
  EXPECT_NE(result.reason.find("forward should return"), std::string::npos) << result.reason;
  EXPECT_TRUE(result.reason.ends_with("(step 0)")) << result.reason;

  // There is nothing to continue, and nothing to lose: another attention may have the folder.
  auto mended = words("a", named("softmax"));
  mended.erase(std::ranges::find(mended, "--resume"));
  const ProgramResult trained = run_program(mended);
  EXPECT_EQ(trained.status, 0) << trained.err;
  EXPECT_EQ(parse_result(read_json(run("a") / kResultFile)).status, Status::ok);
}

TEST_F(TorchScriptRun, TrainsUnderAutocast) {
  for (const char* name : {"softmax", "mixer"}) {
    auto bfloat16 = words(name, named(name));
    bfloat16.insert(bfloat16.end(), {"--dtype", "bfloat16"});
    const ProgramResult result = run_program(bfloat16);
    EXPECT_EQ(result.status, 0) << result.err;
  }
}

TEST_F(TorchScriptRun, IsMeasured) {
  const std::string out = run("p.jsonl").string();
  for (const char* scope : {"core", "module", "model"}) {
    const ProgramResult result =
        run_program({"profile", "--attentions", named("linear") + "," + named("mixer"), "--lengths",
                     "64", "--scope", scope, "--mode", "training", "--seconds", "0.05", "--threads",
                     "1", "--out", out});
    ASSERT_EQ(result.status, 0) << result.err;
  }
  const Records records = find_records({out});
  ASSERT_EQ(records.profiles.size(), 6u);
  for (const Profile& cell : records.profiles) {
    const bool layer_alone =
        cell.attention.label == named("mixer") && cell.scope == ProfileScope::core;
    EXPECT_EQ(cell.status, layer_alone ? Status::unsupported : Status::ok) << cell.reason;
    if (layer_alone) {
      EXPECT_NE(cell.reason.find("no form that takes q, k and v"), std::string::npos);
    }
    EXPECT_EQ(cell.attention.options["sha256"].get<std::string>().size(), 64u);
  }
}

TEST_F(TorchScriptRun, AFileThatCannotServeIsRefusedBeforeAnyWork) {
  const auto refusal = [&](const std::string& attention) {
    const ProgramResult result = run_program(words("refused", attention));
    EXPECT_EQ(result.status, 1) << result.err;
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
    EXPECT_FALSE(fs::exists(run("refused"))) << attention;
    return result.err;
  };
  EXPECT_NE(refusal("torchscript:none.pt").find("torchscript:none.pt: there is no such file"),
            std::string::npos);
  EXPECT_NE(refusal(named("signature")).find("its forward should take"), std::string::npos);
}

// The Python of the virtual environment whose LibTorch this program runs with; empty where that
// LibTorch came otherwise.
fs::path python_of_libtorch() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const size_t slash = line.find('/');
    if (slash == std::string::npos || !line.ends_with("/torch/lib/libtorch_cpu.so")) continue;
    // PREFIX/lib/python3.x/site-packages/torch/lib/libtorch_cpu.so
    fs::path prefix = line.substr(slash);
    for (int i = 0; i < 6; ++i) prefix = prefix.parent_path();
    const fs::path python = prefix / "bin" / "python3";
    return fs::exists(python) ? python : fs::path();
  }
  return {};
}

TEST(TorchScriptTest, FilesMadeAnewByPythonComputeTheSame) {
  const fs::path python = python_of_libtorch();
  if (python.empty()) GTEST_SKIP() << "this LibTorch belongs to no Python that could save a module";
  // The first that torch imports: what ./run installs without CUDA is LibTorch alone.
  if (std::system((python.string() + " -c 'import typing_extensions' 2>/dev/null").c_str()) != 0)
    GTEST_SKIP() << "the Python of this LibTorch has not what torch imports (LRA_CUDA=off)";
  const Scratch scratch;
  const std::string log = (scratch.path() / "log").string();
  const std::string command = python.string() +
                              " " LRA_SOURCE_DIR "/tests/parity/make_torchscript_fixtures.py " +
                              scratch.path().string() + " >" + log + " 2>&1";
  ASSERT_EQ(std::system(command.c_str()), 0) << command << "\n" << read_file(log);
  for (const char* name : {"softmax", "linear"}) {
    const TensorFile in = attend_input(torch::kDouble);
    const TensorFile made = attend_file(parse_attention(named(name, scratch.path())), in),
                     kept = attend_file(parse_attention(named(name)), in);
    for (const auto& [tensor_name, tensor] : kept.tensors)
      EXPECT_TRUE(torch::equal(made.at(tensor_name), tensor)) << name << " " << tensor_name;
  }
}

}  // namespace
}  // namespace lra
