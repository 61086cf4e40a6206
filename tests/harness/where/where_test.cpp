// lra profile --where: one model's step, taken apart.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <set>
#include <thread>

#include "lra/config/protocol.h"
#include "results/where/record.h"
#include "tests/harness/program.h"

namespace lra::where {
namespace {

class WhereTest : public testing::Test {
 protected:
  std::vector<std::string> complete(const std::vector<std::string>& more) const {
    std::vector<std::string> words = {"profile",    "--where",    "--attentions", "standard",
                                      "--protocol", "lra-strict", "--task",       "listops",
                                      "--lengths",  "64",         "--batch",      "2",
                                      "--threads",  "1",          "--seconds",    "0.1"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  std::vector<Where> records() const {
    std::vector<Where> all;
    for (const json& record : read_lines(out_)) all.push_back(parse_where(record));
    return all;
  }
  static double ms_of(const Where& record, WorkKind kind, StepPass pass) {
    double ms = 0;
    for (const WhereOp& op : record.ops) ms += op.kind == kind && op.pass == pass ? op.ms : 0;
    return ms;
  }

  Scratch scratch_;
  const std::string out_ = (scratch_.path() / "w.jsonl").string();
};

TEST_F(WhereTest, TakesATrainingStepApart) {
  const ProgramResult result = run_program(complete({"--out", out_}));
  ASSERT_EQ(result.status, 0) << result.err;
  for (const char* heading : {"kind", "Parts", "Ops", "in no op", "layer 2", "of roofline"})
    EXPECT_NE(result.out.find(heading), std::string::npos) << heading;
  const std::vector<Where> all = records();
  ASSERT_EQ(all.size(), 1u);
  const Where& record = all[0];
  EXPECT_EQ(record.mode, ProfileMode::training);
  EXPECT_GE(record.steps, 3);
  EXPECT_GT(record.step_ms, 0);
  std::set<std::string> parts;
  double ms = 0;
  for (const WhereOp& op : record.ops) {
    parts.insert(op.part);
    ms += op.ms;
  }
  EXPECT_NEAR(ms, record.ops_ms, 1e-6 * ms);
  EXPECT_NEAR(record.ops_ms + record.recording_ms + record.outside_ms, record.recorded_ms,
              1e-6 * record.recorded_ms)
      << "all of the step is in an op, the recording, or neither";
  for (const char* part : {"embedding", "layer 1", "layer 2", "head", "loss", "optimizer"})
    EXPECT_TRUE(parts.contains(part)) << part;
  for (const StepPass pass : {StepPass::forward, StepPass::backward}) {
    EXPECT_GT(ms_of(record, WorkKind::products, pass), 0);
    EXPECT_GT(ms_of(record, WorkKind::attention, pass), 0);
  }
  EXPECT_GT(ms_of(record, WorkKind::optimizer, StepPass::forward), 0);
}

TEST_F(WhereTest, CtrlCKeepsWhatIsTakenApart) {
  auto words = complete({"--out", out_});
  *std::ranges::find(words, "64") = "64,80,96,112,128,144,160,176,192,208";
  Program program(words);
  const auto begun = [&] {  // the file is whole or not there: it is written beside its place
    return std::ranges::any_of(std::filesystem::directory_iterator(scratch_.path()),
                               [](const auto& file) { return file.file_size() > 0; });
  };
  while (!program.ended() && !begun()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  program.send(SIGINT);
  const ProgramResult stopped = program.wait();
  EXPECT_EQ(stopped.status, 130) << stopped.err;
  EXPECT_NE(stopped.err.find("of 10 cells, and the others want a file of their own"),
            std::string::npos)
      << stopped.err;
  ASSERT_GE(records().size(), 1u);
  EXPECT_LT(records().size(), 10u);
}

// 2 samples of 2 heads of 32 at 64, as in ProfileTest.CountsTheOperationsOfTheScope.
TEST_F(WhereTest, CountsTheOperationsThatAProfileCounts) {
  const std::string protocol = (scratch_.path() / "p.json").string();
  Protocol mine = load_protocol("lra-strict");
  mine.name = "mine";
  write_json(protocol, protocol_json(mine));
  auto words = complete({"--mode", "inference", "--out", out_});
  *std::ranges::find(words, "lra-strict") = protocol;
  ASSERT_EQ(run_program(words).status, 0);
  ASSERT_EQ(records().size(), 1u);
  EXPECT_EQ(records()[0].protocol, "mine") << "its name, whatever the file's";
  double flops = 0;
  const std::vector<Where> made = records();
  for (const WhereOp& op : made[0].ops) {
    EXPECT_EQ(op.pass, StepPass::forward) << op.op;
    flops += op.flops.value_or(0);
  }
  const double attention = 4.0 * 2 * 2 * 64 * 64 * 32, projections = 4 * 2.0 * 128 * 64 * 64,
               feed_forward = 2 * 2.0 * 128 * 64 * 128, head = 2.0 * 2 * (64 * 128 + 128 * 10);
  EXPECT_EQ(flops, 2 * (attention + projections + feed_forward) + head);
}

TEST_F(WhereTest, WritesNothingUnasked) {
  const ProgramResult result = run_program(complete({"--mode", "inference"}));
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(std::filesystem::is_empty(scratch_.path()));
}

TEST_F(WhereTest, RefusesWhatItCannotDo) {
  expect_refusal(complete({"--scope", "core"}), 2, "--where tells parts of a model apart");
  expect_refusal(complete({"--compare", "p.jsonl"}), 2, "excludes");
  expect_refusal(complete({"--passes", "2"}), 2, "excludes");
  expect_refusal(complete({"--out", "w.json"}), 2, "should name a .jsonl file");
  write_file(out_, "mine\n");
  expect_refusal(complete({"--out", out_}), 2, "exists");
  EXPECT_EQ(read_file(out_), "mine\n");
}

}  // namespace
}  // namespace lra::where
