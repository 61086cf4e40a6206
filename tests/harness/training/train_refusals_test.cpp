// What lra train refuses, and that nothing half-written stays.
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <limits>
#include <thread>

#include "harness/host/gpu.h"
#include "harness/training/open_run.h"
#include "harness/training/train_setup.h"
#include "lra/data/task.h"
#include "tests/harness/training/train_fixture.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

struct Refusal {
  std::vector<std::string> words;
  int status;
  std::string message;
};

TEST_F(TrainTest, RefusesWithOneLineThatHelps) {
  const auto with = [&](std::vector<std::string> more, const std::string& attention = "nystrom") {
    auto w = words("r", attention);
    w.insert(w.end(), more.begin(), more.end());
    return w;
  };
  const auto replaced = [&](const std::string& from, const std::string& to) {
    auto w = words("r");
    std::ranges::replace(w, from, to);
    return w;
  };
  const Refusal refusals[] = {
      {replaced("listops", "listop"), 2, "unknown task 'listop'; did you mean 'listops'?"},
      {with({}, "nystrm"), 2, "unknown attention 'nystrm'; did you mean 'nystrom'?"},
      {with({}, "nystrom[num_landmark=8]"), 2, "did you mean 'num_landmarks'?"},
      {with({}, "nystrom[num_landmarks=0]"), 2, "num_landmarks should be at least 1, not 0"},
      {with({}, "nystrom[pinv=fast]"), 2, "pinv should be one of iterative, exact, not \"fast\""},
      {with({"--protocol", "lra-strikt"}), 2,
       "unknown protocol 'lra-strikt'; did you mean 'lra-strict'?"},
      {with({"--set", "training.step=5"}), 2, "did you mean 'steps'?"},
      {with({"--set", "training.steps=many"}), 2,
       "steps should be an integer, at least 1, not \"many\""},
      {with({"--set", "trainings.steps=5"}), 2, "did you mean 'training'?"},
      {with({"--set", "schedule.warmup=100"}), 2,
       "schedule.warmup (100) should be less than training.steps (12)"},
      {with({"--set", "schedule.decay_factor=0.1"}), 2,
       "schedule.decay_factor has an effect only where schedule.kind is step"},
      {with({"--set", "schedule.kind=step", "--set", "schedule.decay_factor=0.1"}), 2,
       "schedule.decay_factor has an effect only where schedule.kind is step, and "
       "schedule.decay_every less than training.steps"},
      {with({"--set", "schedule.kind=power", "--set", "schedule.warmup=0", "--set",
             "schedule.power=3"}),
       2, "schedule.power has an effect only where schedule.kind is power with a schedule.warmup"},
      {with({"--set", "input.cut=100000"}), 2,
       "input.cut has an effect only where it is at most input.length"},
      {with({"--set", "model.pooling=cls", "--set", "model.cls_mask=first_token"}), 2,
       "model.cls_mask has an effect only where input.mask is nonzero, as a first token is real"},
      {with({"--set", "model.padding=counted", "--set", "model.padded_rows=uniform"}, "standard"),
       2, "model.padded_rows has an effect only where input.mask tells padding and model.padding"},
      {with({"--set", "model.norm_kind=batch", "--set", "model.padding=counted", "--set",
             "model.batch_statistics=all"}),
       2,
       "model.batch_statistics has an effect only where input.mask tells padding and "
       "model.padding is masked"},
      {with({"--set", R"(optimizer.groups=[{"match":["*"]}])"}), 2,
       "optimizer.groups[0] changes nothing: give it lr, lr_factor or weight_decay"},
      {with({"--set", "model.causal=true"}, "s5[bidirectional=true]"), 2,
       "attention s5: bidirectional=true has no effect in its causal form (model.causal)"},
      {with({"--set", "model.causal=true"}, "localconv[one_sided=false]"), 2,
       "attention localconv: one_sided=false has no effect in its causal form (model.causal)"},
      {with({"--objective", "causal", "--set", "model.head=linear", "--set", "model.causal=false"},
            "linear"),
       2, "model.causal false with training.objective causal: what is to be predicted"},
      {with({"--set", "evaluation.test=false", "--set",
             R"(pretraining={"training":{"steps":2},"evaluation":{"test":true}})"}),
       2, "pretraining.evaluation.test has an effect only where evaluation.test is true"},
      {with({"--init-from", "runs/other", "--set", "model.embedding_sd=5"}), 2,
       "model.embedding_sd has no effect with --init-from, which replaces those weights; leave it "
       "out"},
      {with({"--set", "model.rotary_base=50"}), 2,
       "model.rotary_base has an effect only where model.positions is rotary"},
      {with({"--set", "model.gate=glu"}), 2,
       "model.gate has an effect only where model.block is s5; leave it out, or set both"},
      {with({"--set", "model.padded_rows=uniform"}), 2,
       "model.padded_rows has an effect only where the attention is one of longformer, sparse, "
       "standard, local_tay2020, reformer_tay2020, sinkhorn_tay2020, synthesizer_tay2020; leave"},
      {with({"--set", "model.feed_forward=0", "--set", "model.gelu=tanh"}), 2,
       "model.gelu has an effect only where model.block is s4, s5 or transformer with a "
       "feed-forward block, or model.head gelu or mega"},
      {with({"--set", "input.mask=none", "--set", "model.mean_over=length"}), 2,
       "model.mean_over has an effect only where input.mask tells padding; leave it out"},
      {with({"--objective", "masked", "--set", "model.head=gelu"}), 2,
       "model.head has an effect only where training.objective is classify, or it is linear or "
       "tied; leave it out"},
      {with({"--set", "model.pair=concat"}), 2,
       "model.pair has an effect only where a sample is of two inputs, as in retrieval; leave it "
       "out"},
      {with({"--set", "training.micro_batch=2"}, "nystrom[init=global]"), 2,
       "attention nystrom with init=global computes with the whole batch: training.micro_batch "
       "should be 0, not 2"},
      {with({"--set", "pretraining.training.micro_batch=2"}, "nystrom[init=global]"), 2,
       "pretraining: attention nystrom with init=global computes with the whole batch"},
      {with({"--set", "pretraining.training.dtype=bfloat16"}), 2,
       "pretraining: training.dtype is bfloat16: both runs are in that of --dtype, float32"},
      {with({"--set", "pretraining.schedule.decay_factor=0.1"}), 2,
       "pretraining: schedule.decay_factor has an effect only where schedule.kind is step"},
      {with({"--set", "model={}"}), 2, "--set model: an empty group gives no value"},
      {with({"--objective", "causal", "--set", "input.cut=1"}, "linear"), 2,
       "training.objective causal predicts the next of two tokens"},
      {with({"--dtype", "float16"}), 2, "--dtype should be float32 or bfloat16"},
      {with({"--device", "gpu"}), 2, "--device should be cpu, cuda or cuda:N, not 'gpu'"},
      {with({"--seed", "-1"}), 2, "should be an integer from 0 to 18446744073709551615, not '-1'"},
      {with({"--seed", "18446744073709551616"}), 2, "not '18446744073709551616'"},
      {with({"--seed", "010"}), 2, "not '010'"},
      {replaced("1", "100000"), 2, "--threads should be at least 0 and at most 1024"},
      {with({"--sead", "1"}), 2, "unknown option '--sead' in lra train; did you mean '--seed'?"},
      {replaced(data_.string(), "/no/such/folder"), 1, "/no/such/folder"},
      {{"trian"}, 2, "did you mean 'train'?"},
  };
  for (const Refusal& refusal : refusals) {
    const ProgramResult result = run_program(refusal.words);
    EXPECT_EQ(result.status, refusal.status) << refusal.message << "\n" << result.err;
    EXPECT_NE(result.err.find(refusal.message), std::string::npos)
        << "expected: " << refusal.message << "\ngot: " << result.err;
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << "one line: " << result.err;
    EXPECT_FALSE(fs::exists(run("r") / kConfigFile)) << "nothing half-written: " << refusal.message;
  }
}

TEST_F(TrainTest, RefusesCudaWithoutADevice) {
  const ScopedVariable hidden("CUDA_VISIBLE_DEVICES", "");  // where the machine has one
  auto w = words("r");
  w.insert(w.end(), {"--device", "cuda"});
  const ProgramResult result = run_program(w);
  EXPECT_EQ(result.status, 1);
  const std::string why =
      host::cuda_version() == "off"
          ? "this program was built without CUDA (LRA_CUDA=on ./run builds it with)"
          : "no CUDA device is available here";
  EXPECT_EQ(result.err, "lra: --device cuda: " + why + "; use --device cpu\n");
}

TEST_F(TrainTest, RefusesAFolderInUse) {
  fs::create_directories(run("a"));
  const host::FolderLock lock(run("a"));
  const ProgramResult result = run_program(words("a"));
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.err.find("is in use by process " + std::to_string(getpid())), std::string::npos)
      << result.err;
}

TEST_F(TrainTest, RefusesAFolderOfAnotherRun) {
  ASSERT_EQ(run_program(words("a")).status, 0);
  auto again = words("a");
  again.erase(std::ranges::find(again, "--resume"));
  EXPECT_NE(run_program(again).err.find("holds a run already; continue it with --resume"),
            std::string::npos);
  fs::remove(run("a") / kResultFile);
  const ProgramResult other = run_program(words("a", "standard"));
  EXPECT_EQ(other.status, 1);
  EXPECT_NE(
      other.err.find(
          "holds a run of another configuration (attention.name: \"nystrom\" -> \"standard\""),
      std::string::npos)
      << other.err;
}

// Without its configuration a finished run would pass for the one that is asked for.
TEST_F(TrainTest, RefusesWhatIsLeftOfARunWithoutItsConfiguration) {
  ASSERT_EQ(run_program(words("a")).status, 0);
  fs::remove(run("a") / kConfigFile);
  const std::string result = read_file(run("a") / kResultFile);
  auto plain = words("a");
  plain.erase(std::ranges::find(plain, "--resume"));
  for (const auto& asked : {words("a"), plain}) {
    const ProgramResult refused = run_program(asked);
    EXPECT_EQ(refused.status, 1);
    EXPECT_NE(refused.err.find("holds a run whose config.json is missing"), std::string::npos)
        << refused.err;
    EXPECT_EQ(read_file(run("a") / kResultFile), result);
  }
  auto over = words("a", "standard");
  *std::ranges::find(over, "--resume") = "--overwrite";
  ASSERT_EQ(run_program(over).status, 0);
  EXPECT_EQ(read_json(run("a") / kResultFile)["attention"]["name"], "standard");
}

TEST_F(TrainTest, RefusesARunThatHasLostItsLastCheckpoint) {
  ASSERT_EQ(run_program(words("a")).status, 0);
  fs::remove(run("a") / kResultFile);
  fs::remove(run("a") / kLastCheckpoint);
  const std::string weights = tensor_bytes(run("a") / kBestCheckpoint),
                    log = read_file(run("a") / kMetricsFile);
  auto plain = words("a");
  plain.erase(std::ranges::find(plain, "--resume"));
  for (const auto& asked : {words("a"), plain}) {
    const ProgramResult refused = run_program(asked);
    EXPECT_EQ(refused.status, 1);
    EXPECT_NE(refused.err.find("holds a run whose checkpoint-last.safetensors is missing; put it"),
              std::string::npos)
        << refused.err;
    EXPECT_EQ(tensor_bytes(run("a") / kBestCheckpoint), weights);
    EXPECT_EQ(read_file(run("a") / kMetricsFile), log);
  }
  // What a run leaves that was killed between the two checkpoints of its first evaluation, and
  // again before it came there.
  for (const char* kept : {log.c_str(), ""}) {
    write_file(run("a") / kMetricsFile, cut_run_log(kept, /*step=*/4, /*pending=*/false));
    fs::rename(run("a") / kBestCheckpoint, run("a") / kNextBestCheckpoint);
    fs::remove(run("a") / kLastCheckpoint);
    fs::remove(run("a") / kResultFile);
    const ProgramResult anew = run_program(words("a"));
    EXPECT_EQ(anew.status, 0) << anew.err;
    EXPECT_EQ(tensor_bytes(run("a") / kBestCheckpoint), weights);
    EXPECT_FALSE(fs::exists(run("a") / kNextBestCheckpoint));
  }
}

TEST_F(TrainTest, OverwritesARunWhereItIsToldTo) {
  ASSERT_EQ(run_program(words("a")).status, 0);
  write_file(run("a") / "notes.txt", "mine");
  auto over = words("a", "standard");
  *std::ranges::find(over, "--resume") = "--overwrite";
  const ProgramResult result = run_program(over);
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(read_result(run("a") / kResultFile).attention.name, "standard");
  EXPECT_EQ(read_file(run("a") / "notes.txt"), "mine");
  over.emplace_back("--resume");
  EXPECT_EQ(run_program(over).status, 2) << "one or the other";
  // What is no run is not removed.
  fs::create_directories(run("b"));
  write_file(run("b") / kConfigFile, "{}");
  auto other = words("b");
  *std::ranges::find(other, "--resume") = "--overwrite";
  EXPECT_EQ(run_program(other).status, 1);
  EXPECT_EQ(read_file(run("b") / kConfigFile), "{}");
  write_file(run("b") / kConfigFile, "{");
  const auto [status, out, said] = run_program(other);
  EXPECT_EQ(status, 1);
  EXPECT_NE(said.find("config.json is not valid JSON: "), std::string::npos) << said;
  EXPECT_NE(said.find("; put it back from a copy, choose another --run folder"), std::string::npos);
  EXPECT_EQ(read_file(run("b") / kConfigFile), "{");
}

// What cannot be trained is refused before the run that is there is removed.
TEST_F(TrainTest, OverwritesNothingWhereTheNewRunCannotBegin) {
  ASSERT_EQ(run_program(words("a")).status, 0);
  const std::string before = read_file(run("a") / kResultFile),
                    weights = tensor_bytes(run("a") / kBestCheckpoint);
  for (const char* set : {"optimizer.groups=[{\"match\":[\"nosuch*\"],\"lr\":1}]",
                          "evaluation.drop_last=true", "model.width=0"}) {
    auto over = words("a", "standard");
    *std::ranges::find(over, "--resume") = "--overwrite";
    // Dev has 40 samples.
    over.insert(over.end(), {"--set", "evaluation.batch=64", "--set", set});
    EXPECT_NE(run_program(over).status, 0) << set;
    EXPECT_EQ(read_file(run("a") / kResultFile), before) << set;
    EXPECT_EQ(tensor_bytes(run("a") / kBestCheckpoint), weights) << set;
  }
  for (const std::vector<std::string>& sets :
       {std::vector<std::string>{}, {"--set", "pretraining.optimizer.lr=0.002"}}) {
    auto over = words("a", "standard");
    *std::ranges::find(over, "--resume") = "--overwrite";
    over.insert(over.end(), {"--tensorboard", "/proc/nowhere"});
    over.insert(over.end(), sets.begin(), sets.end());
    const ProgramResult refused = run_program(over);
    EXPECT_NE(refused.err.find("--tensorboard /proc/nowhere: cannot make the folder"),
              std::string::npos)
        << refused.err;
    EXPECT_EQ(read_file(run("a") / kResultFile), before);
    EXPECT_EQ(tensor_bytes(run("a") / kBestCheckpoint), weights);
  }
}

TEST_F(TrainTest, SaysWhatAResumedRunNoLongerHas) {
  ASSERT_EQ(run_program(words("a")).status, 0);
  const fs::path file = run("a") / kConfigFile;
  json config = read_json(file);
  ASSERT_TRUE(config["software"].contains("kernels")) << config;
  EXPECT_EQ(read_json(run("a") / kResultFile)["software"], config["software"]);
  const auto said = [&] { return run_program(words("a")).err; };
  EXPECT_EQ(said().find("not to the same bits"), std::string::npos);
  const std::string now = config["software"]["kernels"];
  config["software"]["kernels"] = "earlier";
  write_json(file, config);
  EXPECT_NE(said().find("had the kernels of earlier and goes on with those of " + now +
                        ": not to the same bits"),
            std::string::npos)
      << said();
  config["software"]["cpu_capability"] = "NO AVX";
  write_json(file, config);
  EXPECT_NE(said().find("had LibTorch's kernels of NO AVX and goes on with those of "),
            std::string::npos)
      << said();
  config.erase("software");  // of a run from before it was kept
  write_json(file, config);
  const ProgramResult old = run_program(words("a"));
  EXPECT_EQ(old.status, 0) << old.err;
  EXPECT_EQ(old.err.find("not to the same bits"), std::string::npos) << old.err;
}

TEST_F(TrainTest, RefusesABrokenOrForeignCheckpoint) {
  ASSERT_EQ(run_program(words("a")).status, 0);
  fs::remove(run("a") / kResultFile);
  const fs::path last = run("a") / kLastCheckpoint;
  const std::string whole = read_file(last);

  write_file(last, whole.substr(0, whole.size() / 2));
  ProgramResult result = run_program(words("a"));
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.err.find(last.string()), std::string::npos) << result.err;

  std::string flipped = whole;
  flipped[20] = '\x01';
  write_file(last, flipped);
  result = run_program(words("a"));
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.err.find(last.string()), std::string::npos) << result.err;

  ASSERT_EQ(run_program(words("b", "standard")).status, 0);
  fs::copy_file(run("b") / kLastCheckpoint, last, fs::copy_options::overwrite_existing);
  result = run_program(words("a"));
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.err.find("belongs to another configuration"), std::string::npos) << result.err;

  write_file(last, whole);
  EXPECT_EQ(run_program(words("a")).status, 0) << "the whole file serves again";
}

TEST_F(TrainTest, RefusesDataThatIsNotWhatItsManifestSays) {
  const fs::path split = data_ / "listops" / "train.safetensors";
  std::string bytes = read_file(split);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_file(split, bytes);
  const ProgramResult result = run_program(words("a"));
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.err.find("train.safetensors"), std::string::npos) << result.err;
}

TEST_F(TrainTest, RefusesExpressionsThatWouldBeCut) {
  const fs::path longer = data_.parent_path() / "longer";
  task("listops").prepare(
      {.out = longer, .train = 4, .dev = 2, .test = 2, .min_length = 2'100, .max_length = 2'500});
  expect_refusal(
      {"train", "--task", "listops", "--attention", "linear", "--data", longer.string(), "--run",
       run("cut").string()},
      1, "of which input.length and input.cut keep the first 2048; give --set input.length=");
  EXPECT_FALSE(fs::exists(run("cut") / kResultFile));
}

TEST_F(TrainTest, SaysHowManyExpressionsAreCutWhereThatIsAskedFor) {
  const fs::path longer = data_.parent_path() / "longer";
  task("listops").prepare(
      {.out = longer, .train = 24, .dev = 8, .test = 8, .min_length = 100, .max_length = 160});
  const auto said = [&](const std::string& name, const std::string& length) {
    std::vector<std::string> all = tiny_train(longer, run(name), "linear", /*steps=*/5);
    std::ranges::replace(all, std::string("input.length=64"), "input.length=" + length);
    const ProgramResult result = run_program(all);
    EXPECT_EQ(result.status, 0) << result.err;
    return result.err;
  };
  const std::string cut = said("cut", "64");
  EXPECT_EQ(cut.find("WARNING: 24 of 24 training samples of listops are longer than input.length "
                     "(64), up to "),
            0u)
      << cut;
  EXPECT_NE(cut.find(" tokens, and are cut: an expression without its end has no value\n"),
            std::string::npos)
      << cut;
  EXPECT_EQ(said("whole", "160").find("WARNING"), std::string::npos);
}

TEST_F(TrainTest, TestsNothingWithoutItsBestCheckpoint) {
  ASSERT_EQ(run_program(words("a")).status, 0);
  fs::remove(run("a") / kResultFile);
  const fs::path best = run("a") / kBestCheckpoint;
  std::vector<std::string> again = words("a");
  again.emplace_back("--resume");
  const auto refused = [&](const std::string& why) {
    const ProgramResult result = run_program(again);
    EXPECT_EQ(result.status, 1);
    EXPECT_NE(result.err.find(why), std::string::npos) << result.err;
  };
  change_progress(best, best, [](json& at) { at["step"] = 1; });
  refused(std::string("holds the ") + kBestCheckpoint + " of step 1, not of step ");
  fs::remove(best);
  refused(std::string("has no ") + kBestCheckpoint);
  EXPECT_FALSE(fs::exists(run("a") / kResultFile));
}

// It is refused before there is anything to lose.
TEST_F(TrainTest, GoesOnNowhereWithoutItsBestCheckpoint) {
  Program program(words("a", "standard", 200));
  while (!fs::exists(run("a") / kBestCheckpoint) && !program.ended())
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  program.send(SIGINT);
  ASSERT_EQ(program.wait().status, 130);
  const std::string last = tensor_bytes(run("a") / kLastCheckpoint);
  fs::remove(run("a") / kBestCheckpoint);
  fs::remove(run("a") / kNextBestCheckpoint);
  const ProgramResult result = run_program(words("a", "standard", 200));
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.err.find(std::string("has no ") + kBestCheckpoint), std::string::npos)
      << result.err;
  EXPECT_EQ(tensor_bytes(run("a") / kLastCheckpoint), last);
}

// Whether it ever left the most frequent label is then not known, rather than never.
TEST_F(TrainTest, ALostLogSaysNothingOfLearning) {
  ASSERT_EQ(run_program(words("a")).status, 0);
  EXPECT_TRUE(read_result(run("a") / kResultFile).data.dev_majority);
  fs::remove(run("a") / kResultFile);
  fs::remove(run("a") / kMetricsFile);
  const ProgramResult result = run_program(words("a"));
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.err.find("has lost lines, that of the evaluation at step "), std::string::npos)
      << result.err;
  const Result record = read_result(run("a") / kResultFile);
  EXPECT_FALSE(record.data.dev_majority);
  EXPECT_FALSE(record.left_majority_at);
  EXPECT_FALSE(record.never_left_majority());
}

// What such a model predicts is its first class, and would count as right where that is the label.
TEST_F(TrainTest, ALossOnTestThatIsNotFiniteIsNoAccuracy) {
  ASSERT_EQ(run_program(words("a")).status, 0);
  fs::remove(run("a") / kResultFile);
  fs::remove(run("a") / kPredictionsFile);
  const OpenedRun best = open_run(run("a"), "", CheckpointKind::best, torch::kCPU);
  for (torch::Tensor& parameter : best.model->parameters())
    parameter.data().fill_(std::numeric_limits<float>::quiet_NaN());
  save_checkpoint(run("a") / kBestCheckpoint,
                  run_identity(best.config, best.data.manifest().fingerprint()), best.at,
                  *best.model, nullptr, torch::kCPU);
  EXPECT_EQ(run_program(words("a")).status, 1);
  const Result result = read_result(run("a") / kResultFile);
  EXPECT_EQ(result.status, Status::diverged);
  EXPECT_EQ(result.reason,
            fmt::format("the loss on test was not finite, by the best checkpoint, of "
                        "step {}",
                        best.at.step));
  EXPECT_FALSE(result.test);
  EXPECT_FALSE(fs::exists(run("a") / kPredictionsFile));
}

TEST_F(TrainTest, AFullDiskIsOneErrorAndLeavesNothingHalfWritten) {
  fs::create_directories(run("full"));
  if (mount("tmpfs", run("full").c_str(), "tmpfs", 0, "size=500k") != 0) {
    GTEST_SKIP() << "mounting a small tmpfs is not allowed here";
  }
  const ProgramResult result = run_program(words("full", "standard"));
  std::vector<std::string> left;
  for (const auto& entry : fs::directory_iterator(run("full")))
    left.push_back(entry.path().filename());
  umount(run("full").c_str());
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.err.find("No space left on device"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("checkpoint-"), std::string::npos) << "names the file: " << result.err;
  for (const std::string& name : left) {
    const std::vector<std::string> whole = {"lock", kConfigFile, kMetricsFile, kNextBestCheckpoint};
    EXPECT_TRUE(std::ranges::count(whole, name) > 0) << name;
  }
}

TEST(ImageSizes, ImagesThatWouldBeCutUnaskedAreRefused) {
  Scratch scratch;
  std::map<std::string, SplitWriter> splits;
  for (const char* name : kSplits) {
    splits[name].tokens(std::vector<uint8_t>(64 * 64));
    splits[name].label(1);
  }
  write_prepared(scratch.path(),
                 {.task = "pathfinder",
                  .generator = "test/1",
                  .options = {{"resolution", 64}},
                  .vocabulary = 256,
                  .classes = 2},
                 splits);
  const PreparedData data = open_data(scratch.path(), "pathfinder", /*check_hashes=*/true);
  const auto said = [&](const std::vector<std::string>& sets) {
    const Config config = make_config(load_protocol("lra-strict"), "pathfinder",
                                      parse_attention("standard"), sets, 0, "float32");
    return error_text([&] { check_data(data, config); });
  };
  EXPECT_EQ(said({}),
            "the images are 64 x 64 pixels, of which input.length of protocol lra-strict would "
            "keep the first 1024; give --set input.length=4096, or data of another --resolution");
  EXPECT_EQ(said({"input.length=4096"}), "(no error)");
  EXPECT_EQ(said({"input.length=100"}), "(no error)") << "asked for";
}

}  // namespace
}  // namespace lra
