#include "lra/config/protocol.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "attention_variants/base/files.h"
#include "embedded_earlier.h"
#include "lra/config/budget.h"
#include "tests/support/scratch.h"

namespace lra {
namespace {

Config strict_listops(const std::vector<std::string>& sets = {},
                      const std::string& attention = "nystrom") {
  return make_config(load_protocol("lra-strict"), "listops", parse_attention(attention), sets, 0,
                     "float32");
}

// Xiong et al. 2021 and its released code, as written in the paper's table of settings.
TEST(ProtocolTest, StrictHasTheSizesOfTheRecipe) {
  const Settings s = strict_listops().settings;
  EXPECT_EQ(s.model.layers, 2);
  EXPECT_EQ(s.model.width, 64);
  EXPECT_EQ(s.model.heads, 2);
  EXPECT_EQ(s.model.head_dim, 32);
  EXPECT_EQ(s.model.feed_forward, 128);
  EXPECT_EQ(s.optimizer.lr, 1e-4);
  EXPECT_EQ(s.optimizer.eps, 1e-6);
  EXPECT_EQ(s.training.steps, 5000);
  EXPECT_EQ(s.training.batch, 32);
  EXPECT_EQ(s.training.evaluate_every, 50);
  EXPECT_EQ(s.schedule.warmup, 1000);
  EXPECT_EQ(s.input.length, 2048);
  EXPECT_EQ(s.model.mean_over, MeanOver::real);
}

TEST(ProtocolTest, TheReleasedRecipeDiffersInItsQuirksAlone) {
  const auto shown = [](const char* name) {
    return make_config(load_protocol(name), "listops", parse_attention("nystrom"), {}, 0, "float32")
        .to_json();
  };
  std::vector<std::string> keys;
  for (const std::string& line : differences(shown("lra-strict"), shown("nystromformer2021"))) {
    keys.push_back(line.substr(0, line.find(':')));
  }
  EXPECT_EQ(keys, (std::vector<std::string>{"attention.options.init", "attention.options.padding",
                                            "protocol", "input.mask", "model.mean_over",
                                            "model.attention_dtype", "schedule.beta1_low",
                                            "schedule.beta1_high", "evaluation.drop_last"}));
}

// Its tasks: length, batch, warm-up, steps, evaluate every, evaluation batch.
TEST(ProtocolTest, EveryTaskHasTheRecipesSchedule) {
  struct Row {
    const char* task;
    int64_t length, batch, warmup, steps, every, evaluation_batch;
  };
  for (const char* name : {"lra-strict", "nystromformer2021"}) {
    for (const Row& row :
         {Row{"listops", 2048, 32, 1000, 5000, 50, 32}, Row{"text", 4096, 32, 8000, 20000, 500, 32},
          Row{"retrieval", 4096, 32, 800, 30000, 300, 32},
          Row{"image", 1024, 256, 175, 35000, 175, 256}}) {
      const Settings s = task_settings(load_protocol(name), row.task);
      EXPECT_EQ(s.input.length, row.length) << row.task;
      EXPECT_EQ(s.training.batch, row.batch) << row.task;
      EXPECT_EQ(s.schedule.warmup, row.warmup) << row.task;
      EXPECT_EQ(s.training.steps, row.steps) << row.task;
      EXPECT_EQ(s.training.evaluate_every, row.every) << row.task;
      EXPECT_EQ(s.evaluation.batch, row.evaluation_batch) << row.task;
      const bool released = std::string(name) == "nystromformer2021";
      EXPECT_EQ(s.input.mask, released ? InputMask::nonzero : InputMask::length);
      EXPECT_EQ(s.evaluation.dev,
                released && std::string(row.task) == "text" ? DevSplit::test : DevSplit::dev);
    }
  }
}

TEST(ProtocolTest, EveryBuiltInProtocolAndBudgetReadsStrictly) {
  ASSERT_GE(protocol_names().size(), 2u);
  for (const std::string& name : protocol_names()) EXPECT_EQ(load_protocol(name).name, name);
  ASSERT_GE(budget_names().size(), 3u);
  for (const std::string& name : budget_names()) EXPECT_EQ(load_budget(name).name, name);
}

TEST(ProtocolTest, OverridesGoOverTheProtocolAndAreNoted) {
  const Config config = strict_listops({"training.steps=2000", "optimizer.lr=0.002"});
  EXPECT_EQ(config.settings.training.steps, 2000);
  EXPECT_EQ(config.settings.optimizer.lr, 0.002);
  EXPECT_EQ(config.overridden, (std::vector<std::string>{"optimizer.lr", "training.steps"}));
  EXPECT_EQ(config.settings.training.batch, 32) << "the rest stands";
}

TEST(ProtocolTest, AnOverrideOfAGroupIsOfItsKeysAlone) {
  const auto of = [](const std::vector<std::string>& sets) {
    return make_config(load_protocol("tay2020"), "listops", parse_attention("standard"), sets, 0,
                       "float32");
  };
  const Config config = of({R"(schedule={"warmup":7})", R"(model={"layers":1})"});
  EXPECT_EQ(config.settings.schedule.warmup, 7);
  EXPECT_EQ(config.settings.schedule.kind, ScheduleKind::rsqrt) << "not the default of no protocol";
  EXPECT_EQ(config.settings.model.width, 512);
  EXPECT_EQ(config.overridden, (std::vector<std::string>{"model.layers", "schedule.warmup"}));
  EXPECT_EQ(config.to_json(), of({"model.layers=1", "schedule.warmup=7"}).to_json());
}

TEST(ProtocolTest, WhatTheProtocolSaysItselfIsNoOverride) {
  EXPECT_EQ(strict_listops({"model.layers=2", "training.batch=32"}).to_json(),
            strict_listops().to_json());
}

TEST(ProtocolTest, TheOrderOfOverridesIsNoPartOfARun) {
  json before = strict_listops({"training.batch=8", "model.layers=1"}).to_json();
  before["overridden"] = {"training.batch", "model.layers", "model.layers"};  // as once written
  EXPECT_EQ(config_identity(before),
            config_identity(strict_listops({"model.layers=1", "training.batch=8"}).to_json()));
}

TEST(BudgetTest, RefusesAProfileThatCannotBeMeasured) {
  const Scratch scratch;
  const std::string path = (scratch.path() / "b.json").string();
  const auto refusal = [&](const json& profile) {
    write_json(path, {{"schema", "lra.budget/1"}, {"name", "b"}, {"profile", profile}});
    return error_text<UsageError>([&] { load_budget(path); });
  };
  EXPECT_EQ(refusal({{"scope", "core"}, {"lengths", "64,128"}}), "(no error)");
  EXPECT_NE(refusal({{"scope", "modul"}}).find("scope should be one of core, module"),
            std::string::npos);
  EXPECT_NE(refusal({{"mode", "train"}}).find("inference, training"), std::string::npos);
  EXPECT_NE(refusal({{"preset", "tabel1"}}).find("did you mean 'table1'"), std::string::npos);
  for (const char* lengths : {"64,abc", "0", "", "64,,128", "1.5", "64,64"})
    EXPECT_NE(refusal({{"lengths", lengths}}).find("profile.lengths"), std::string::npos)
        << lengths;
  const ProfileBudget profile{.lengths = "512,1024"};
  EXPECT_EQ(profile.length_list("b"), (std::vector<int64_t>{512, 1024}));
}

TEST(ProtocolTest, OptionsInBracketsGoOverTheProtocols) {
  const json options = strict_listops({}, "nystrom[num_landmarks=32]").attention_options;
  EXPECT_EQ(options["num_landmarks"], 32);
  EXPECT_EQ(options["conv_kernel_size"], 35);
}

TEST(ProtocolTest, AConfigurationReadsBackAsItWasWritten) {
  const Config config = strict_listops({"training.steps=2000"}, "nystrom[num_landmarks=32]");
  const Config again = Config::from_json(json::parse(config.to_json().dump()), "config.json");
  EXPECT_EQ(again.to_json(), config.to_json());
}

// Runs from before a setting go on: what they did is no part of a configuration's identity.
TEST(ProtocolTest, WhatRunsDidBeforeASettingLeavesTheirIdentity) {
  json earlier;
  for (const auto& [stem, text] : embedded_earlier) {
    if (stem == "settings") earlier = json::parse(text);
  }
  EXPECT_GE(earlier.size(), 12u);
  json config = strict_listops().to_json();
  for (const auto& [path, before] : earlier.items()) {
    ASSERT_TRUE(config.contains(dotted_pointer(path))) << path;
    EXPECT_STREQ(config.at(dotted_pointer(path)).type_name(), before.type_name()) << path;
    config[dotted_pointer(path)] = before;
  }
  const json identity = config_identity(config);
  for (const auto& [path, before] : earlier.items())
    EXPECT_FALSE(identity.contains(dotted_pointer(path))) << path;
  EXPECT_TRUE(identity.contains(dotted_pointer("model.width")));
}

TEST(ProtocolTest, RefusesWhatItDoesNotKnow) {
  const auto set = [](const std::string& text) {
    return error_text([&] { strict_listops({text}); });
  };
  EXPECT_EQ(set("training.step=5").substr(0, 61),
            "unknown key 'step' in --set training; did you mean 'steps'? V");
  EXPECT_EQ(set("training.steps"),
            "--set should be key=value, as training.batch=16, not 'training.steps'");
  EXPECT_EQ(set("training.steps.x=1"),
            "--set training.steps.x: training.steps is a value, not a group");
  EXPECT_EQ(set("training.steps=0"), "--set training: steps should be at least 1, not 0");
  EXPECT_EQ(set("training.steps=1.5"),
            "--set training: steps should be an integer, at least 1, not 1.5");
  EXPECT_EQ(set("input.mask=all"),
            "--set input: mask should be one of length, nonzero, none, not \"all\"");
  EXPECT_EQ(set("evaluation.drop_last=1"),
            "--set evaluation: drop_last should be true or false, not 1");
}

TEST(ProtocolTest, ASettingIsReadByItself) {
  const auto refused = [](const std::string& text) {
    return error_text([&] { check_setting(text, "--grid"); });
  };
  EXPECT_EQ(refused("optimizer.lr=3e-4"), "(no error)");
  EXPECT_EQ(refused("optimizer.lrr=1").substr(0, 56),
            "unknown key 'lrr' in --grid optimizer; did you mean 'lr'");
  EXPECT_EQ(refused("optimizer.lr=-1"), "--grid optimizer: lr should be more than 0, not -1");
  EXPECT_EQ(refused("optimizer.lr"),
            "--grid should be key=value, as training.batch=16, not 'optimizer.lr'");
  EXPECT_EQ(refused("schedule.warmup=100000"), "(no error)") << "whatever the steps are";
}

// Under the name that the protocol knows it by, whichever is given.
TEST(ProtocolTest, SettingsOfAVariantStandInItsEntryAndLoadAgain) {
  const Scratch scratch;
  const Protocol before = load_protocol("tay2020");
  const auto config = [](const Protocol& protocol, const char* task, const char* attention) {
    return make_config(protocol, task, parse_attention(attention), {}, 0, "float32");
  };
  for (const char* given : {"local", "local_tay2020"}) {
    Protocol changed =
        with_settings(before, "image", given, {"optimizer.lr=0.02", "training.batch=7"});
    changed.name = "mine";
    const std::string file = (scratch.path() / (std::string(given) + ".json")).string();
    write_json(file, protocol_json(changed));
    const Protocol after = load_protocol(file);
    EXPECT_EQ(plain_name(given), "local");
    const Settings settings = config(after, "image", "local").settings;
    EXPECT_EQ(settings.optimizer.lr, 0.02);
    EXPECT_EQ(settings.training.batch, 7);
    EXPECT_EQ(settings.model.layers, config(before, "image", "local").settings.model.layers)
        << "what the entry had stays";
    for (const char* other : {"standard", "sparse"}) {
      EXPECT_EQ(write_fields(config(after, "image", other).settings),
                write_fields(config(before, "image", other).settings))
          << other;
    }
    EXPECT_EQ(write_fields(config(after, "text", "local").settings),
              write_fields(config(before, "text", "local").settings));
  }
  EXPECT_EQ(error_text([&] { with_settings(before, "imag", "local", {}); }).substr(0, 57),
            "unknown task 'imag' in protocol tay2020; did you mean 'im");
}

TEST(ProtocolTest, ATaskOfOtherProtocolsIsSaidToBeTheirs) {
  const auto refused = [](const char* protocol, const char* task_name) {
    return error_text([&] { task_settings(load_protocol(protocol), task_name); });
  };
  EXPECT_EQ(refused("lra-strict", "mqar"),
            "unknown task 'mqar' in protocol lra-strict; valid: listops, text, retrieval, image, "
            "pathfinder, pathx; protocol recall has it: --protocol recall");
  EXPECT_TRUE(refused("recall", "text").ends_with("tay2020 have it: --protocol NAME"))
      << refused("recall", "text");
  EXPECT_EQ(refused("lra-strict", "x").find("--protocol"), std::string::npos);
}

// So do options of variants that came later, at what runs did before them.
TEST(ProtocolTest, WhatRunsDidBeforeAnOptionLeavesTheirIdentity) {
  json earlier;
  for (const auto& [stem, text] : embedded_earlier) {
    if (stem == "options") earlier = json::parse(text);
  }
  EXPECT_GE(earlier.size(), 8u);
  for (const auto& [variant, options] : earlier.items()) {
    const json config = strict_listops({}, variant).to_json(),
               identity = config_identity(config)["attention"]["options"];
    for (const auto& [option, before] : options.items()) {
      ASSERT_TRUE(config["attention"]["options"].contains(option)) << variant << " " << option;
      EXPECT_EQ(config["attention"]["options"][option], before) << variant << " " << option;
      EXPECT_FALSE(identity.contains(option)) << variant << " " << option;
    }
  }
  const json other = config_identity(strict_listops({}, "linformer[dropout=0.5]").to_json());
  EXPECT_EQ(other["attention"]["options"]["dropout"], 0.5);
}

class ProtocolFileTest : public testing::Test {
 protected:
  std::string error(const std::string& text) {
    const std::string path = (scratch_.path() / "p.json").string();
    std::ofstream(path) << text;
    return error_text([&] { load_protocol(path); });
  }
  Scratch scratch_;
};

TEST_F(ProtocolFileTest, AUsersFileExtendsABuiltInOne) {
  const std::string path = (scratch_.path() / "mine.json").string();
  std::ofstream(path) << R"({"schema": "lra.protocol/1", "name": "mine", "extends": "lra-strict",
    "tasks": {"listops": {"training": {"steps": 77}, "schedule": {"warmup": 7}}}})";
  const Config config =
      make_config(load_protocol(path), "listops", parse_attention("standard"), {}, 0, "float32");
  EXPECT_EQ(config.protocol, "mine");
  EXPECT_EQ(config.settings.training.steps, 77);
  EXPECT_EQ(config.settings.training.batch, 32);
}

TEST_F(ProtocolFileTest, ItsSettingsGoOverWhatItExtendsSetsByTask) {
  const std::string path = (scratch_.path() / "mine.json").string();
  std::ofstream(path) << R"({"schema": "lra.protocol/1", "name": "mine", "extends": "lra-strict",
    "settings": {"training": {"steps": 77}, "schedule": {"warmup": 7}},
    "tasks": {"text": {"training": {"steps": 88}}}})";
  const auto config = [&](const char* task_name) {
    return make_config(load_protocol(path), task_name, parse_attention("standard"), {}, 0,
                       "float32");
  };
  EXPECT_EQ(config("listops").settings.training.steps, 77);
  EXPECT_EQ(config("listops").settings.training.batch, 32) << "of the task";
  EXPECT_EQ(config("listops").settings.schedule.warmup, 7);
  EXPECT_EQ(config("text").settings.training.steps, 88) << "its own by task goes over both";
}

TEST_F(ProtocolFileTest, AnEmptyPretrainingIsNone) {
  const std::string path = (scratch_.path() / "mine.json").string();
  const auto pretraining = [&](const json& own) {
    json file = {{"schema", "lra.protocol/1"}, {"name", "mine"}, {"extends", "amos-2023"}};
    file.update(own);
    std::ofstream(path) << file.dump();
    return make_config(load_protocol(path), "listops", parse_attention("standard"), {}, 0,
                       "float32")
        .settings.pretraining;
  };
  const json none = {{"pretraining", json::object()}};
  EXPECT_FALSE(pretraining(json::object()).empty());
  EXPECT_TRUE(pretraining({{"settings", none}}).empty());
  EXPECT_TRUE(pretraining({{"tasks", {{"listops", none}}}}).empty());
}

TEST_F(ProtocolFileTest, EveryMistakeIsNamed) {
  EXPECT_NE(error(R"({"schema": "lra.protocol/1", "name": "x", "setings": {}})")
                .find("did you mean 'settings'?"),
            std::string::npos);
  EXPECT_NE(error(R"({"schema": "lra.protocol/2", "name": "x"})")
                .find("schema should be one of lra.protocol/1"),
            std::string::npos);
  EXPECT_NE(error(R"({"name": "x"})").find("should hold \"schema\""), std::string::npos);
  EXPECT_NE(
      error(R"({"schema": "lra.protocol/1", "name": "x", "settings": {"model": {"widht": 64}}})")
          .find("did you mean 'width'?"),
      std::string::npos);
  EXPECT_NE(error(R"({"schema": "lra.protocol/1", "name": "x", "tasks": {"listop": {}}})")
                .find("unknown task 'listop'"),
            std::string::npos);
  EXPECT_NE(
      error(
          R"({"schema": "lra.protocol/1", "name": "x", "attentions": {"nystrom": {"landmarks": 3}}})")
          .find("landmarks should be"),
      std::string::npos);
  EXPECT_NE(error(R"({"schema": "lra.protocol/1", "name": "x", "extends": "y"})")
                .find("unknown protocol 'y'"),
            std::string::npos);
  EXPECT_NE(error("{\n  \"schema\": oops\n}").find("line 2"), std::string::npos)
      << error("{\n  \"schema\": oops\n}");
  EXPECT_NE(error_text([] { load_protocol("/no/such.json"); }).find("/no/such.json does not exist"),
            std::string::npos);
}

// Of its own settings those of a run before are the same where nothing else is said.
TEST_F(ProtocolFileTest, ARunBeforeHasTheSettingsThatDiffer) {
  const std::string path = (scratch_.path() / "two.json").string();
  std::ofstream(path) << R"({"schema": "lra.protocol/1", "name": "two", "extends": "lra-strict",
    "settings": {"pretraining": {"optimizer": {"lr": 0.01}, "training": {"steps": 3000}}},
    "tasks": {"listops": {"pretraining": {"training": {"steps": 2000}}}}})";
  const auto config = [&](const std::vector<std::string>& sets) {
    return make_config(load_protocol(path), "listops", parse_attention("standard"), sets, 0,
                       "float32");
  };
  const Config second = config({"model.layers=1", "pretraining.training.batch=8"});
  EXPECT_EQ(second.settings.optimizer.lr, 1e-4);
  EXPECT_EQ(second.settings.training.objective, Objective::classify);
  EXPECT_EQ(second.overridden,
            (std::vector<std::string>{"model.layers", "pretraining.training.batch"}));
  EXPECT_TRUE(config({"pretraining={}"}).settings.pretraining.empty()) << "from scratch";
  const Config first = pretraining_config(second);
  EXPECT_EQ(first.settings.optimizer.lr, 0.01);
  EXPECT_EQ(first.settings.training.steps, 2000);
  EXPECT_EQ(first.settings.training.batch, 8);
  EXPECT_EQ(first.settings.training.objective, Objective::masked);
  EXPECT_EQ(first.settings.training.masked_share, 0.1);
  EXPECT_EQ(first.settings.model.layers, 1);
  EXPECT_TRUE(first.settings.pretraining.empty());
  EXPECT_EQ(first.overridden,
            (std::vector<std::string>{"model.layers", "optimizer.lr", "training.batch",
                                      "training.objective", "training.steps"}));
  // Another first run is another run.
  EXPECT_NE(config_identity(config({}).to_json()),
            config_identity(config({"pretraining.training.steps=2500"}).to_json()));
  const auto refusal = [&](const std::string& set) { return error_text([&] { config({set}); }); };
  EXPECT_NE(refusal("pretraining.training.step=5").find("did you mean 'steps'?"),
            std::string::npos);
  EXPECT_NE(refusal("pretraining.training.steps=500")
                .find("pretraining: schedule.warmup (1000) should be less than training.steps"),
            std::string::npos);
  EXPECT_NE(refusal("pretraining.training.objective=classify")
                .find("training.objective should be masked or causal"),
            std::string::npos);
  EXPECT_NE(refusal("training.objective=masked").find("protocol two pretrains by itself"),
            std::string::npos);
  EXPECT_NE(refusal("pretraining=5").find("pretraining should be a JSON object"),
            std::string::npos);
  EXPECT_NE(error(R"({"schema": "lra.protocol/1", "name": "x",
                      "settings": {"pretraining": {"modell": {}}}})")
                .find("did you mean 'model'?"),
            std::string::npos);
}

TEST(ProtocolTest, WhatAProtocolGivesOthersMakesNoOtherRun) {
  const json config = strict_listops().to_json();
  json other = config;
  other["by_attention"] = {"optimizer.weight_decay"};
  EXPECT_EQ(config_differences(config, other), "");
  other["optimizer"]["weight_decay"] = 0.5;
  EXPECT_NE(config_differences(config, other).find("optimizer.weight_decay"), std::string::npos);
}

// The advice where a recording fails is to go on with single operators.
TEST(ProtocolTest, HowStepsAreLaunchedMakesNoOtherRun) {
  const Config config = strict_listops({"execution=eager"});
  EXPECT_EQ(config_differences(config.to_json(), strict_listops().to_json()), "");
  EXPECT_EQ(config.to_json().at("execution"), "eager");
}

// Runs that are older than a setting are what its first value makes.
TEST(ProtocolTest, ADifferenceFromTheFirstValueOfALaterSettingHasBoth) {
  const json config = strict_listops().to_json();
  json other = config;
  other["kernels"] = "reference";
  EXPECT_NE(config_differences(config, other).find("kernels: \"fused\" -> \"reference\""),
            std::string::npos)
      << config_differences(config, other);
  const json first = other;
  other.erase("kernels");
  EXPECT_EQ(config_differences(first, other), "");
}

// What a run started from is part of what it is by the weights' digest alone.
TEST(ProtocolTest, TheOriginOfARunIsOfItsIdentityByItsDigest) {
  Config config = strict_listops();
  const json alone = config_identity(config.to_json());
  EXPECT_FALSE(alone.contains("pretrained"));
  config.pretrained = {{"path", "runs/a"}, {"sha256", "12ab"}, {"seconds", 5.0}};
  const json here = config_identity(config.to_json());
  EXPECT_EQ(here.at("pretrained"), "12ab");
  EXPECT_EQ(config_identity(here), here);
  EXPECT_EQ(Config::from_json(config.to_json(), "a file").pretrained, config.pretrained);
  config.pretrained["path"] = "runs/moved";
  EXPECT_EQ(config_identity(config.to_json()), here);
  config.pretrained["sha256"] = "34cd";
  EXPECT_NE(config_identity(config.to_json()), here);
}

// Wherever the command is given, and whatever file of that name lies there.
TEST_F(ProtocolFileTest, AFileExtendsAnotherFromItsOwnFolder) {
  const auto write = [&](const std::string& name, const std::string& extends, double rate) {
    std::filesystem::create_directories((scratch_.path() / name).parent_path());
    write_json(scratch_.path() / name, {{"schema", "lra.protocol/1"},
                                        {"name", "mine"},
                                        {"extends", extends},
                                        {"settings", {{"optimizer", {{"lr", rate}}}}}});
  };
  write("a/base.json", "lra-strict", 0.5);
  write("a/b/mine.json", "../base.json", 0.25);
  write("a/b/same.json", "mine.json", 0.125);
  const auto loaded = [&](const char* name) {
    return load_protocol((scratch_.path() / name).string());
  };
  EXPECT_EQ(task_settings(loaded("a/b/same.json"), "listops").optimizer.lr, 0.125);
  const std::string gone =
      error(R"({"schema": "lra.protocol/1", "name": "x", "extends": "base.json"})");
  const std::string path = scratch_.path().string();
  EXPECT_TRUE(gone.starts_with("protocol file " + path + "/p.json: extends: protocol file " + path +
                               "/base.json does not exist"))
      << gone;
}

// tay2020 runs local_tay2020 where local is named.
TEST_F(ProtocolFileTest, OptionsOfANameThatMeansAnotherAreRefused) {
  const std::string text = error(R"({"schema": "lra.protocol/1", "name": "x", "extends": "tay2020",
    "attentions": {"local": {"block": 7}}})");
  EXPECT_NE(text.find("attentions.local is read by nothing, as the protocol means local_tay2020 by "
                      "that name"),
            std::string::npos)
      << text;
}

TEST_F(ProtocolFileTest, AProtocolThatExtendsItselfIsRefused) {
  const std::string path = (scratch_.path() / "p.json").string();
  EXPECT_NE(error(R"({"schema": "lra.protocol/1", "name": "x", "extends": ")" + path + "\"}")
                .find("extends itself"),
            std::string::npos);
}

}  // namespace
}  // namespace lra
