// Records of lra profile and its --where say what their protocol's values were.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>

#include "harness/profile/cell.h"
#include "harness/profile/store.h"
#include "lra/config/preset.h"
#include "results/where/record.h"
#include "tests/harness/profile/profile_fixture.h"

namespace lra::profile {
namespace {

class ProtocolValuesTest : public ProfileFileTest {
 protected:
  void protocol_of(const json& settings, const json& own = json::object()) const {
    write_json(protocol_, {{"schema", "lra.protocol/1"},
                           {"name", "mine"},
                           {"extends", "lra-strict"},
                           {"settings", settings},
                           {"attention_settings", own}});
  }
  Profile record(const std::string& attention, int64_t length = 64) const {
    const ProfileCell cell{.attention = parse_attention(attention),
                           .length = length,
                           .scope = ProfileScope::model,
                           .protocol = protocol_,
                           .task = "listops"};
    return profile_record(cell, torch::kCPU, /*threads=*/1);
  }
  std::vector<std::string> words(const std::string& out) const {
    return {"profile", "--lengths",  "64",        "--batch",      "1",      "--seconds",
            "0.03",    "--threads",  "1",         "--scope",      "model",  "--task",
            "listops", "--mode",     "inference", "--attentions", "linear", "--out",
            out,       "--protocol", protocol_};
  }
  ProgramResult profile(const std::string& out, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = words(out);
    all.insert(all.end(), more.begin(), more.end());
    return run_program(all);
  }
  std::string file(const std::string& name) const { return (scratch_.path() / name).string(); }

  std::string protocol_ = file("mine.json");
};

TEST_F(ProtocolValuesTest, APresetSetsNothingThatIsNotRead) {
  const std::string preset = (scratch_.path() / "own.json").string();
  write_json(preset, {{"schema", "lra.preset/1"},
                      {"name", "own"},
                      {"scope", "model"},
                      {"batch", 0},
                      {"lengths", {64}},
                      {"attentions", "standard"},
                      {"set", {{"optimizer.lr", 0.5}}}});
  expect_refusal({"profile", "--preset", preset, "--out", out_}, 2,
                 "preset own: set optimizer.lr: a profile is of whole samples and reads");
  EXPECT_FALSE(std::filesystem::exists(out_));
}

TEST_F(ProtocolValuesTest, APresetOfModelsWithoutHeadsHasThoseOfTheProtocol) {
  const auto heads = [&](json more) {
    more.update({{"schema", "lra.preset/1"},
                 {"name", "own"},
                 {"protocol", "tay2020"},
                 {"task", "text"},
                 {"lengths", {64}},
                 {"attentions", "standard"}});
    write_json(file("own.json"), more);
    const Preset preset = load_preset(file("own.json"));
    return std::pair{preset.heads, preset.head_dim};
  };
  EXPECT_EQ(heads({{"scope", "model"}}), (std::pair<int64_t, int64_t>{0, 0}));
  EXPECT_EQ(heads({{"scope", "model"}, {"heads", 8}}), (std::pair<int64_t, int64_t>{8, 0}));
  EXPECT_EQ(heads({{"scope", "core"}}), (std::pair<int64_t, int64_t>{2, 32}));
  heads({{"scope", "model"}});
  for (const auto& [scope, expected] :
       {std::pair{"model", std::pair{4, 64}}, {"core", std::pair{2, 32}}}) {
    const std::string out = file(std::string(scope) + ".jsonl");
    const ProgramResult result =
        run_program({"profile", "--preset", file("own.json"), "--scope", scope, "--batch", "1",
                     "--seconds", "0.01", "--passes", "1", "--threads", "1", "--out", out});
    ASSERT_EQ(result.status, 0) << result.err;
    const std::vector<Profile> records = profile::read_profile(out);
    ASSERT_EQ(records.size(), 1U);
    EXPECT_EQ(records[0].heads, expected.first) << scope;
    EXPECT_EQ(records[0].head_dim, expected.second) << scope;
  }
}

// What nothing reads would name a table of its own.
TEST_F(ProtocolValuesTest, ThoseThatAProfileDoesNotReadAreRefused) {
  protocol_of({{"model", {{"layers", 1}}}});
  for (const char* unread : {"training.micro_batch=4", "optimizer.clip_norm=1", "execution=graph",
                             "input.cut=16", "input.mask=none"}) {
    const ProgramResult result = profile(file("out.jsonl"), {"--set", unread});
    EXPECT_EQ(result.status, 2);
    EXPECT_NE(result.err.find("a profile is of whole samples and reads model.*, input.brackets"),
              std::string::npos)
        << result.err;
  }
  EXPECT_NE(profile(file("out.jsonl"), {"--set", "training.batch=2"})
                .err.find("--set training.batch: of a profile it is --batch"),
            std::string::npos);
  EXPECT_EQ(profile(file("out.jsonl"), {"--set", "kernels=reference"}).status, 0);
  // Colours ask for another mask than that of pixel 0.
  const ProgramResult coloured = run_program({"profile",
                                              "--scope",
                                              "model",
                                              "--protocol",
                                              "tay2020",
                                              "--task",
                                              "image",
                                              "--attentions",
                                              "linear",
                                              "--lengths",
                                              "64",
                                              "--batch",
                                              "1",
                                              "--mode",
                                              "inference",
                                              "--seconds",
                                              "0.01",
                                              "--passes",
                                              "1",
                                              "--threads",
                                              "1",
                                              "--out",
                                              file("coloured.jsonl"),
                                              "--set",
                                              "input.colours=rgb",
                                              "--set",
                                              "model.encoder=linear",
                                              "--set",
                                              "input.mask=length"});
  EXPECT_EQ(coloured.status, 0) << coloured.err;
}

TEST_F(ProtocolValuesTest, AreThoseOfAllAttentionsAndLengths) {
  protocol_of({{"model", {{"layers", 1}}}});
  const Profile first = record("linear");
  EXPECT_EQ(first.protocol_sha256.size(), 64u);
  EXPECT_EQ(first.own_settings_sha256, "");
  EXPECT_EQ(record("nystrom", 96).protocol_sha256, first.protocol_sha256);
  EXPECT_NE(record("nystrom", 96).settings_sha256, first.settings_sha256);
  protocol_of({{"model", {{"layers", 1}}}}, {{"linear", {{"model", {{"dropout", 0.3}}}}}});
  const Profile own = record("linear");
  EXPECT_EQ(own.protocol_sha256, first.protocol_sha256);
  EXPECT_EQ(own.own_settings_sha256.size(), 64u);
  EXPECT_EQ(record("nystrom").own_settings_sha256, "");
  protocol_of({{"model", {{"layers", 2}}}});
  EXPECT_NE(record("linear").protocol_sha256, first.protocol_sha256);
}

TEST_F(ProtocolValuesTest, OfAProtocolThatChangedAreNotComparedNorInOneTable) {
  const std::string before = file("before.jsonl"), after = file("after.jsonl"),
                    again = file("again.jsonl");
  protocol_of({{"model", {{"layers", 1}}}});
  ASSERT_EQ(profile(before).status, 0);
  const ProgramResult same = profile(again, {"--compare", before, "--tolerance", "1000"});
  EXPECT_EQ(same.status, 0) << same.text();
  protocol_of({{"model", {{"layers", 2}}}});
  ASSERT_EQ(profile(after).status, 0);
  const ProgramResult other = profile(after, {"--compare", before, "--tolerance", "1000"});
  EXPECT_EQ(other.status, 1) << other.text();
  EXPECT_NE(other.err.find("those of another setting are not compared: linear at 64: "
                           "protocol mine, protocol_sha256 "),
            std::string::npos)
      << other.err;
  ASSERT_EQ(run_program({"report", before, after, "--out", file("report")}).status, 0);
  const std::string report = read_file(file("report/report.md"));
  const size_t first = report.find("protocol mine (values ");
  ASSERT_NE(first, std::string::npos) << report;
  EXPECT_EQ(report.find("protocol mine,"), std::string::npos) << report;
}

TEST_F(ProtocolValuesTest, StandInRecordsOfWhereAStepsTimeGoes) {
  protocol_of({{"model", {{"layers", 1}}}}, {{"linear", {{"model", {{"dropout", 0.3}}}}}});
  const ProgramResult result = profile(out_, {"--where"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Where step = parse_where(json::parse(read_file(out_)));
  EXPECT_EQ(step.protocol_sha256, record("linear").protocol_sha256);
  EXPECT_EQ(step.own_settings_sha256, record("linear").own_settings_sha256);
  EXPECT_FALSE(step.own_settings_sha256.empty());
}

TEST_F(ProtocolValuesTest, AModelHasTheFormThatItsProtocolMeans) {
  const auto measured = [&](const std::string& attentions) {
    return run_program({"profile",  "--scope",   "model",     "--protocol", "tay2020",
                        "--task",   "listops",   "--mode",    "inference",  "--batch",
                        "1",        "--lengths", "64",        "--seconds",  "0.03",
                        "--passes", "1",         "--threads", "1",          "--attentions",
                        attentions, "--out",     out_});
  };
  const ProgramResult both = measured("local,local_tay2020");
  EXPECT_EQ(both.status, 2);
  EXPECT_NE(
      both.err.find("local and local_tay2020 are one attention under protocol tay2020: give one"),
      std::string::npos)
      << both.err;
  ASSERT_EQ(measured("local").status, 0);
  const std::vector<Profile> all = cells();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].attention.name, "local_tay2020");
  EXPECT_EQ(all[0].attention.label, "local_tay2020");
  EXPECT_TRUE(all[0].attention.options.contains("block"));
}

}  // namespace
}  // namespace lra::profile
