// A protocol's entries for attentions, of those that are made from a file too.
#include <gtest/gtest.h>

#include <filesystem>

#include "attention_variants/base/files.h"
#include "lra/config/protocol.h"
#include "tests/support/scratch.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

const std::string kScript = LRA_SOURCE_DIR "/tests/fixtures/torchscript-linear.pt";

Settings with_lr(double lr) {
  Settings settings = task_settings(load_protocol("lra-strict"), "listops");
  settings.optimizer.lr = lr;
  return settings;
}

class ProtocolEntriesTest : public testing::Test {
 protected:
  // A protocol's file whose ListOps has these entries.
  std::string file(const json& entries) const {
    const std::string path = (scratch_.path() / "p.json").string();
    write_json(path, {{"schema", "lra.protocol/1"},
                      {"name", "mine"},
                      {"extends", "lra-strict"},
                      {"tasks", {{"listops", {{"attentions", entries}}}}}});
    return path;
  }
  static json lr(double value) { return {{"settings", {{"optimizer", {{"lr", value}}}}}}; }
  std::string refusal(const json& entries) const {
    return error_text([&] { load_protocol(file(entries)); });
  }

  Scratch scratch_;
};

TEST_F(ProtocolEntriesTest, KnowAnAttentionFromAFileByItsNameWithoutOptions) {
  const auto name = [](const char* text) { return entry_name(parse_attention(text)); };
  EXPECT_EQ(name("python:my.py:Softplus"), "python:my.py:Softplus");
  EXPECT_EQ(name("python:my.py:Softplus[beta=2,alpha=1]"), "python:my.py:Softplus");
  EXPECT_EQ(name("torchscript:a/my.pt"), "torchscript:a/my.pt");
  EXPECT_EQ(name("nystrom[num_landmarks=8]"), "nystrom");
  EXPECT_EQ(name("local_tay2020"), "local");
  EXPECT_EQ(error_text([&] { name("pythn:my.py:S"); }).substr(0, 25), "unknown attention 'pythn'");
}

// Without Python, and whether the files are there or not: a protocol is read before they are.
TEST_F(ProtocolEntriesTest, GiveItSettingsAndLoadAgain) {
  Protocol protocol =
      load_protocol(file({{"python:my.py:Softplus", lr(0.02)}, {"torchscript:my.pt", lr(0.03)}}));
  const auto expect_read = [](const Protocol& of) {
    const auto settings = [&](const char* attention) {
      return write_fields(task_settings(of, "listops", attention));
    };
    EXPECT_EQ(settings("python:my.py:Softplus"), write_fields(with_lr(0.02)));
    EXPECT_EQ(settings("python:./my.py:Softplus"), write_fields(with_lr(0.02))) << "the same file";
    EXPECT_EQ(settings(("python:" + fs::absolute("my.py").string() + ":Softplus").c_str()),
              write_fields(with_lr(0.02)));
    EXPECT_EQ(settings("python:my.py:Softplus[beta=2]"), write_fields(with_lr(0.02)));
    EXPECT_EQ(settings("torchscript:my.pt"), write_fields(with_lr(0.03)));
    for (const char* other : {"", "standard", "python:my.py:Other", "python:other.py:Softplus"})
      EXPECT_EQ(settings(other), write_fields(with_lr(1e-4))) << other;
  };
  expect_read(protocol);
  const std::string again = (scratch_.path() / "again.json").string();
  write_json(again, protocol_json(protocol));
  expect_read(load_protocol(again));
}

// Else a file that is named from another folder would train under the settings of no entry.
TEST_F(ProtocolEntriesTest, AFileOfTheSameNameElsewhereIsAskedAbout) {
  const json entry = lr(0.02);
  const auto asked = [&](const json& entries) {
    const Protocol protocol = load_protocol(file(entries));
    return error_text([&] { task_settings(protocol, "listops", "python:../my.py:Softplus"); });
  };
  EXPECT_EQ(asked({{"python:my.py:Softplus", entry}}),
            "protocol mine has an entry for python:my.py:Softplus on listops, and none for "
            "python:../my.py:Softplus, a file of the same name elsewhere: name it as the protocol "
            "does, or give it an entry of its own");
  EXPECT_EQ(asked({{"python:my.py:Softplus", entry}, {"python:../my.py:Softplus", json::object()}}),
            "(no error)");
  EXPECT_EQ(asked({{"python:my.py:Other", entry}}), "(no error)") << "another class";
}

TEST_F(ProtocolEntriesTest, MakeTheConfigurationOfARun) {
  const std::string attention = "torchscript:" + kScript;
  const Protocol protocol = load_protocol(file({{attention, lr(0.02)}, {"linear", lr(0.01)}}));
  const auto config = [&](const std::vector<std::string>& sets) {
    return make_config(protocol, "listops", parse_attention(attention), sets, 0, "float32");
  };
  EXPECT_EQ(config({}).settings.optimizer.lr, 0.02);
  EXPECT_TRUE(config({}).overridden.empty());
  EXPECT_EQ(config({}).by_attention, std::vector<std::string>{"optimizer.lr"});
  EXPECT_EQ(config({"optimizer.lr=0.5"}).settings.optimizer.lr, 0.5);
  EXPECT_EQ(config({"optimizer.lr=0.5"}).overridden, std::vector<std::string>{"optimizer.lr"});
  EXPECT_EQ(config({"optimizer.lr=0.02"}).overridden, std::vector<std::string>{"optimizer.lr"})
      << "one value for all attentions is not what the protocol gives this one";

  const Protocol tuned = with_settings(load_protocol("lra-strict"), "listops", attention,
                                       {"optimizer.lr=0.04", "schedule.warmup=7"});
  EXPECT_EQ(task_settings(tuned, "listops", attention).optimizer.lr, 0.04);
  EXPECT_EQ(entry_settings(tuned, "listops", parse_attention(attention)),
            (std::vector<std::string>{"optimizer.lr", "schedule.warmup"}));
  EXPECT_TRUE(entry_settings(tuned, "listops", {.name = "linear"}).empty());
  EXPECT_TRUE(entry_settings(tuned, "text", parse_attention(attention)).empty());
}

TEST_F(ProtocolEntriesTest, EveryMistakeIsNamed) {
  const std::string where =
      "protocol file " + (scratch_.path() / "p.json").string() + ": tasks.listops.attentions.";
  EXPECT_TRUE(refusal({{"pythn:my.py:S", lr(1)}})
                  .starts_with(where + "pythn:my.py:S: unknown attention 'pythn'"));
  EXPECT_TRUE(
      refusal({{"linaer", lr(1)}}).starts_with(where + "linaer: unknown attention 'linaer'"));
  EXPECT_NE(refusal({{"python:my.py", lr(1)}}).find("the file or the class is missing"),
            std::string::npos);
  EXPECT_EQ(refusal({{"linear:my.pt", lr(1)}}),
            where + "linear:my.pt: linear is not made from a file; name it by that alone");
  EXPECT_EQ(refusal({{"python:my.py:S[beta=2]", lr(1)}}),
            where +
                "python:my.py:S[beta=2]: an entry is of an attention with whatever options; "
                "name it python:my.py:S");
  EXPECT_EQ(refusal({{"python:my.py:S", {{"options", {{"beta", 2}}}}}}),
            where +
                "python:my.py:S: an attention made from a file has its options in brackets "
                "where it is named; its entry holds settings alone");
  EXPECT_NE(refusal({{"python:my.py:S", {{"settings", {{"optimizer", {{"lrr", 1}}}}}}}})
                .find("did you mean 'lr'?"),
            std::string::npos);
  EXPECT_EQ(refusal({{"local_tay2020", lr(1)}}),
            where +
                "local_tay2020: local_tay2020 is a form of local, whose entry is read for it: name "
                "it local");
  EXPECT_NE(refusal({{"python:my.py:S", {{"setings", 1}}}}).find("did you mean 'settings'?"),
            std::string::npos);
}

// A file that has moved since is no part of what a run is.
TEST_F(ProtocolEntriesTest, AFileReadFromElsewhereLeavesTheConfigurationAsItWas) {
  const fs::path kept = scratch_.path() / "attention.pt";
  fs::copy_file(kScript, kept);
  const Protocol protocol = load_protocol(file({{"torchscript:" + kScript, lr(0.02)}}));
  const AttentionSpec attention = parse_attention("torchscript:" + kScript);
  const Config own = make_config(protocol, "listops", attention, {}, 0, "float32"),
               moved = make_config(protocol, "listops", attention, {}, 0, "float32", kept.string());
  EXPECT_EQ(moved.attention_options["file"], kept.string());
  EXPECT_EQ(moved.to_json(), own.to_json());
  EXPECT_EQ(moved.settings.optimizer.lr, 0.02) << "its entry is that of the file as it was named";
}

TEST(WordsOfSet, SayWhichKeyTheySet) {
  EXPECT_TRUE(word_sets("input.length=5", "input.length"));
  EXPECT_TRUE(word_sets(R"(input={"length":5})", "input.length"));
  EXPECT_FALSE(word_sets(R"(input={"cut":5})", "input.length"));
  EXPECT_FALSE(word_sets("input.lengths=5", "input.length"));
}

}  // namespace
}  // namespace lra
