// Ctrl-C and SIGTERM, and the signals by which the system would end the program.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "attention_variants/base/shell.h"
#include "results/records/result.h"
#include "tests/harness/program.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

bool ends_within(const Program& program, int seconds) {
  for (int i = 0; i < 100 * seconds && !program.ended(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return program.ended();
}

class SignalsTest : public testing::Test {
 protected:
  fs::path in(const std::string& name) const { return scratch_.path() / name; }
  Scratch scratch_;
};

// Of what cannot be continued nothing is lost by ending at once.
TEST_F(SignalsTest, EndACommandThatHasNoNextStep) {
  ASSERT_EQ(mkfifo(in("pipe.jsonl").c_str(), 0600), 0);
  for (const int signal : {SIGINT, SIGTERM}) {
    Program program({"report", in("pipe.jsonl"), "--out", in("out")});
    std::this_thread::sleep_for(std::chrono::seconds(2));
    program.send(signal);
    EXPECT_TRUE(ends_within(program, 5));
    program.send(SIGKILL);
    EXPECT_EQ(program.wait().status, 128 + signal);
  }
}

TEST_F(SignalsTest, SigtermStopsATrainingWithItsOwnStatus) {
  prepare_tiny_listops(in("data"));
  Program program(tiny_train(in("data"), in("run"), "standard", 100'000));
  ASSERT_TRUE(wait_until(program, [&] { return fs::exists(in("run") / kLastCheckpoint); }));
  program.send(SIGTERM);
  const ProgramResult stopped = program.wait();
  EXPECT_EQ(stopped.status, 128 + SIGTERM) << stopped.err;
  EXPECT_NE(stopped.err.find("continue with --resume"), std::string::npos) << stopped.err;
  EXPECT_EQ(stopped.err.find("press Ctrl-C again"), std::string::npos) << stopped.err;
}

// As timeout(1) sends it to its child and to the child's group.
TEST_F(SignalsTest, OneSignalThatComesTwiceStopsAtTheNextStep) {
  prepare_tiny_listops(in("data"));
  std::vector<std::string> words = tiny_train(in("data"), in("run"), "standard", 100'000);
  words.insert(words.end(), {"--set", "training.checkpoint_every=100000"});
  Program program(words);
  ASSERT_TRUE(wait_until(program, [&] { return fs::exists(in("run") / kMetricsFile); }));
  program.send(SIGTERM);
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  program.send(SIGTERM);
  EXPECT_EQ(program.wait().status, 128 + SIGTERM);
  EXPECT_TRUE(fs::exists(in("run") / kLastCheckpoint));
}

// Ctrl-C ends `tee`, too, and before us.
TEST_F(SignalsTest, ARunOutlivesWhatReadsItsOutput) {
  prepare_tiny_listops(in("data"));
  std::vector<std::string> words = tiny_train(in("data"), in("run"), "standard", 100'000);
  words.insert(words.end(), {"--set", "training.checkpoint_every=100000"});
  std::string command = "echo $$ > " + shell_word(in("pid").string()) + "; exec " + LRA_PROGRAM;
  for (const std::string& word : words) command += " " + shell_word(word);
  Program program({"-c", fmt::format("(sh -c {} 2>&1; echo $? > {}) | true", shell_quoted(command),
                                     shell_word(in("status").string()))},
                  "/bin/sh");
  ASSERT_TRUE(wait_until(program, [&] { return fs::exists(in("run") / kMetricsFile); }));
  kill(std::stoi(read_file(in("pid"))), SIGINT);
  program.wait();
  EXPECT_EQ(read_file(in("status")), "130\n");
  EXPECT_TRUE(fs::exists(in("run") / kLastCheckpoint));
}

TEST_F(SignalsTest, APauseIsNoTimeOfTheSteps) {
  prepare_tiny_listops(in("data"));
  Program program(tiny_train(in("data"), in("run"), "standard", 120));
  ASSERT_TRUE(wait_until(program, [&] { return fs::exists(in("run") / kLastCheckpoint); }));
  program.send(SIGSTOP);
  std::this_thread::sleep_for(std::chrono::seconds(3));
  program.send(SIGCONT);
  ASSERT_EQ(program.wait().status, 0);
  const Result result = parse_result(read_json(in("run") / kResultFile));
  EXPECT_GT(result.training.measured_from, 0);
  EXPECT_GT(*result.training.seconds, 3);
  EXPECT_LT(static_cast<double>(result.steps.value() - result.training.measured_from) /
                *result.training.steps_per_second,
            *result.training.seconds - 3);
}

TEST_F(SignalsTest, AClosedTerminalLeavesNothingHalfMade) {
  Program program({"data", "prepare", "pathx", "--out", in("data").string()});
  ASSERT_TRUE(wait_until(program, [&] { return fs::exists(in("data")); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  program.send(SIGHUP);
  EXPECT_EQ(program.wait().status, 128 + SIGHUP);
  EXPECT_FALSE(fs::exists(in("data")));
}

// A step of minutes: a large batch of whole matrices.
TEST_F(SignalsTest, TheFirstCtrlCSaysWhatASecondDoes) {
  prepare_tiny_listops(in("data"));
  std::vector<std::string> words =
      tiny_train(in("data"), in("run"), "standard[implementation=materialized]");
  for (const char* set : {"input.length=4096", "training.batch=64", "training.micro_batch=1",
                          "model.layers=8", "model.heads=8"})
    words.insert(words.end(), {"--set", set});
  Program program(words);
  ASSERT_TRUE(wait_until(program, [&] { return fs::exists(in("run") / kMetricsFile); }));
  std::this_thread::sleep_for(std::chrono::seconds(1));
  program.send(SIGINT);
  ASSERT_FALSE(ends_within(program, 2)) << "the step is too short for this test";
  program.send(SIGINT);
  EXPECT_TRUE(ends_within(program, 5));
  program.send(SIGKILL);
  const ProgramResult ended = program.wait();
  EXPECT_EQ(ended.status, 128 + SIGINT);
  EXPECT_NE(ended.err.find("stopping after this step; press Ctrl-C again to end at once\n"),
            std::string::npos)
      << ended.err;
  EXPECT_EQ(ended.err.find("stopped at step"), std::string::npos) << ended.err;
}

TEST_F(SignalsTest, AFileBeyondTheLargestSizeIsOneError) {
  Program program({"-c", fmt::format("ulimit -f 8; exec {} data prepare listops --out {} --train "
                                     "2000 --dev 40 --test 50 --threads 1",
                                     LRA_PROGRAM, in("data").string())},
                  "/bin/sh");
  const ProgramResult result = program.wait();
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.err.find(": File too large; it passes the largest size"), std::string::npos)
      << result.err;
  EXPECT_EQ(text_lines(result.err).size(), 1u) << result.err;
  EXPECT_FALSE(fs::exists(in("data")));
}

// Reading a page that is gone is a SIGBUS.
TEST_F(SignalsTest, DataCutShortUnderATrainingAreNamedAndItGoesOnWithThemRestored) {
  prepare_tiny_listops(in("data"), /*train=*/4000);
  const fs::path file = in("data") / "listops/train.safetensors";
  fs::copy_file(file, in("whole"));
  const auto words = tiny_train(in("data"), in("run"), "standard", 400);
  Program program(words);
  ASSERT_TRUE(wait_until(program, [&] { return fs::exists(in("run") / kLastCheckpoint); }));
  fs::resize_file(file, 0);
  const ProgramResult cut = program.wait();
  EXPECT_EQ(cut.status, 1) << cut.err;
  EXPECT_NE(cut.err.find("lra: cannot read " + file.string() + ": it became shorter"),
            std::string::npos)
      << cut.err;
  fs::copy_file(in("whole"), file, fs::copy_options::overwrite_existing);
  const ProgramResult resumed = run_program(words);
  EXPECT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_NE(resumed.err.find("resuming "), std::string::npos) << resumed.err;
}

}  // namespace
}  // namespace lra
