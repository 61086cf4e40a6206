// lra train and lra evaluate: the run folder, resume to the same bits, and every refusal.
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <algorithm>
#include <fstream>
#include <random>
#include <thread>

#include "harness/host/gpu.h"
#include "harness/training/run_folder.h"
#include "lra/formats/safetensors.h"
#include "tests/harness/program.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

// What two runs of one configuration must share: everything but clocks and memory.
json comparable(const fs::path& run) {
  json result = read_json(run / kResultFile);
  result.erase("training");
  json log = json::array();
  std::ifstream in(run / kMetricsFile);
  for (std::string line; std::getline(in, line);) {
    json entry = json::parse(line);
    entry.erase("seconds");
    log.push_back(entry);
  }
  return {{"result", result}, {"log", log}, {"predictions", read_file(run / kPredictionsFile)}};
}

// The tensors of a checkpoint, byte for byte.
std::string tensor_bytes(const fs::path& path) {
  std::string bytes;
  for (const auto& [name, tensor] : read_tensors(path).tensors) {
    const auto whole = tensor.contiguous();
    bytes += name + ":" + std::string(static_cast<const char*>(whole.data_ptr()), whole.nbytes());
  }
  return bytes;
}

class TrainTest : public testing::Test {
 protected:
  void SetUp() override { prepare_tiny_listops(data_); }
  std::vector<std::string> words(const std::string& run,
                                 const std::string& attention = "nystrom[num_landmarks=8]",
                                 int64_t steps = 12) const {
    return tiny_train(data_, scratch_.path() / run, attention, steps);
  }
  fs::path run(const std::string& name) const { return scratch_.path() / name; }

  Scratch scratch_;
  fs::path data_ = scratch_.path() / "data";
};

TEST_F(TrainTest, LeavesTheFilesOfTheDesign) {
  const ProgramResult result = run_program(words("a"));
  ASSERT_EQ(result.status, 0) << result.err;
  for (const char* name : {kConfigFile, kMetricsFile, kLastCheckpoint, kBestCheckpoint,
                           kPredictionsFile, kResultFile}) {
    EXPECT_TRUE(fs::exists(run("a") / name)) << name;
  }
  const json record = read_json(run("a") / kResultFile);
  const Result parsed = parse_result(record);
  EXPECT_EQ(parsed.status, Status::ok);
  EXPECT_EQ(parsed.task, "listops");
  EXPECT_EQ(parsed.attention.label, "nystrom[num_landmarks=8]");
  EXPECT_EQ(parsed.attention.options["num_landmarks"], 8);
  EXPECT_EQ(parsed.attention.options["pinv_iterations"], 6)
      << "effective options, not those given alone";
  EXPECT_EQ(parsed.test->count, 50);
  EXPECT_EQ(parsed.dev->count, 40);
  EXPECT_EQ(parsed.steps, 12);
  EXPECT_EQ(parsed.config["overridden"].size(), tiny_settings().size());
  EXPECT_GT(parsed.training.peak_memory_mib.value(), 0.1);
  EXPECT_EQ(parsed.data.fingerprint.size(), 64u);

  // The accuracy is that of the predictions file, whose labels are the data's.
  std::ifstream in(run("a") / kPredictionsFile);
  std::string line;
  std::getline(in, line);
  EXPECT_EQ(line, "index,label,predicted,confidence");
  const PreparedData data(data_, "listops", /*check_hashes=*/true);
  int64_t correct = 0, rows = 0;
  for (; std::getline(in, line); ++rows) {
    long index = 0, label = 0, predicted = 0;
    double confidence = 0;
    ASSERT_EQ(std::sscanf(line.c_str(), "%ld,%ld,%ld,%lf", &index, &label, &predicted, &confidence),
              4);
    EXPECT_GE(confidence, 0.1);  // the most probable of ten labels
    EXPECT_LE(confidence, 1);
    EXPECT_EQ(index, rows);
    EXPECT_EQ(label, data.split("test").label(rows));
    correct += label == predicted ? 1 : 0;
  }
  EXPECT_EQ(rows, 50);
  EXPECT_EQ(correct, parsed.test->correct);
}

// A recipe that knows no dev set: dev is trained on, and test chooses the checkpoint.
TEST_F(TrainTest, TestStandsInForDevWhereTheRecipeSaysSo) {
  auto arguments = words("a");
  arguments.insert(arguments.end(), {"--set", "evaluation.dev=test"});
  const ProgramResult result = run_program(arguments);
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.err.find(" 232 train, 50 dev, 50 test\n"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("that split chooses the checkpoint, and dev is trained on"),
            std::string::npos);
  const Result record = parse_result(read_json(run("a") / kResultFile));
  EXPECT_EQ(record.dev->count, 50);
  EXPECT_EQ(record.dev->correct, record.test->correct);
  EXPECT_EQ(record.config["evaluation"]["dev"], "test");
  const ProgramResult evaluated = run_program({"evaluate", run("a").string(), "--split", "dev"});
  EXPECT_NE(evaluated.out.find("/50,"), std::string::npos) << evaluated.text();

  // It is another run than the one with a dev set.
  EXPECT_NE(run_program(words("a")).err.find("evaluation.dev"), std::string::npos);
}

// All of train and test has one label, which dev has not: what is learned lowers dev's accuracy
// from the first evaluation on, and raises that of test.
void write_contrary_dev(const fs::path& out) {
  constexpr int64_t kLabel = 3;
  std::map<std::string, SplitWriter> splits;
  for (const char* name : kSplits) {
    for (int64_t i = 0; i < 90; ++i) {
      std::vector<uint16_t> ids;
      for (int64_t j = 0; j < 20; ++j) ids.push_back(static_cast<uint16_t>(1 + (i * j + i) % 15));
      splits[name].tokens(ids);
      const int64_t other = i % 9 < kLabel ? i % 9 : i % 9 + 1;
      splits[name].label(name == std::string("dev") ? other : kLabel);
    }
  }
  Manifest manifest;
  manifest.task = "listops";
  manifest.source = "generated";
  manifest.generator = "contrary/1";
  manifest.vocabulary = 16;
  manifest.classes = 10;
  write_prepared(out, manifest, splits);
}

TEST_F(TrainTest, TheTestIsOfDevsBestThoughTestRisesAfterIt) {
  const fs::path data = scratch_.path() / "contrary";
  write_contrary_dev(data);
  const auto train = [&](const std::string& name, const std::vector<std::string>& settings) {
    auto arguments = tiny_train(data, run(name), "standard", /*steps=*/40);
    for (const std::string& set : settings) arguments.insert(arguments.end(), {"--set", set});
    const ProgramResult result = run_program(arguments);
    EXPECT_EQ(result.status, 0) << result.err;
    return parse_result(read_json(run(name) / kResultFile));
  };
  const std::vector<std::string> slow = {"optimizer.lr=0.002", "schedule.warmup=30",
                                         "training.evaluate_every=1"};
  const Result best = train("best", slow);
  // Seed 0 does not begin with the label that is learned.
  ASSERT_EQ(best.best_step, 1);
  EXPECT_GT(best.dev->correct, 0);
  EXPECT_LT(best.test->accuracy, 0.5);

  std::vector<std::string> last = slow;
  last.emplace_back("evaluation.select_after=1");
  const Result end = train("last", last);
  EXPECT_EQ(end.best_step, 40);
  EXPECT_EQ(end.dev->correct, 0);
  EXPECT_EQ(end.test->accuracy, 1);
}

TEST_F(TrainTest, TheSameSeedGivesTheSameRunAndAnotherSeedAnother) {
  ASSERT_EQ(run_program(words("a")).status, 0);
  ASSERT_EQ(run_program(words("b")).status, 0);
  EXPECT_EQ(comparable(run("a")), comparable(run("b")));
  EXPECT_EQ(tensor_bytes(run("a") / kLastCheckpoint), tensor_bytes(run("b") / kLastCheckpoint));
  auto other = words("c");
  other.insert(other.end(), {"--seed", "1"});
  ASSERT_EQ(run_program(other).status, 0);
  EXPECT_NE(tensor_bytes(run("a") / kLastCheckpoint), tensor_bytes(run("c") / kLastCheckpoint));
}

TEST_F(TrainTest, InterruptedBySignalItContinuesToTheSameBits) {
  ASSERT_EQ(run_program(words("whole", "standard", 200)).status, 0);
  Program program(words("cut", "standard", 200));
  while (!fs::exists(run("cut") / kMetricsFile))
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  program.send(SIGINT);
  const ProgramResult stopped = program.wait();
  ASSERT_EQ(stopped.status, 130) << stopped.err;
  EXPECT_NE(stopped.err.find("continue with --resume"), std::string::npos) << stopped.err;
  ASSERT_TRUE(fs::exists(run("cut") / kLastCheckpoint));
  EXPECT_FALSE(fs::exists(run("cut") / kResultFile));
  ASSERT_EQ(run_program(words("cut", "standard", 200)).status, 0);
  EXPECT_EQ(comparable(run("cut")), comparable(run("whole")));
  EXPECT_EQ(tensor_bytes(run("cut") / kLastCheckpoint),
            tensor_bytes(run("whole") / kLastCheckpoint));
  EXPECT_EQ(tensor_bytes(run("cut") / kBestCheckpoint),
            tensor_bytes(run("whole") / kBestCheckpoint));
}

TEST_F(TrainTest, ResumesWithTheThreadsThatItHad) {
  const auto with_threads = [&](const std::vector<std::string>& threads) {
    auto given = words("t", "standard", 12);
    const auto at = std::ranges::find(given, "--threads");
    given.erase(at, at + 2);
    given.insert(given.end(), threads.begin(), threads.end());
    return given;
  };
  const auto had = [&] { return read_json(run("t") / kConfigFile)["threads"]; };
  const auto again = [&](const std::vector<std::string>& threads) {
    fs::remove(run("t") / kResultFile);
    return run_program(with_threads(threads));
  };
  ASSERT_EQ(run_program(with_threads({"--threads", "3"})).status, 0);
  EXPECT_EQ(had(), 3);
  EXPECT_EQ(parse_result(read_json(run("t") / kResultFile)).training.threads, 3);
  EXPECT_EQ(again({}).err.find("same bits"), std::string::npos);
  EXPECT_EQ(had(), 3);
  EXPECT_NE(again({"--threads", "1"}).err.find("had 3 threads and goes on with 1"),
            std::string::npos);
  EXPECT_EQ(had(), 1);
}

TEST_F(TrainTest, MicroBatchesGiveTheSameGradientsToRounding) {
  auto one = words("one", "standard", 5), parts = words("parts", "standard", 5);
  for (auto* w : {&one, &parts})
    w->insert(w->end(), {"--set", "model.dropout=0", "--set", "schedule.warmup=2"});
  parts.insert(parts.end(), {"--set", "training.micro_batch=3"});
  ASSERT_EQ(run_program(one).status, 0);
  ASSERT_EQ(run_program(parts).status, 0);
  const auto a = read_tensors(run("one") / kLastCheckpoint),
             b = read_tensors(run("parts") / kLastCheckpoint);
  for (const auto& [name, tensor] : a.tensors) {
    if (name.starts_with("model.")) {
      EXPECT_LT((tensor - b.at(name)).abs().max().item<double>(), 1e-5) << name;
    }
  }
}

TEST_F(TrainTest, EvaluateRepeatsTheTestOfTheRun) {
  ASSERT_EQ(run_program(words("a")).status, 0);
  const ProgramResult result =
      run_program({"evaluate", run("a").string(), "--json", "--threads", "1"});
  ASSERT_EQ(result.status, 0) << result.err;
  const json record = json::parse(result.out), test = read_json(run("a") / kResultFile)["test"];
  EXPECT_EQ(record["correct"], test["correct"]);
  EXPECT_EQ(record["by_length"], test["by_length"]);
  const ProgramResult dev =
      run_program({"evaluate", run("a").string(), "--split", "dev", "--json", "--threads", "1"});
  EXPECT_EQ(json::parse(dev.out)["correct"], read_json(run("a") / kResultFile)["dev"]["correct"]);
}

TEST_F(TrainTest, ALossThatIsNotFiniteEndsAsDiverged) {
  auto w = words("nan", "standard", 40);
  w.insert(w.end(), {"--set", "optimizer.lr=1e30"});
  const ProgramResult result = run_program(w);
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.err.find("diverged"), std::string::npos) << result.err;
  EXPECT_EQ(parse_result(read_json(run("nan") / kResultFile)).status, Status::diverged);
}

TEST_F(TrainTest, BfloatTrainsAndSaysSo) {
  auto w = words("bf");
  w.insert(w.end(), {"--dtype", "bfloat16"});
  const ProgramResult result = run_program(w);
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(parse_result(read_json(run("bf") / kResultFile)).dtype(), "bfloat16");
  ASSERT_EQ(run_program(words("f32")).status, 0);
  EXPECT_NE(tensor_bytes(run("bf") / kLastCheckpoint), tensor_bytes(run("f32") / kLastCheckpoint));
}

// All steps fit into the limit, and the one batch of the test split does not.
TEST_F(TrainTest, MemoryThatRunsOutInTheTestIsOom) {
  const fs::path data = scratch_.path() / "wide";
  task("listops").prepare({.out = data,
                           .seed = 5,
                           .train = 64,
                           .dev = 8,
                           .test = 4000,
                           .min_length = 10,
                           .max_length = 60});
  auto w = tiny_train(data, run("oom"), "standard", 8);
  w.insert(w.end(), {"--set", "evaluation.batch=4000", "--memory-limit", "64MiB"});
  const ProgramResult result = run_program(w);
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.err.find("ended as oom"), std::string::npos) << result.err;
  ASSERT_TRUE(fs::exists(run("oom") / kResultFile)) << result.err;
  const Result record = parse_result(read_json(run("oom") / kResultFile));
  EXPECT_EQ(record.status, Status::oom);
  EXPECT_NE(record.reason.find("test"), std::string::npos) << record.reason;
  EXPECT_EQ(record.steps, 8);
  EXPECT_TRUE(record.dev.has_value()) << "what is known of the run stays";

  // With more memory it only has to be tested.
  w.back() = "4GiB";
  ASSERT_EQ(run_program(w).status, 0);
  EXPECT_EQ(parse_result(read_json(run("oom") / kResultFile)).test->count, 4000);
}

// ---- Refusals
// ---------------------------------------------------------------------------------------------------------

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
    const std::vector<std::string> whole = {"lock", kConfigFile, kMetricsFile, kBestCheckpoint};
    EXPECT_TRUE(std::ranges::count(whole, name) > 0) << name;
  }
}

// ---- Kills
// ------------------------------------------------------------------------------------------------------------

// Ends `name`, which was killed some times, and compares it with the undisturbed "whole".
class KilledTrainTest : public TrainTest {
 protected:
  static constexpr const char* kAttention = "nystrom[num_landmarks=8]";

  void end_and_compare(const std::string& name, int64_t steps) const {
    SCOPED_TRACE(name);
    const ProgramResult end = run_program(words(name, kAttention, steps));
    ASSERT_EQ(end.status, 0) << end.err;
    EXPECT_EQ(comparable(run(name)), comparable(run("whole")));
    for (const char* checkpoint : {kLastCheckpoint, kBestCheckpoint}) {
      EXPECT_EQ(tensor_bytes(run(name) / checkpoint), tensor_bytes(run("whole") / checkpoint))
          << checkpoint;
    }
  }
};

TEST_F(KilledTrainTest, KilledTwiceItStillEndsTheSame) {
  constexpr int64_t kSteps = 600;
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed of the delays: " + std::to_string(seed));
  std::mt19937 random(seed);
  ASSERT_EQ(run_program(words("whole", kAttention, kSteps)).status, 0);
  int kills = 0;
  for (int attempt = 0; attempt < 2; ++attempt) {
    const std::chrono::milliseconds delay(std::uniform_int_distribution<int64_t>(0, 600)(random));
    kills += kill_in_training(words("cut", kAttention, kSteps), {run("cut")}, delay) ? 1 : 0;
  }
  ASSERT_EQ(kills, 2) << "kills that hit the run in progress";
  end_and_compare("cut", kSteps);
}

// Stopped in an evaluation, then killed between that evaluation's line and its checkpoint: the
// evaluation is repeated, and its line stands once.
TEST_F(KilledTrainTest, ARepeatedEvaluationHasOneLine) {
  ASSERT_EQ(run_program(words("whole", kAttention, 12)).status, 0);
  ASSERT_EQ(run_program(words("cut", kAttention, 12)).status, 0);
  fs::remove(run("cut") / kResultFile);
  TensorFile last = read_tensors(run("cut") / kLastCheckpoint);
  for (auto& [name, tensor] : last.tensors) tensor = tensor.clone();  // from the file to memory
  json at = json::parse(last.metadata.at("progression"));
  ASSERT_EQ(at["step"], 12);
  at["evaluation_pending"] = true;
  last.metadata["progression"] = at.dump();
  write_tensors(run("cut") / kLastCheckpoint, last);
  end_and_compare("cut", 12);
}

class SlowTrainTest : public KilledTrainTest {};

TEST_F(SlowTrainTest, TenKillsAtRandomMomentsLeaveTheSameResult) {
  constexpr int64_t kSteps = 1000;
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed of the delays: " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_EQ(run_program(words("whole", kAttention, kSteps)).status, 0);
  const auto whole = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - begin);
  std::uniform_int_distribution<int64_t> any_delay(0, whole.count() / 6);
  std::vector<std::string> names = {"cut0"};
  int kills = 0, kills_of_last = 0;
  for (int attempt = 0; attempt < 60 && kills < 10; ++attempt) {
    // A fresh run after five kills, or where one got to its end, so that early moments are hit as
    // well as late ones.
    if (kills_of_last == 5 || fs::exists(run(names.back()) / kResultFile)) {
      names.push_back("cut" + std::to_string(names.size()));
      kills_of_last = 0;
    }
    const std::chrono::milliseconds delay(any_delay(random));
    if (kill_in_training(words(names.back(), kAttention, kSteps), {run(names.back())}, delay)) {
      ++kills;
      ++kills_of_last;
    }
  }
  ASSERT_EQ(kills, 10) << "kills that hit a run in progress";
  for (const std::string& name : names) end_and_compare(name, kSteps);
}

}  // namespace
}  // namespace lra
