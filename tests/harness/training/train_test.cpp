// lra train and lra evaluate: the run folder, and resume to the same bits.
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <algorithm>
#include <fstream>
#include <random>
#include <thread>

#include "tests/harness/training/train_fixture.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

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

// Whatever evaluations take: a batch of these may be larger than a part of a training batch.
TEST_F(TrainTest, ThePeakOfTrainingIsThatOfItsSteps) {
  std::vector<TrainingCost> costs;
  for (const std::string batch : {"4", "40"}) {
    auto arguments = words(batch);
    std::ranges::replace(arguments, "evaluation.batch=16", "evaluation.batch=" + batch);
    arguments.insert(arguments.end(), {"--set", "training.micro_batch=1"});
    const ProgramResult result = run_program(arguments);
    ASSERT_EQ(result.status, 0) << result.err;
    costs.push_back(read_result(run(batch) / kResultFile).training);
  }
  EXPECT_EQ(costs[0].peak_memory_mib, costs[1].peak_memory_mib);
  EXPECT_GT(costs[1].evaluation_peak_memory_mib, costs[0].evaluation_peak_memory_mib);
  EXPECT_GT(costs[1].evaluation_peak_memory_mib, costs[1].peak_memory_mib);
  EXPECT_EQ(costs[1].most_memory_mib(), costs[1].evaluation_peak_memory_mib);
  EXPECT_GE(costs[0].others, 0) << "of its threads' time";
}

// Without brackets the splits are copies in memory, and no part of a step.
TEST_F(TrainTest, ThePeakLeavesOutDataThatAreReadOtherwise) {
  const fs::path folder = scratch_.path() / "more";
  ASSERT_EQ(
      run_program({"data", "prepare", "listops", "--out", folder.string(), "--train", "8000",
                   "--dev", "50", "--test", "50", "--min-length", "40", "--max-length", "100"})
          .status,
      0);
  std::vector<double> peaks;
  for (const std::string brackets : {"keep", "drop"}) {
    auto arguments = tiny_train(folder, run(brackets), "linear", 8);
    arguments.insert(arguments.end(),
                     {"--set", "input.brackets=" + brackets, "--set", "input.length=100"});
    const ProgramResult result = run_program(arguments);
    ASSERT_EQ(result.status, 0) << result.err;
    peaks.push_back(read_result(run(brackets) / kResultFile).training.peak_memory_mib.value());
  }
  const auto bytes = static_cast<double>(fs::file_size(folder / "listops" / "train.safetensors"));
  EXPECT_LT(peaks[1] - peaks[0], bytes / 2 / (1 << 20));
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
  auto last = words("last");
  last.insert(last.end(), {"--set", "evaluation.dev=test", "--set", "evaluation.select_after=1"});
  EXPECT_NE(run_program(last).err.find("the last checkpoint is tested, which nothing chooses, and"),
            std::string::npos);
  const Result record = parse_result(read_json(run("a") / kResultFile));
  EXPECT_EQ(record.dev->count, 50);
  EXPECT_EQ(record.dev->correct, record.test->correct);
  EXPECT_EQ(record.config["evaluation"]["dev"], "test");
  const ProgramResult evaluated = run_program({"evaluate", run("a").string(), "--split", "dev"});
  EXPECT_NE(evaluated.out.find("/50,"), std::string::npos) << evaluated.text();
  EXPECT_NE(evaluated.err.find("dev is the test split in this run (evaluation.dev=test)"),
            std::string::npos)
      << evaluated.text();
  const ProgramResult of_train = run_program({"evaluate", run("a").string(), "--split", "train"});
  EXPECT_NE(of_train.err.find("this run trained on the dev split too"), std::string::npos)
      << of_train.text();

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

TEST_F(TrainTest, TheMostFrequentLabelIsOfWhatIsEvaluated) {
  auto arguments = words("some");
  arguments.insert(arguments.end(),
                   {"--set", "evaluation.batch=16", "--set", "evaluation.drop_last=true"});
  ASSERT_EQ(run_program(arguments).status, 0);
  ASSERT_EQ(run_program(words("all")).status, 0);
  const auto predictions = [this](const std::string& name) {
    return parse_predictions(read_file(run(name) / kPredictionsFile));
  };
  const auto majority = [this](const std::string& name) {
    return parse_result(read_json(run(name) / kResultFile)).data.majority.value_or(-1);
  };
  EXPECT_EQ(predictions("some").size(), 48) << "of 50";
  EXPECT_EQ(majority("some"), predictions("some").majority());
  EXPECT_EQ(majority("all"), predictions("all").majority());
  EXPECT_NE(majority("some"), majority("all"));
}

// Nothing of it is read: it may be broken, or missing.
TEST_F(TrainTest, WithoutATestTheTestSplitIsNeverOpened) {
  ASSERT_EQ(run_program(words("tested")).status, 0);
  const fs::path test = data_ / "listops" / "test.safetensors";
  const auto untested = [&](const std::string& name) {
    auto arguments = words(name);
    arguments.insert(arguments.end(), {"--set", "evaluation.test=false"});
    const ProgramResult result = run_program(arguments);
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_NE(result.err.find("40 dev, no test\n"), std::string::npos) << result.err;
    EXPECT_NE(result.err.find("not tested (evaluation.test false)"), std::string::npos)
        << result.err;
    EXPECT_FALSE(fs::exists(run(name) / kPredictionsFile));
    return read_json(run(name) / kResultFile);
  };
  write_file(test, "no tensors");
  const json broken = untested("broken");
  fs::remove(test);
  const json missing = untested("missing"), tested = read_json(run("tested") / kResultFile);
  for (const json& record : {broken, missing}) {
    EXPECT_EQ(record["status"], "ok");
    ASSERT_TRUE(record.contains("test"));
    EXPECT_EQ(record["test"], nullptr);
    EXPECT_FALSE(record["data"].contains("majority")) << "that of the test split's labels";
    EXPECT_EQ(record["config"]["evaluation"]["test"], false);
    for (const char* key : {"dev", "best_step", "left_majority_at"})
      EXPECT_EQ(record[key], tested[key]) << key;
    EXPECT_EQ(record["data"]["fingerprint"], tested["data"]["fingerprint"]);
    EXPECT_EQ(parse_result(record).ending(), "not tested");
  }
  const ProgramResult with_test = run_program(words("other"));
  EXPECT_EQ(with_test.status, 1) << "a run that tests needs it";
  EXPECT_NE(with_test.err.find(test.string()), std::string::npos) << with_test.err;

  auto chosen_on_test = words("chosen");
  chosen_on_test.insert(chosen_on_test.end(),
                        {"--set", "evaluation.test=false", "--set", "evaluation.dev=test"});
  expect_refusal(chosen_on_test, 2, "evaluation.test false leaves the test split unread");
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
  while (!fs::exists(run("cut") / kMetricsFile) && !program.ended())
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
  EXPECT_EQ(json::parse(dev.out)["data"], (json{{"source", "generated"}, {"synthetic", false}}));
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

class OutOfMemoryTest : public TrainTest {
 protected:
  // Trains within a limit that one batch of 4,000 does not fit, which evaluations ask for.
  std::vector<std::string> evaluated_at_once(int64_t dev, int64_t test) const {
    const fs::path data = scratch_.path() / "wide";
    task("listops").prepare({.out = data,
                             .seed = 5,
                             .train = 64,
                             .dev = dev,
                             .test = test,
                             .min_length = 10,
                             .max_length = 60});
    auto words = tiny_train(data, run("oom"), "standard", 8);
    words.insert(words.end(), {"--set", "evaluation.batch=4000", "--memory-limit", "64MiB"});
    return words;
  }
};

// All steps fit into the limit, and the one batch of dev does not: the steps are not lost.
TEST_F(OutOfMemoryTest, InAnEvaluationOfDevIsOom) {
  auto w = evaluated_at_once(4000, 8);
  const ProgramResult result = run_program(w);
  EXPECT_EQ(result.status, 1);
  const Result record = parse_result(read_json(run("oom") / kResultFile));
  EXPECT_EQ(record.status, Status::oom);
  EXPECT_NE(record.reason.find("the evaluation of dev after step"), std::string::npos)
      << record.reason;
  EXPECT_NE(record.reason.find("evaluation.batch"), std::string::npos) << record.reason;
  ASSERT_TRUE(record.training.evaluation_peak_memory_mib.has_value());
  EXPECT_LT(record.training.peak_memory_mib, *record.training.evaluation_peak_memory_mib);
  EXPECT_TRUE(fs::exists(run("oom") / kLastCheckpoint));

  w.back() = "4GiB";
  w.push_back("--resume");
  const ProgramResult on = run_program(w);
  ASSERT_EQ(on.status, 0) << on.err;
  EXPECT_NE(on.err.find("at step " + std::to_string(record.steps.value_or(-1))), std::string::npos)
      << on.err;
}

// All steps fit into the limit, and the one batch of the test split does not.
TEST_F(OutOfMemoryTest, InTheTestIsOom) {
  auto w = evaluated_at_once(8, 4000);
  const ProgramResult result = run_program(w);
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.err.find("ended as oom"), std::string::npos) << result.err;
  ASSERT_TRUE(fs::exists(run("oom") / kResultFile)) << result.err;
  const Result record = parse_result(read_json(run("oom") / kResultFile));
  EXPECT_EQ(record.status, Status::oom);
  EXPECT_NE(record.reason.find("the evaluation of test"), std::string::npos) << record.reason;
  EXPECT_EQ(record.steps, 8);
  EXPECT_TRUE(record.dev.has_value()) << "what is known of the run stays";

  // With more memory it only has to be tested.
  w.back() = "4GiB";
  ASSERT_EQ(run_program(w).status, 0);
  EXPECT_EQ(parse_result(read_json(run("oom") / kResultFile)).test->count, 4000);
}

}  // namespace
}  // namespace lra
