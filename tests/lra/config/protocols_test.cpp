// The values of tay2020 and skyformer2021 against their tables, and entries for single variants.
#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "attention_variants/base/files.h"
#include "lra/config/protocol.h"
#include "tests/support/scratch.h"

namespace lra {
namespace {

Config tay(const std::string& task, const std::string& attention,
           const std::vector<std::string>& sets = {}) {
  return make_config(load_protocol("tay2020"), task, parse_attention(attention), sets, 0,
                     "float32");
}

// layers, heads, width, all heads' width, feed-forward, dropout, pooling
struct Sizes {
  int64_t layers, heads, width, qkv, feed_forward;
  double dropout;
  std::string pooling;
  bool operator==(const Sizes&) const = default;
  friend void PrintTo(const Sizes& s, std::ostream* out) {
    *out << s.layers << "/" << s.heads << "/" << s.width << "/" << s.qkv << "/" << s.feed_forward
         << " (" << s.dropout << ") " << s.pooling;
  }
};

Sizes sizes_of(const Config& config) {
  const ModelOptions& m = config.settings.model;
  EXPECT_EQ(m.classifier, m.feed_forward);
  return {m.layers,
          m.heads,
          m.width,
          m.heads * m.head_dim,
          m.feed_forward,
          m.dropout,
          to_string(m.pooling)};
}

TEST(Tay2020Test, TextTasksHaveOneSizeForAllVariants) {
  const std::pair<const char*, Sizes> rows[] = {{"listops", {4, 8, 512, 512, 1024, .1, "cls"}},
                                                {"text", {4, 4, 256, 256, 1024, .1, "cls"}},
                                                {"retrieval", {4, 4, 128, 128, 512, .1, "first"}}};
  for (const auto& [task, sizes] : rows) {
    for (const char* attention : {"standard", "linformer", "performer", "reformer", "nystrom"}) {
      EXPECT_EQ(sizes_of(tay(task, attention)), sizes) << task << " " << attention;
    }
  }
}

TEST(Tay2020Test, ImagesHaveSizesByVariant) {
  const Sizes common = {1, 8, 128, 64, 128, .3, "cls"};
  const std::pair<const char*, Sizes> image[] = {{"standard", common},
                                                 {"linformer", common},
                                                 {"performer", common},
                                                 {"reformer", {4, 8, 64, 64, 64, .3, "cls"}},
                                                 {"linear", common},
                                                 {"longformer", {4, 4, 128, 64, 128, .3, "mean"}},
                                                 {"local", {1, 2, 128, 64, 128, .3, "mean"}},
                                                 {"sparse", common},
                                                 {"bigbird", {1, 4, 128, 64, 128, .3, "cls"}},
                                                 {"sinkhorn", {1, 1, 32, 32, 64, .1, "mean"}},
                                                 {"synthesizer", common}};
  for (const auto& [attention, sizes] : image)
    EXPECT_EQ(sizes_of(tay("image", attention)), sizes) << attention;

  const std::pair<const char*, Sizes> pathfinder[] = {
      {"standard", {4, 4, 32, 16, 32, .2, "mean"}},
      {"linformer", {1, 2, 32, 16, 32, .2, "mean"}},
      {"performer", {4, 8, 32, 16, 32, .2, "mean"}},
      {"reformer", {2, 8, 64, 64, 64, .2, "mean"}},
      {"linear", {1, 2, 128, 64, 128, .2, "mean"}},
      {"longformer", {2, 2, 32, 16, 32, .1, "mean"}},
      {"local", {2, 4, 64, 32, 64, .1, "mean"}},
      {"sparse", {1, 8, 32, 16, 32, .2, "mean"}},
      {"bigbird", {4, 2, 64, 32, 64, .2, "mean"}},
      {"sinkhorn", {2, 4, 32, 16, 64, .2, "mean"}},
      {"synthesizer", {2, 4, 64, 32, 64, .2, "mean"}}};
  for (const auto& [attention, sizes] : pathfinder)
    EXPECT_EQ(sizes_of(tay("pathfinder", attention)), sizes) << attention;
}

TEST(Tay2020Test, TrainsAsTheConfigurationFilesSay) {
  struct Row {
    const char *task, *kind, *positions;
    int64_t length, batch, warmup, steps;
    double lr, weight_decay;
  };
  for (const Row& row :
       {Row{"listops", "rsqrt", "sinusoidal", 2000, 32, 1000, 5000, .05, .1},
        Row{"text", "rsqrt", "sinusoidal", 1000, 32, 8000, 20000, .05, .1},
        Row{"retrieval", "rsqrt", "sinusoidal", 4000, 32, 8000, 5000, .05, .1},
        Row{"image", "cosine", "learned", 1024, 256, 175, 35000, 5e-4, 0},
        Row{"pathfinder", "cosine", "sinusoidal", 1024, 512, 312, 62400, 1e-3, 0}}) {
    const Settings s = tay(row.task, "standard").settings;
    EXPECT_EQ(to_string(s.schedule.kind), row.kind) << row.task;
    EXPECT_EQ(to_string(s.model.positions), row.positions) << row.task;
    EXPECT_EQ(s.input.length, row.length) << row.task;
    EXPECT_EQ(s.training.batch, row.batch) << row.task;
    EXPECT_EQ(s.schedule.warmup, row.warmup) << row.task;
    EXPECT_EQ(s.training.steps, row.steps) << row.task;
    EXPECT_EQ(s.optimizer.lr, row.lr) << row.task;
    EXPECT_EQ(s.optimizer.weight_decay, row.weight_decay) << row.task;
    EXPECT_EQ(s.optimizer.beta1, .9);
    EXPECT_EQ(s.optimizer.beta2, .98);
    EXPECT_EQ(s.optimizer.eps, 1e-9);
  }
  EXPECT_EQ(tay("text", "standard").settings.evaluation.dev, DevSplit::test);
  EXPECT_EQ(tay("image", "sinkhorn").settings.optimizer.weight_decay, .7);
}

TEST(Tay2020Test, OptionsAreThoseOfTaskAndVariant) {
  const auto option = [](const char* task, const char* attention, const char* name) {
    return tay(task, attention).attention_options[name];
  };
  EXPECT_EQ(option("listops", "linformer", "projected_length"), 16);
  EXPECT_EQ(option("text", "linformer", "projected_length"), 16);
  EXPECT_EQ(option("listops", "performer", "num_features"), 2);
  EXPECT_EQ(option("listops", "performer", "epsilon"), 1e-6);
  EXPECT_EQ(option("text", "local", "block"), 50);
  for (const char* attention : {"linformer", "local", "longformer", "sparse", "sinkhorn"}) {
    EXPECT_EQ(option("text", attention, "dropout"), .1) << attention;
    EXPECT_EQ(option("image", attention, "dropout"), .2) << attention;
  }
  EXPECT_EQ(option("image", "sparse", "cls"), "open");
  EXPECT_EQ(option("pathfinder", "sparse", "cls"), "token");
  for (const char* attention : {"local", "bigbird", "sinkhorn"}) {
    EXPECT_EQ(option("image", attention, "block"), 64) << attention;
    EXPECT_EQ(option("pathfinder", attention, "block"), 64) << attention;
  }
  EXPECT_EQ(option("image", "sparse", "causal"), true);
  EXPECT_EQ(option("image", "standard", "dropout"), .2);
  EXPECT_EQ(tay("text", "linformer[projected_length=8]").attention_options["projected_length"], 8)
      << "brackets go over all";
  EXPECT_EQ(tay("image", "reformer", {"model.layers=1"}).settings.model.layers, 1) << "so does set";
}

TEST(Tay2020Test, NamesMeanWhatTheReleaseComputesByThem) {
  for (const char* task : {"listops", "text", "retrieval", "image", "pathfinder", "pathx"}) {
    for (const char* attention : {"local", "sinkhorn", "synthesizer", "reformer"})
      EXPECT_EQ(tay(task, attention).attention.name, std::string(attention) + "_tay2020") << task;
    EXPECT_EQ(tay(task, "performer").attention.name,
              task == std::string("listops") ? "performer" : "performer_tay2020");
    EXPECT_EQ(tay(task, "standard").attention.name, "standard");
    for (const char* attention : {"linformer", "linear", "performer", "reformer"})
      EXPECT_EQ(tay(task, attention).settings.input.mask, InputMask::none) << attention;
    for (const char* attention : {"standard", "local", "bigbird"})
      EXPECT_EQ(tay(task, attention).settings.input.mask, InputMask::nonzero) << attention;
  }
  const Config asked = tay("image", "local_tay2020");
  EXPECT_EQ(asked.attention.name, "local_tay2020");
  EXPECT_EQ(asked.settings.model.width, 128) << "with the settings of the name it goes by there";
  EXPECT_EQ(asked.attention_options["block"], 64);
  EXPECT_EQ(make_config(load_protocol("lra-strict"), "image", {.name = "local"}, {}, 0, "float32")
                .attention.name,
            "local");
}

TEST(SkyformerTest, HasThePapersTable) {
  struct Row {
    const char* task;
    double lr;
    int64_t batch, warmup, length;
  };
  const Protocol protocol = load_protocol("skyformer2021");
  for (const Row& row :
       {Row{"text", 1e-4, 16, 80, 4096}, Row{"listops", 1e-4, 32, 1000, 2048},
        Row{"retrieval", 2e-4, 16, 800, 4096}, Row{"pathfinder", 2e-4, 128, 312, 1024},
        Row{"image", 1e-4, 256, 175, 1024}}) {
    const Settings s = task_settings(protocol, row.task);
    EXPECT_EQ(s.optimizer.lr, row.lr) << row.task;
    EXPECT_EQ(s.training.batch, row.batch) << row.task;
    EXPECT_EQ(s.schedule.warmup, row.warmup) << row.task;
    EXPECT_EQ(s.training.steps, 50000) << row.task;
    EXPECT_EQ(s.input.length, row.length) << row.task;
    EXPECT_EQ(s.optimizer.clip_value, 1) << row.task;
    EXPECT_EQ(s.evaluation.select_after, .2) << row.task;
    EXPECT_EQ(s.model.mean_over, MeanOver::length) << "what it extends stands";
  }
  const auto options = [&](const char* attention) {
    return make_config(protocol, "listops", parse_attention(attention), {}, 0, "float32")
        .attention_options;
  };
  EXPECT_EQ(options("nystrom")["num_landmarks"], 128);
  EXPECT_EQ(options("nystrom")["padding"], "zeroed");
  EXPECT_EQ(options("skyformer")["num_features"], 128);
}

// The files' sizes.
TEST(AmosTest, HasTheSizesOfTheFiles) {
  struct Row {
    const char* task;
    int64_t layers, width, heads, feed_forward;
  };
  const Protocol protocol = load_protocol("amos-2023");
  for (const Row& row : {Row{"listops", 6, 512, 8, 2048}, Row{"text", 6, 512, 8, 2048},
                         Row{"retrieval", 4, 128, 4, 512}, Row{"image", 3, 64, 4, 128},
                         Row{"pathfinder", 4, 128, 8, 128}, Row{"pathx", 4, 128, 4, 128}}) {
    const ModelOptions m = task_settings(protocol, row.task).model;
    EXPECT_EQ(m.layers, row.layers) << row.task;
    EXPECT_EQ(m.width, row.width) << row.task;
    EXPECT_EQ(m.heads, row.heads) << row.task;
    EXPECT_EQ(m.heads * m.head_dim, row.width) << row.task;
    EXPECT_EQ(m.feed_forward, row.feed_forward) << row.task;
    EXPECT_EQ(m.positions, Positions::rotary) << row.task;
    EXPECT_FALSE(m.causal) << row.task;
  }
}

// The files' epochs and warm-ups, and the paper's learning rates but for Path-X's.
TEST(AmosTest, HasTwoStagesOfEachTask) {
  struct Stage {
    double lr, weight_decay;
    int64_t warmup, batch, steps, evaluate_every;
    bool operator==(const Stage&) const = default;
  };
  struct Row {
    const char* task;
    double masked_share;
    Stage first, second;
  };
  const auto stage_of = [](const Settings& s) {
    const TrainingOptions& t = s.training;
    return Stage{s.optimizer.lr, s.optimizer.weight_decay, s.schedule.warmup, t.batch,
                 t.steps,        t.evaluate_every};
  };
  const Stage listops{1e-4, 0, 2000, 32, 300000, 3000}, text{1e-4, .1, 2000, 32, 50765, 781},
      retrieval{5e-4, 0, 5000, 32, 147072, 4596}, image{1e-3, 0, 2000, 50, 180000, 900},
      pathfinder{5e-4, 0, 5000, 32, 1000000, 5000};
  const Protocol protocol = load_protocol("amos-2023");
  for (const Row& row : {Row{"listops", .1, {1e-3, 0, 2000, 32, 300000, 3000}, listops},
                         Row{"text", .15, {5e-4, .1, 5000, 32, 24992, 781}, text},
                         Row{"retrieval", .15, {5e-3, 0, 2000, 32, 147072, 4596}, retrieval},
                         Row{"image", .5, {1e-3, 0, 2500, 32, 70300, 703}, image},
                         Row{"pathfinder", .5, {1e-3, 0, 2500, 32, 250000, 2500}, pathfinder},
                         Row{"pathx", .5, {5e-4, 0, 5000, 32, 1000000, 2500}, pathfinder}}) {
    const Config second =
        make_config(protocol, row.task, parse_attention("standard"), {}, 0, "float32");
    const Settings first = pretraining_config(second).settings;
    EXPECT_EQ(stage_of(second.settings), row.second) << row.task;
    EXPECT_EQ(stage_of(first), row.first) << row.task;
    EXPECT_EQ(first.training.objective, Objective::masked) << row.task;
    EXPECT_EQ(first.training.masked_share, row.masked_share) << row.task;
    EXPECT_EQ(first.schedule.kind, ScheduleKind::constant) << row.task;
    EXPECT_EQ(second.settings.schedule.kind, ScheduleKind::constant) << row.task;
  }
}

TEST(AmosTest, TheNextTokenIsAskedForByName) {
  const Config second =
      make_config(load_protocol("amos-2023"), "image", parse_attention("standard"),
                  {"pretraining.training.objective=causal"}, 0, "float32");
  const Config first = pretraining_config(second);
  EXPECT_EQ(first.settings.training.objective, Objective::causal);
  EXPECT_TRUE(first.settings.model.causal);
  EXPECT_FALSE(second.settings.model.causal) << "the task's model reads both ways";
  EXPECT_EQ(first.settings.training.steps, 70300) << "all else stays";
}

TEST(ProtocolsTest, AllDefineAllTasksAndSayWhatTheyChose) {
  std::map<std::string, std::vector<std::string>> of_regime;
  for (const std::string& name : protocol_names()) {
    const Protocol protocol = load_protocol(name);
    of_regime[protocol.regime].push_back(name);
    EXPECT_FALSE(protocol.choices.empty());
    if (name == "recall") continue;  // of tasks beside the benchmark's
    for (const char* task : {"listops", "text", "retrieval", "image", "pathfinder", "pathx"})
      EXPECT_TRUE(protocol.tasks.contains(task)) << name << " " << task;
  }
  EXPECT_EQ(of_regime[kFirstRegime],
            (std::vector<std::string>{"lra-2026", "lra-strict", "nystromformer2021",
                                      "skyformer2021", "tay2020"}));
  EXPECT_EQ(of_regime[kLaterRegime],
            (std::vector<std::string>{"amos-2023", "lru-2023", "mega-2022", "s4-2022", "s5-2023"}));
  EXPECT_EQ(of_regime[kRecallRegime], std::vector<std::string>{"recall"});
  EXPECT_EQ(of_regime.size(), std::size(kRegimes));
}

// Trap D20: where test stands in for dev, the last checkpoint is tested. The releases that choose
// on Text's test set do so by name, and their runs are marked (AccuracyTable).
TEST(TestChoosesTrap, OnlyTheReleasesThatDoSoChooseOnTest) {
  std::vector<std::string> choosing;
  for (const std::string& name : protocol_names()) {
    const Protocol protocol = load_protocol(name);
    for (const auto& [task, entry] : protocol.tasks.items()) {
      for (const AttentionEntry* variant : attention_entries()) {
        const EvaluationOptions evaluation =
            task_settings(protocol, task, variant->info.name).evaluation;
        if (evaluation.dev == DevSplit::test && evaluation.select_after < 1)
          choosing.push_back(name + " " + task + " " + variant->info.name);
      }
    }
  }
  std::vector<std::string> known;
  for (const char* name :
       {"amos-2023", "nystromformer2021", "s4-2022", "s5-2023", "skyformer2021"}) {
    for (const AttentionEntry* variant : attention_entries())
      known.push_back(std::string(name) + " text " + variant->info.name);
  }
  EXPECT_EQ(choosing, known);
}

// Two releases train in float16 with a loss scale.
TEST(ProtocolsTest, Float16IsLeftOutAndTheProtocolsSaySo) {
  for (const char* name : {"nystromformer2021", "skyformer2021"}) {
    const Protocol protocol = load_protocol(name);
    EXPECT_TRUE(std::ranges::any_of(protocol.choices, [](const std::string& choice) {
      return contains(choice, "float16 with loss scaling in the release");
    })) << name;
    const auto error = [&](const std::vector<std::string>& sets, const char* dtype) {
      return error_text(
          [&] { make_config(protocol, "image", parse_attention("standard"), sets, 0, dtype); });
    };
    EXPECT_EQ(error({}, "float16"), "--dtype should be float32 or bfloat16, not 'float16'");
    EXPECT_EQ(error({"training.dtype=float16"}, "float32"),
              "--set training: dtype should be one of any, float32, bfloat16, not \"float16\"");
    const json published =
        read_json(LRA_SOURCE_DIR "/results/published/" + std::string(name) + ".json");
    EXPECT_NE(published.dump().find("float16"), std::string::npos) << name;
  }
}

TEST(ProtocolsTest, AConfigurationNamesWhatDependsOnTheVariant) {
  const Config a = tay("image", "standard"), b = tay("image", "sinkhorn");
  EXPECT_EQ(a.by_attention, b.by_attention);
  for (const char* key : {"model.layers", "model.pooling", "optimizer.weight_decay"})
    EXPECT_EQ(std::ranges::count(a.by_attention, key), 1) << key;
  const std::vector<std::string> of_text = {"input.mask", "model.head", "model.pooling"};
  EXPECT_EQ(tay("text", "standard").by_attention, of_text);
  const Config again = Config::from_json(json::parse(b.to_json().dump()), "config.json");
  EXPECT_EQ(again.to_json(), b.to_json());
}

// A record of a run from before pooling, positions, schedules and the rest were settings.
TEST(ProtocolsTest, AnOldRunIsTheOneThatItsConfigurationMakesToday) {
  const json old = read_json(LRA_SOURCE_DIR "/tests/fixtures/result-before-pooling.json")["config"];
  ASSERT_FALSE(old["model"].contains("pooling"));
  const json today = Config::from_json(old, "result.json").to_json();
  EXPECT_EQ(today["model"]["pooling"], "mean");
  EXPECT_EQ(differences(config_identity(old), config_identity(today)), std::vector<std::string>{});
  json other = today;
  other["model"]["pooling"] = "cls";
  EXPECT_EQ(differences(config_identity(old), config_identity(other)),
            std::vector<std::string>{"model.pooling: null -> \"cls\""});
}

class VariantEntryTest : public testing::Test {
 protected:
  std::string error(const std::string& entry) {
    const std::string path = (scratch_.path() / "p.json").string();
    std::ofstream(path) << R"({"schema": "lra.protocol/1", "name": "x", "extends": "lra-strict",
      "tasks": {"image": {"attentions": )"
                        << entry << "}}}";
    return error_text([&] { load_protocol(path); });
  }
  Scratch scratch_;
};

TEST_F(VariantEntryTest, EveryMistakeIsNamed) {
  const std::string where = "tasks.image.attentions.";
  EXPECT_EQ(error(R"({"nystrom": {"settings": {"model": {"layers": 1}}}})"), "(no error)");
  EXPECT_NE(error(R"({"nystrm": {}})").find("did you mean 'nystrom'?"), std::string::npos);
  EXPECT_NE(error(R"({"nystrom": {"option": {}}})").find("did you mean 'options'?"),
            std::string::npos);
  EXPECT_NE(error(R"({"nystrom": {"settings": {"model": {"layer": 1}}}})")
                .find("unknown key 'layer' in "),
            std::string::npos);
  const std::string value = error(R"({"nystrom": {"settings": {"model": {"layers": 0}}}})");
  EXPECT_NE(value.find(where + "nystrom.settings.model: layers should be"), std::string::npos)
      << value;
  const std::string option = error(R"({"nystrom": {"options": {"num_landmark": 3}}})");
  EXPECT_NE(option.find("did you mean 'num_landmarks'?"), std::string::npos) << option;
  EXPECT_NE(option.find(where + "nystrom.options"), std::string::npos) << option;
  EXPECT_NE(error(R"({"nystrom": {"options": {"num_landmarks": 0}}})").find("num_landmarks should"),
            std::string::npos);
  EXPECT_NE(error("3").find("tasks.image.attentions should be a JSON object, not 3"),
            std::string::npos);
  EXPECT_NE(error(R"({}}}, "choices": ["a", 1], "settings": {"model": {)")
                .find(R"(choices should be a list of strings, not ["a",1])"),
            std::string::npos);
}

TEST(ProtocolsTest, WhatDoesNotGoTogetherIsRefused) {
  const auto refused = [](const std::vector<std::string>& sets) {
    return error_text([&] {
      make_config(load_protocol("lra-strict"), "listops", parse_attention("standard"), sets, 0,
                  "float32");
    });
  };
  EXPECT_EQ(refused({"schedule.kind=rsqrt", "schedule.warmup=0"}),
            "schedule.warmup should be at least 1 where schedule.kind is rsqrt, not 0");
  EXPECT_EQ(refused({"schedule.warmup=0"}),
            "schedule.warmup should be at least 1 where schedule.kind is one_cycle, not 0");
  EXPECT_EQ(refused({"training.steps=1000"}),
            "schedule.warmup (1000) should be less than training.steps (1000); set both, as --set "
            "training.steps=1000 --set schedule.warmup=200");
  EXPECT_EQ(refused({"training.steps=1000", "schedule.warmup=200"}), "(no error)");
  EXPECT_EQ(refused({"schedule.kind=rsqrt", "schedule.warmup=9000"}), "(no error)")
      << "a warm-up that never ends";
  EXPECT_EQ(refused({"schedule.kind=cosine", "schedule.beta1_high=0.95"}),
            "schedule.beta1_high needs schedule.kind one_cycle, not cosine; with cosine give "
            "schedule.beta1_high=0 and schedule.beta1_low=0");
  EXPECT_EQ(refused({"model.positions=sinusoidal", "model.width=63"}),
            "model.positions sinusoidal needs an even model.width, not 63");
  EXPECT_EQ(refused({"model.pooling=sum"}),
            "--set model: pooling should be one of mean, cls, first, last, max, not \"sum\"");
  EXPECT_EQ(refused({"evaluation.select_after=2"}),
            "--set evaluation: select_after should be from 0 to 1, not 2");
}

}  // namespace
}  // namespace lra
