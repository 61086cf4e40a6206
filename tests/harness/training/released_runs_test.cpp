// Runs of published protocols, where released code sets traps: how much of a review is read, what a
// pass draws anew, and tables that are not trained.
#include <gtest/gtest.h>

#include "harness/training/evaluation.h"
#include "lra/formats/safetensors.h"
#include "tests/harness/training/train_fixture.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

// ---- Text of 1,000 or of 4,000 bytes (D2)

// Reviews of 5,000 bytes: a first one, one of other bytes 1,000 to 3,999, and one of other bytes
// 4,000 to 4,095.
Split long_reviews(const fs::path& folder) {
  SplitWriter writer;
  for (const auto& [from, to] : {std::pair{0, 0}, {1'000, 4'000}, {4'000, 4'096}}) {
    std::vector<uint16_t> ids(5'000);
    for (int i = 0; i < 5'000; ++i)
      ids[static_cast<size_t>(i)] =
          static_cast<uint16_t>(1 + (i * 31 + (i >= from && i < to ? 7 : 0)) % 256);
    writer.tokens(ids);
    writer.label(0);
  }
  writer.write(folder / "reviews.safetensors", 257);
  return Split(folder / "reviews.safetensors", 1, 2, 257);
}

TEST(TextLengthTrap, EachProtocolReadsItsOwnPartOfAReview) {
  struct Row {
    const char* protocol;
    int64_t length, cut;
    bool reads_middle, reads_end;  // bytes 1,000 to 3,999; 4,000 to 4,095
  };
  const Scratch scratch;
  const Split reviews = long_reviews(scratch.path());
  for (const Row& row :
       {Row{"tay2020", 1'000, 0, false, false}, Row{"nystromformer2021", 4'096, 4'000, true, false},
        Row{"skyformer2021", 4'096, 4'000, true, false}, Row{"lra-strict", 4'096, 0, true, true}}) {
    const Config config =
        make_config(load_protocol(row.protocol), "text", parse_attention("standard"),
                    {"model.layers=1", "model.width=8", "model.heads=1", "model.head_dim=8",
                     "model.feed_forward=8", "model.classifier=8"},
                    0, "float32");
    EXPECT_EQ(config.settings.input.length, row.length) << row.protocol;
    EXPECT_EQ(config.settings.input.cut, row.cut) << row.protocol;
    LoaderOptions options = loader_options(config);
    options.batch = 3;
    EvaluationPass pass(reviews, options);
    Batch batch;
    ASSERT_TRUE(pass.next(batch));
    EXPECT_EQ(batch.tokens.size(2), row.length) << row.protocol;
    torch::manual_seed(1);
    Model model(task("text"), config);
    model.to(torch::kDouble);
    model.eval();
    const torch::NoGradGuard no_grad;
    const torch::Tensor logits = model.forward(batch.tokens, batch.mask);
    const auto differs = [&](int64_t sample) {
      return (logits[sample] - logits[0]).abs().max().item<double>() > 1e-9;
    };
    EXPECT_EQ(differs(1), row.reads_middle) << row.protocol;
    EXPECT_EQ(differs(2), row.reads_end) << row.protocol;
  }
}

// ---- Draws of every pass, and tables that are not trained (D13, D15)

class ReleasedRuns : public TrainTest {
 protected:
  // The numbers of a checkpoint's model, by name.
  static std::map<std::string, torch::Tensor> state(const fs::path& checkpoint) {
    std::map<std::string, torch::Tensor> tensors;
    for (const auto& [name, tensor] : read_tensors(checkpoint).tensors) tensors[name] = tensor;
    return tensors;
  }
};

TEST_F(ReleasedRuns, ARunThatRedrawsResumesToTheBitsOfTheUninterruptedOne) {
  for (const std::string attention :
       {"performer[num_features=4,redraw=forward]", "reformer[chunk_length=8,redraw=forward]",
        "skyformer[num_features=4,redraw=forward]"}) {
    const std::string name = attention.substr(0, attention.find('['));
    constexpr int64_t kSteps = 60;
    ASSERT_EQ(run_program(words("whole_" + name, attention, kSteps)).status, 0);
    ASSERT_TRUE(kill_in_training(words("cut_" + name, attention, kSteps), {run("cut_" + name)},
                                 std::chrono::milliseconds(20)))
        << attention << ": no kill hit the run in progress";
    const ProgramResult end = run_program(words("cut_" + name, attention, kSteps));
    ASSERT_EQ(end.status, 0) << end.err;
    const auto whole = state(run("whole_" + name) / kLastCheckpoint),
               cut = state(run("cut_" + name) / kLastCheckpoint);
    ASSERT_EQ(whole.size(), cut.size());
    for (const auto& [key, tensor] : whole)
      EXPECT_TRUE(torch::equal(tensor, cut.at(key))) << attention << " " << key;
    EXPECT_EQ(read_file(run("whole_" + name) / kPredictionsFile),
              read_file(run("cut_" + name) / kPredictionsFile));
  }
}

// Stopped in an evaluation, which has drawn for some of its batches and begins again.
TEST_F(ReleasedRuns, ARunThatRedrawsAndIsStoppedInAnEvaluationEndsTheSame) {
  const std::string attention = "performer[num_features=4,redraw=forward]";
  const auto slow = [&](const std::string& name) {
    return with(words(name, attention, 8), {"--set", "evaluation.batch=1"});
  };
  prepare_tiny_listops(data_ = scratch_.path() / "more", 64, /*dev=*/400);
  ASSERT_EQ(run_program(slow("whole")).status, 0);
  Program program(slow("cut"));
  const auto trained = [&] {
    return fs::exists(run("cut") / kMetricsFile) &&
           read_file(run("cut") / kMetricsFile).find("\"step\":4,") != std::string::npos;
  };
  while (!trained() && !program.ended()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  program.send(SIGTERM);
  const ProgramResult stopped = program.wait();
  EXPECT_NE(stopped.err.find("stopped at step 4 of 8"), std::string::npos) << stopped.err;
  const json at =
      json::parse(read_tensors(run("cut") / kLastCheckpoint).metadata.at("progression"));
  ASSERT_TRUE(at["evaluation_pending"].get<bool>()) << "it was stopped in the evaluation";
  ASSERT_EQ(run_program(slow("cut")).status, 0);
  const auto whole = state(run("whole") / kLastCheckpoint),
             cut = state(run("cut") / kLastCheckpoint);
  ASSERT_EQ(whole.size(), cut.size());
  for (const auto& [key, tensor] : whole) EXPECT_TRUE(torch::equal(tensor, cut.at(key))) << key;
  EXPECT_EQ(read_file(run("whole") / kPredictionsFile), read_file(run("cut") / kPredictionsFile));
}

TEST_F(ReleasedRuns, AnUntrainedTableStandsInTheCheckpointAsItWasDrawn) {
  const std::string attention = "linformer[projected_length=8,trained=false]";
  ASSERT_EQ(run_program(words("a", attention, 12)).status, 0);
  const json saved = read_json(run("a") / kConfigFile);
  const Config config = Config::from_json(saved, "config.json");
  torch::manual_seed(config.seed);
  const Model fresh(task("listops"), config);
  const auto after = state(run("a") / kLastCheckpoint);
  for (const char* name :
       {"layer0_attention.projection.key", "layer1_attention.projection.value"}) {
    EXPECT_FALSE(fresh.named_parameters().contains(name)) << name;
    const std::string key = std::string("model.") + name;
    ASSERT_TRUE(after.contains(key)) << key;
    EXPECT_TRUE(torch::equal(after.at(key), fresh.named_buffers()[name])) << name;
  }
  const char* const trained = "layer0_attention.query.weight";
  EXPECT_FALSE(
      torch::equal(after.at(std::string("model.") + trained), fresh.named_parameters()[trained]));
}

}  // namespace
}  // namespace lra
