// Training on tokens of the inputs, and runs that start from the weights of others.
#include "harness/training/pretraining.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "harness/steps/batch_feed.h"
#include "harness/training/learner.h"
#include "harness/training/open_run.h"
#include "harness/training/result.h"
#include "lra/model/labels.h"
#include "tests/harness/training/train_fixture.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

class PretrainingTest : public TrainTest {
 protected:
  Config config(std::vector<std::string> sets, const std::string& attention = "standard") const {
    std::vector<std::string> all = tiny_settings(8);
    all.push_back("model.width=16");
    all.push_back("model.head_dim=8");
    all.insert(all.end(), sets.begin(), sets.end());
    return make_config(load_protocol("lra-strict"), "listops", parse_attention(attention), all, 0,
                       "float32");
  }
  TrainRequest request(const std::string& name, const std::vector<std::string>& sets,
                       const fs::path& init_from = {},
                       const std::string& attention = "standard") const {
    return {.config = config(sets, attention),
            .run = run(name),
            .data = data_,
            .init_from = init_from,
            .resume = Resume::yes};
  }
  std::map<std::string, torch::Tensor> state(const fs::path& checkpoint) const {
    std::map<std::string, torch::Tensor> all;
    for (const auto& [name, tensor] : read_tensors(checkpoint).tensors) {
      if (name.starts_with("model.")) all[name.substr(6)] = tensor.clone();
    }
    return all;
  }
  Result result(const std::string& name) const { return read_result(run(name) / kResultFile); }

  const std::vector<std::string> masked_ = {"training.objective=masked"},
                                 causal_ = {"training.objective=causal"};
};

// The loss of a step, of a head that is computed at the labelled places alone, is LibTorch's over
// the logits of all positions.
TEST_F(PretrainingTest, TheLossIsThatOfTheHiddenTokensAlone) {
  for (const auto& objective : {masked_, causal_}) {
    for (const char* part : {"training.micro_batch=0", "training.micro_batch=3"}) {
      std::vector<std::string> sets = objective;
      sets.insert(sets.end(), {"model.dropout=0", part});
      const Config of = config(sets);
      const PreparedData data = open_data(data_, "listops", /*check_hashes=*/false);
      LoaderOptions options = loader_options(of);
      options.batch = of.settings.training.batch;
      options.shuffle = true;
      Learner learner(of, torch::kCPU, nullptr, 1);
      learner.model().train();
      const Batch batch = TrainingStream(data.split("train"), options).next();
      torch::Tensor logits, labels = batch.labels.flatten();
      {
        const torch::NoGradGuard no_grad;
        logits = learner.model().forward(batch.tokens, batch.mask).flatten(0, 1);
      }
      namespace F = torch::nn::functional;
      const auto expected = F::cross_entropy(
          logits, labels, F::CrossEntropyFuncOptions().ignore_index(-1).reduction(torch::kSum));
      const torch::Tensor right = logits.argmax(-1).eq(labels).sum();
      TrainState at;
      const auto feed = make_feed(FeedKind::host, {data.split("train")}, options, torch::kCPU, 0);
      learner.step(*feed, at);
      learner.read_window(at);
      const int64_t count = labels.ge(0).sum().item<int64_t>();
      EXPECT_GT(count, 8);
      EXPECT_EQ(at.window_count, count);
      EXPECT_NEAR(at.window_loss, expected.item<double>(), 1e-3 * expected.item<double>());
      EXPECT_EQ(at.window_correct, right.item<int64_t>());
    }
  }
}

// It is written before the last one, and has the time up to its own step all the same.
TEST_F(PretrainingTest, ABestCheckpointHasItsTime) {
  auto once = masked_;
  once.push_back("training.evaluate_every=8");
  ASSERT_EQ(train(request("first", once)), Status::ok);
  ASSERT_EQ(train(request("then", {}, run("first") / kBestCheckpoint)), Status::ok);
  EXPECT_GT(result("then").pretrained.value().seconds, 0);
}

TEST_F(PretrainingTest, EvaluationCountsTheTokensOfEachSample) {
  const Config of = config({"training.objective=masked", "model.dropout=0"});
  const PreparedData data = open_data(data_, "listops", /*check_hashes=*/false);
  const Split& dev = data.split("dev");
  torch::manual_seed(3);
  Model model(task("listops"), of);
  const Evaluation found = evaluate(model, dev, of, torch::kCPU, "dev");
  EXPECT_TRUE(model.is_training()) << "as it was";
  model.eval();
  const torch::NoGradGuard no_grad;
  LoaderOptions options = loader_options(of);
  options.batch = 1;
  EvaluationPass pass(dev, options);
  double loss = 0;
  int64_t correct = 0, count = 0;
  size_t sample = 0;
  for (Batch one; pass.next(one); ++sample) {
    const torch::Tensor places = label_places(one.labels), labels = labels_at(one.labels, places),
                        logits = model.forward(one.tokens, one.mask, places);
    const int64_t right = logits.argmax(-1).eq(labels).sum().item<int64_t>();
    ASSERT_LT(sample, found.tokens.size());
    EXPECT_EQ(found.tokens[sample].count, places.numel());
    EXPECT_EQ(found.tokens[sample].correct, right);
    EXPECT_EQ(found.lengths[sample], dev.length(static_cast<int64_t>(sample)));
    loss += torch::nn::functional::cross_entropy(logits, labels).item<double>() *
            static_cast<double>(places.numel());
    correct += right;
    count += places.numel();
  }
  EXPECT_EQ(std::ssize(found.tokens), dev.size());
  EXPECT_EQ(found.correct, correct);
  EXPECT_EQ(found.count, count);
  EXPECT_NEAR(found.loss, loss / static_cast<double>(count), 1e-4);
  const Accuracy accuracy = accuracy_of(found, of.settings.input.length);
  EXPECT_EQ(accuracy.samples, dev.size());
  EXPECT_EQ(accuracy.ci95.low, stats::clustered_interval(found.tokens).low);
  int64_t by_length = 0;
  for (const LengthAccuracy& bucket : accuracy.by_length) by_length += bucket.count;
  EXPECT_EQ(by_length, count);
}

// The same inputs with other labels.
void write_relabelled(const fs::path& from, const fs::path& to) {
  const PreparedData data(from, "listops", /*check_hashes=*/false);
  std::map<std::string, SplitWriter> splits;
  for (const char* name : {"train", "dev", "test"}) {
    const Split& split = data.split(name);
    SplitWriter writer;
    for (int64_t i = 0; i < split.size(); ++i) {
      std::vector<int64_t> ids(static_cast<size_t>(split.length(i)));
      split.copy(i, 0, std::ssize(ids), ids.data());
      writer.tokens(std::vector<uint16_t>(ids.begin(), ids.end()));
      writer.label((split.label(i) + 1 + i % 5) % 10);
    }
    splits[name] = std::move(writer);
  }
  write_prepared(to,
                 {.task = "listops",
                  .source = "other labels",
                  .generator = "test/1",
                  .vocabulary = data.manifest().vocabulary,
                  .classes = data.manifest().classes,
                  .inputs = 1},
                 splits);
}

TEST_F(PretrainingTest, LabelsOfTheTaskChangeNoBit) {
  const fs::path other = scratch_.path() / "other";
  write_relabelled(data_, other);
  for (const auto& objective : {masked_, std::vector<std::string>{}}) {
    const std::string name = objective.empty() ? "classify" : "masked";
    TrainRequest first = request(name, objective), second = request(name + "-other", objective);
    second.data = other;
    ASSERT_EQ(train(first), Status::ok);
    ASSERT_EQ(train(second), Status::ok);
    const bool same =
        tensor_bytes(first.run / kLastCheckpoint) == tensor_bytes(second.run / kLastCheckpoint) &&
        log_without_clocks(first.run) == log_without_clocks(second.run);
    EXPECT_EQ(same, !objective.empty()) << name;
  }
}

TEST_F(PretrainingTest, TheRecordNamesTheMetric) {
  ASSERT_EQ(train(request("masked", masked_)), Status::ok);
  ASSERT_EQ(train(request("causal", causal_)), Status::ok);
  ASSERT_EQ(train(request("classify", {})), Status::ok);
  EXPECT_EQ(result("masked").metric, "masked_token_accuracy");
  EXPECT_EQ(result("causal").metric, "next_token_accuracy");
  EXPECT_EQ(result("classify").metric, "");
  const Result masked = result("masked");
  ASSERT_TRUE(masked.test && masked.dev);
  EXPECT_EQ(masked.test->samples, 50);
  EXPECT_GT(masked.test->count, 50);
  EXPECT_FALSE(masked.data.majority.has_value()) << "of labels that nothing read";
  EXPECT_FALSE(fs::exists(run("masked") / kPredictionsFile));
  EXPECT_EQ(masked.config["training"]["objective"], "masked");
  EXPECT_EQ(masked.config["training"]["masked_share"], 0.1);
  const OpenedRun opened = open_run(run("masked"), {}, CheckpointKind::best, torch::kCPU);
  const Evaluation again =
      evaluate(*opened.model, opened.data.split("test"), opened.config, torch::kCPU, "test");
  EXPECT_EQ(again.correct, masked.test->correct);
}

TEST_F(PretrainingTest, ARunStartsFromAllButTheHeadOfAnother) {
  ASSERT_EQ(train(request("first", masked_)), Status::ok);
  const fs::path first = run("first");
  // Steps that change nothing to see: a rate of next to nothing.
  TrainRequest second =
      request("second", {"optimizer.lr=1e-30", "training.evaluate_every=8"}, first);
  ASSERT_EQ(train(second), Status::ok);
  const auto origin = state(first / kBestCheckpoint), mine = state(run("second") / kLastCheckpoint);
  Learner untouched(second.config, torch::kCPU, nullptr, 1);
  std::set<std::string> taken, fresh;
  for (const auto& item : untouched.model().named_parameters()) {
    const std::string& name = item.key();
    const bool head = name.starts_with("classifier.");
    (head ? fresh : taken).insert(name);
    const torch::Tensor& expected = head ? item.value() : origin.at(name);
    EXPECT_LT((mine.at(name) - expected).abs().max().item<double>(), 1e-6) << name;
    if (!head && name.ends_with("query.weight")) {
      EXPECT_GT((mine.at(name) - item.value()).abs().max().item<double>(), 1e-3) << name;
    }
  }
  const Result r = result("second");
  ASSERT_TRUE(r.pretrained.has_value());
  const PretrainingRecord& p = *r.pretrained;
  EXPECT_EQ(std::set<std::string>(p.taken.begin(), p.taken.end()), taken);
  EXPECT_EQ(std::set<std::string>(p.fresh.begin(), p.fresh.end()), fresh);
  EXPECT_EQ(std::set<std::string>(p.left.begin(), p.left.end()),
            (std::set<std::string>{"classifier.0.bias", "classifier.0.weight", "hidden"}));
  const Checkpoint best = read_checkpoint(first / kBestCheckpoint);
  EXPECT_EQ(p.path, first.string());
  EXPECT_EQ(p.sha256, best.sha256);
  EXPECT_EQ(p.objective, "masked");
  EXPECT_EQ(p.step, best.at.step);
  EXPECT_EQ(p.steps, 8);
  EXPECT_EQ(p.samples, 64);
  EXPECT_GT(p.seconds, 0);
  EXPECT_EQ(p.total_steps, 16);
  EXPECT_EQ(p.total_samples, 128);
  EXPECT_GT(p.total_seconds.value(), p.seconds);
  EXPECT_FALSE(r.config.contains("pretrained")) << "it stands by itself";
  const json saved = read_json(run("second") / kConfigFile);
  EXPECT_EQ(saved.at("identity").at("pretrained"), best.sha256);
  // The checkpoint by its own path is the same origin.
  ASSERT_EQ(train(request("third", {"optimizer.lr=1e-30", "training.evaluate_every=8"},
                          first / kBestCheckpoint)),
            Status::ok);
  EXPECT_EQ(tensor_bytes(run("third") / kLastCheckpoint),
            tensor_bytes(run("second") / kLastCheckpoint));
}

TEST_F(PretrainingTest, AContinuedRunReadsItsOriginNoMore) {
  ASSERT_EQ(train(request("first", masked_)), Status::ok);
  const fs::path first = run("first");
  const TrainRequest second = request("second", {}, first);
  ASSERT_EQ(train(second), Status::ok);
  const std::string bytes = tensor_bytes(run("second") / kLastCheckpoint);
  fs::remove(run("second") / kResultFile);
  fs::rename(first, scratch_.path() / "away");
  ASSERT_EQ(train(second), Status::ok) << "it goes on from its last checkpoint";
  EXPECT_EQ(tensor_bytes(run("second") / kLastCheckpoint), bytes);
  ASSERT_TRUE(result("second").pretrained.has_value());
  EXPECT_EQ(result("second").pretrained->path, first.string());
  // Without the origin, or with another, it is another run.
  EXPECT_NE(error_text([&] { train(request("second", {})); }).find("pretrained"),
            std::string::npos);
  EXPECT_NE(
      error_text([&] { train(request("second", {}, first / "gone")); }).find("did not start from"),
      std::string::npos);
  ASSERT_EQ(train(request("classified", {})), Status::ok);
  EXPECT_NE(error_text([&] { train(request("second", {}, run("classified"))); }).find("pretrained"),
            std::string::npos);
}

TEST_F(PretrainingTest, AnOriginThatDoesNotFitIsRefused) {
  ASSERT_EQ(train(request("first", masked_)), Status::ok);
  ASSERT_EQ(train(request("narrow", {"training.objective=masked", "model.feed_forward=8"})),
            Status::ok);
  ASSERT_EQ(train(request("deep", {"training.objective=masked", "model.layers=3"})), Status::ok);
  ASSERT_EQ(train(request("nystrom", masked_, {}, "nystrom[num_landmarks=8]")), Status::ok);
  const auto refusal = [&](const std::string& origin, std::vector<std::string> sets = {},
                           const std::string& attention = "standard") {
    const std::string text =
        error_text([&] { train(request("refused", sets, run(origin), attention)); });
    EXPECT_FALSE(fs::exists(run("refused") / kConfigFile)) << origin;
    return text;
  };
  EXPECT_NE(refusal("nothing").find("there is no such run folder or checkpoint"),
            std::string::npos);
  EXPECT_NE(refusal("narrow").find("] Float, that of this model"), std::string::npos)
      << refusal("narrow");
  // The same shapes, of another function.
  EXPECT_NE(refusal("first", {"model.heads=1", "model.head_dim=16"}).find("its model.head"),
            std::string::npos);
  EXPECT_NE(refusal("deep").find("this model has no tensor layer2_"), std::string::npos);
  EXPECT_NE(refusal("first", {"model.layers=3"}).find("it has no tensor layer2_"),
            std::string::npos);
  ASSERT_EQ(train(request("causal", {"training.objective=causal"}, {}, "localconv")), Status::ok);
  EXPECT_NE(refusal("causal", {}, "localconv")
                .find("its model.causal is true, not false, and with one_sided=false the weights"),
            std::string::npos);
  // What the first run read as tokens, the second would hide.
  EXPECT_NE(refusal("first", {"input.mask=none"})
                .find("it was trained with input.mask length and model.padding masked, and this "
                      "run has input.mask none and model.padding masked; give the same"),
            std::string::npos)
      << refusal("first", {"input.mask=none"});
  EXPECT_NE(refusal("first", {"model.padding=counted"})
                .find("this run has input.mask length and model.padding counted"),
            std::string::npos);
  EXPECT_NE(refusal("first", {"model.padded_rows=uniform"}).find("its model.padded_rows is "),
            std::string::npos);
  EXPECT_NE(refusal("nystrom").find("its attention is nystrom, not standard"), std::string::npos);
  EXPECT_NE(refusal("nystrom", {}, "nystrom[num_landmarks=4]").find("num_landmarks: 8 -> 4"),
            std::string::npos);
  fs::create_directories(run("empty"));
  EXPECT_NE(refusal("empty").find("it has no checkpoint-best.safetensors"), std::string::npos);
  write_file(run("text"), "not tensors");
  EXPECT_NE(refusal("text"), "(no error)");
  EXPECT_NE(refusal("first", {"pretraining.training.steps=8"}).find("--init-from"),
            std::string::npos);
}

TEST_F(PretrainingTest, AnotherTaskIsRefused) {
  ASSERT_EQ(train(request("first", masked_)), Status::ok);
  const fs::path data = scratch_.path() / "recall";
  task("induction").prepare({.out = data, .train = 16, .dev = 8, .test = 8});
  TrainRequest other = request("other", {}, run("first"));
  other.config = make_config(load_protocol("recall"), "induction", parse_attention("standard"),
                             {"training.steps=2"}, 0, "float32");
  other.data = data;
  EXPECT_NE(error_text([&] { train(other); }).find("it was trained on listops"), std::string::npos);
}

// They may hold what is tested here.
TEST_F(PretrainingTest, OtherDataAreRefused) {
  ASSERT_EQ(train(request("first", masked_)), Status::ok);
  const fs::path others = scratch_.path() / "others";
  task("listops").prepare({.out = others,
                           .seed = 1,
                           .train = 16,
                           .dev = 8,
                           .test = 8,
                           .min_length = 5,
                           .max_length = 24});
  TrainRequest second = request("second", {}, run("first"));
  second.data = others;
  EXPECT_NE(error_text([&] { train(second); }).find("it was trained on other data"),
            std::string::npos);
  EXPECT_FALSE(fs::exists(run("second")));
  second.data = data_;
  EXPECT_EQ(train(second), Status::ok);
}

TEST_F(PretrainingTest, ACausalRunNeedsACausalAttention) {
  EXPECT_NE(error_text([&] { request("none", causal_, {}, "nystrom"); }).find("has no causal form"),
            std::string::npos);
  EXPECT_TRUE(config(causal_).settings.model.causal);
}

}  // namespace
}  // namespace lra
