// Every task of every protocol: a configuration for each variant that a model can be made of, and a
// training run at reduced size.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "attention_variants/base/files.h"
#include "attention_variants/base/random.h"
#include "harness/training/run_folder.h"
#include "harness/training/train.h"
#include "lra/formats/safetensors.h"
#include "lra/model/model.h"
#include "results/analysis/recipes.h"
#include "tests/support/scratch.h"
#include "tests/support/shipped.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

// Random tokens in the task's form.
void make_random_data(const Task& of, const fs::path& out) {
  CounterRandom random(1, 0);
  std::map<std::string, SplitWriter> splits;
  for (const auto& [name, count] : {std::pair{"train", 12}, {"dev", 6}, {"test", 6}}) {
    SplitWriter writer(of.sequences());
    for (int64_t i = 0; i < count; ++i) {
      size_t length = 0;
      for (int64_t j = 0; j < of.sequences(); ++j) {
        if (j % of.channels == 0) length = 20 + random.below(of.whole_samples ? 28 : 40);
        std::vector<uint16_t> ids(length);
        for (uint16_t& id : ids)
          id = static_cast<uint16_t>(1 + random.below(static_cast<uint32_t>(of.vocabulary) - 1));
        writer.tokens(ids);
      }
      if (of.position_labels) {
        std::vector<int32_t> labels(length, -1);
        labels[15] = static_cast<int32_t>(i % of.classes);
        writer.labels(labels);
      } else {
        writer.label(i % of.classes);
      }
    }
    splits[name] = std::move(writer);
  }
  Manifest manifest{.task = of.name,
                    .source = "random",
                    .synthetic = true,
                    .generator = "test/1",
                    .vocabulary = of.vocabulary,
                    .classes = of.classes,
                    .inputs = of.sequences(),
                    .position_labels = of.position_labels};
  if (of.channels > 1) manifest.options["colours"] = to_string(Colours::rgb);
  write_prepared(out, manifest, splits);
}

// What makes a run of any protocol one of a fraction of a second. Layers, heads and all that is not
// a size stay the protocol's. They are settings of the protocol here, as not every one is read: the
// user's own would be refused.
const std::vector<std::string> kSmall = {
    "input.length=48",    "model.width=16",      "model.feed_forward=16",     "model.classifier=16",
    "training.steps=3",   "training.batch=4",    "training.evaluate_every=1", "schedule.warmup=1",
    "evaluation.batch=2", "training.log_every=1"};
// The same of a run before it, where the protocol has one.
const std::vector<std::string> kSmallFirst = {
    "pretraining.training.steps=2", "pretraining.training.batch=4",
    "pretraining.training.evaluate_every=1", "pretraining.schedule.warmup=1"};

TrainRequest small_run(const std::string& protocol, const std::string& task_name,
                       const std::string& attention, const fs::path& folder,
                       const std::vector<std::string>& more = {}) {
  const AttentionSpec spec = parse_attention(attention);
  Protocol loaded = load_protocol(protocol);
  std::vector<std::string> sizes = kSmall;
  if (!task_settings(loaded, task_name).pretraining.empty())
    sizes.insert(sizes.end(), kSmallFirst.begin(), kSmallFirst.end());
  loaded = with_settings(loaded, task_name, spec.name, sizes);
  make_random_data(task(task_name), folder / "data");
  return {.config = make_config(loaded, task_name, spec, more, 0, "float32"),
          .run = folder / "run",
          .data = folder / "data"};
}

using ProtocolTask = std::tuple<std::string, std::string>;

std::vector<ProtocolTask> protocol_tasks() {
  std::vector<ProtocolTask> all;
  for (const std::string& name : protocol_names()) {
    const Protocol protocol = load_protocol(name);
    for (const auto& [task_name, entry] : protocol.tasks.items()) all.emplace_back(name, task_name);
  }
  return all;
}

class EveryProtocolTask : public testing::TestWithParam<ProtocolTask> {
 protected:
  Scratch scratch_;
};
std::string name_of(const testing::TestParamInfo<ProtocolTask>& param) {
  std::string name = std::get<0>(param.param) + "_" + std::get<1>(param.param);
  std::ranges::replace(name, '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, EveryProtocolTask, testing::ValuesIn(protocol_tasks()), name_of);

TEST(ProtocolRuns, EveryTaskIsOfAProtocol) {
  const std::vector<ProtocolTask> all = protocol_tasks();
  for (const Task* known : tasks()) {
    EXPECT_TRUE(std::ranges::any_of(all, [&](const ProtocolTask& one) {
      return std::get<1>(one) == known->name;
    })) << known->name;
  }
}

TEST_P(EveryProtocolTask, MakesAModelOfEveryVariant) {
  const auto& [name, task_name] = GetParam();
  const Protocol protocol = load_protocol(name);
  for (const AttentionEntry* entry : shipped_attentions()) {
    // Deeper recipes are of their own attentions.
    if (protocol.regime == kLaterRegime && !protocol.attentions.contains(entry->info.name))
      continue;
    // Shorter where it is long: matrices over positions would take gigabytes.
    Config config = make_config(protocol, task_name, {.name = entry->info.name}, {}, 0, "float32");
    int64_t& length = config.settings.input.length;
    length = std::min<int64_t>(length, 1024);
    if (config.settings.model.causal && !entry->info.can_be_causal) {
      EXPECT_THROW(Model(task(task_name), config), UsageError) << entry->info.name;
      continue;
    }
    Model model(task(task_name), config);
    EXPECT_GT(model.parameter_count(), 0) << entry->info.name;
    EXPECT_EQ(std::ssize(model.attentions()), config.settings.model.layers) << entry->info.name;
  }
}

// Of a protocol with pretraining: its first run, and what the second took of it.
void expect_two_runs(const fs::path& run) {
  const json first = read_json(run / kPretrainingFolder / kResultFile),
             before = read_json(run / kResultFile).at("pretrained");
  EXPECT_EQ(first["metric"], "masked_token_accuracy");
  EXPECT_EQ(first["steps"], 2);
  EXPECT_EQ(before["objective"], "masked");
  EXPECT_EQ(before["total_steps"], 5);
  EXPECT_FALSE(before["fresh"].empty());
  for (const json& fresh : before["fresh"])
    EXPECT_TRUE(fresh.get<std::string>().starts_with("classifier.")) << fresh;
}

TEST_P(EveryProtocolTask, TrainsAtReducedSize) {
  const auto& [name, task_name] = GetParam();
  const ModelOptions model = task_settings(load_protocol(name), task_name).model;
  // Of a recipe that asks for what Nyströmformer cannot.
  const bool plain = model.causal || model.positions == Positions::rotary;
  const TrainRequest request =
      small_run(name, task_name, plain ? "standard" : "nystrom", scratch_.path());
  ASSERT_EQ(train(request), Status::ok);
  const json result = read_json(request.run / kResultFile);
  EXPECT_EQ(result["steps"], 3);
  EXPECT_EQ(result["test"]["count"], 6);
  // Every effective value stands in the run's configuration.
  const json written = read_json(request.run / kConfigFile),
             settings = write_fields(request.config.settings);
  for (const auto& [group, values] : settings.items()) EXPECT_EQ(written[group], values) << group;
  if (!request.config.settings.pretraining.empty()) expect_two_runs(request.run);
}

// Sinkhorn's entry of tay2020's Image has a weight decay and sizes of its own.
TEST(ProtocolRuns, AnEntryForAVariantIsWhatRuns) {
  const Scratch scratch;
  const TrainRequest request = small_run("tay2020", "image", "sinkhorn", scratch.path());
  ASSERT_EQ(train(request), Status::ok);
  const json config = read_json(request.run / kConfigFile);
  EXPECT_EQ(config["optimizer"]["weight_decay"], 0.7);
  EXPECT_EQ(config["model"]["heads"], 1);
  EXPECT_EQ(config["attention"]["options"]["block"], 64);
  EXPECT_EQ(std::ranges::count(config["by_attention"], "optimizer.weight_decay"), 1);
}

TEST(ProtocolRuns, ImagesInColourTrain) {
  const Scratch scratch;
  Task coloured = task("image", Reading{.colours = Colours::rgb});
  make_random_data(coloured, scratch.path() / "data");
  const std::vector<std::string> sets = {
      "input.colours=rgb", "model.pixel_means=[0.4914,0.4822,0.4465]",
      "model.pixel_sds=[0.247,0.243,0.261]", "optimizer.groups=[]"};
  const TrainRequest request{
      .config = make_config(with_settings(load_protocol("s5-2023"), "image", "s5", kSmall), "image",
                            parse_attention("s5[state=16,blocks=2]"), sets, 0, "float32"),
      .run = scratch.path() / "run",
      .data = scratch.path() / "data"};
  ASSERT_EQ(train(request), Status::ok);
  const json config = read_json(request.run / kConfigFile);
  EXPECT_EQ(config["input"]["colours"], "rgb");
  EXPECT_EQ(config["model"]["pixel_means"], (json{0.4914, 0.4822, 0.4465}));
  EXPECT_EQ(read_json(request.run / kResultFile)["status"], "ok");
  // Grey configurations do not read them.
  TrainRequest grey = request;
  grey.config.settings.input.colours = Colours::grey;
  grey.config.settings.model.pixel_means = grey.config.settings.model.pixel_sds = {};
  grey.run = scratch.path() / "grey";
  EXPECT_THROW(train(grey), Error);
}

// Records know what runs did before a setting came, as configurations do: the two lists agree.
TEST(ProtocolRuns, ARecordFromBeforeASettingStandsWithTodays) {
  const Result old = read_result(LRA_SOURCE_DIR "/tests/fixtures/result-before-pooling.json");
  Result today = old;
  today.seed = 1;
  today.config = Config::from_json(old.config, "result.json").to_json();
  ASSERT_NE(today.config, old.config);
  EXPECT_EQ(group_by_recipe(std::vector{old, today}).size(), 1u);
  today.config["model"]["pooling"] = "cls";
  EXPECT_EQ(group_by_recipe(std::vector{old, today}).size(), 2u);
}

// The learning rates that a run logs are those of its schedule.
TEST(ProtocolRuns, TheScheduleRuns) {
  const Scratch scratch;
  const TrainRequest request =
      small_run("tay2020", "listops", "linear", scratch.path(), {"schedule.warmup=2"});
  ASSERT_EQ(train(request), Status::ok);
  std::vector<double> rates;
  std::istringstream lines(read_file(request.run / kMetricsFile));
  for (std::string line; std::getline(lines, line);) {
    const json value = json::parse(line);
    if (value["split"] == "train") rates.push_back(value["learning_rate"]);
  }
  ASSERT_EQ(rates.size(), 3u);
  EXPECT_EQ(rates[0], 0);
  EXPECT_NEAR(rates[1], 0.05 * 0.5 / std::sqrt(2), 1e-15);
  EXPECT_NEAR(rates[2], 0.05 / std::sqrt(2), 1e-15);
}

// AdamW's first moment shows the gradients: after two steps with beta1 0.9 none of its values
// exceeds 0.19 of the limit.
TEST(ProtocolRuns, GradientValuesAreClipped) {
  const auto largest_moment = [](const std::string& clip) {
    const Scratch scratch;
    const TrainRequest request = small_run("lra-strict", "listops", "linear", scratch.path(),
                                           {"training.steps=2", "optimizer.clip_value=" + clip});
    EXPECT_EQ(train(request), Status::ok);
    double largest = 0;
    for (const auto& [name, tensor] : read_tensors(request.run / kLastCheckpoint).tensors) {
      if (name.starts_with("optimizer.exp_avg."))
        largest = std::max(largest, tensor.abs().max().item<double>());
    }
    return largest;
  };
  const double open = largest_moment("0"), clipped = largest_moment("1e-4");
  EXPECT_GT(open, 1e-3);
  EXPECT_LE(clipped, 0.19 * 1e-4 * (1 + 1e-5));
  EXPECT_GT(clipped, 0);
}

// Dev is evaluated at steps 1, 2 and 3.
TEST(ProtocolRuns, TheTestedCheckpointIsOfTheStepsThatMayChoose) {
  const auto best_step = [](const std::string& after) {
    const Scratch scratch;
    // At this rate no step changes a prediction, so that the first that may choose does.
    const TrainRequest request =
        small_run("lra-strict", "listops", "linear", scratch.path(),
                  {"optimizer.lr=1e-30", "evaluation.select_after=" + after});
    EXPECT_EQ(train(request), Status::ok);
    return read_json(request.run / kResultFile)["best_step"].get<int64_t>();
  };
  EXPECT_EQ(best_step("0"), 1);
  EXPECT_EQ(best_step("0.3"), 1);
  EXPECT_EQ(best_step("0.34"), 2);
  EXPECT_EQ(best_step("1"), 3);
}

}  // namespace
}  // namespace lra
