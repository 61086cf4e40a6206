// Presets: those that travel inside, the star among attentions, and what a file of one's own may
// get wrong.
#include "lra/config/preset.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "attention_variants/base/files.h"
#include "lra/config/protocol.h"
#include "tests/support/scratch.h"

namespace lra {
namespace {

std::vector<std::string> texts(const std::string& list) {
  std::vector<std::string> result;
  for (const AttentionSpec& spec : attentions_of(list)) result.push_back(spec.text());
  return result;
}

TEST(PresetTest, EveryBuiltInOneLoads) {
  const auto names = preset_names();
  ASSERT_EQ(names, (std::vector<std::string>{"lra", "table1", "tay2020"}));
  for (const std::string& name : names) {
    const Preset preset = load_preset(name);
    EXPECT_EQ(preset.name, name);
    EXPECT_FALSE(preset.lengths.empty());
    EXPECT_GE(attentions_of(preset.attentions).size(), attention_entries().size());
  }
  EXPECT_EQ(load_preset("table1").lengths, (std::vector<int64_t>{512, 1024, 2048, 4096, 8192}));
  // The sizes of the preset are those of its protocol.
  const Preset tay = load_preset("tay2020");
  const Settings settings = task_settings(load_protocol(tay.protocol), tay.task);
  EXPECT_EQ(settings.model.heads, tay.heads);
  EXPECT_EQ(settings.model.head_dim, tay.head_dim);
  EXPECT_EQ(settings.training.batch, tay.batch);
}

TEST(PresetTest, TheStarIsAllOthersInItsPlace) {
  const auto all = texts("*");
  EXPECT_EQ(all.size(), attention_entries().size());
  const auto some = texts("nystrom[num_landmarks=32],*,standard");
  EXPECT_EQ(some.front(), "nystrom[num_landmarks=32]");
  EXPECT_EQ(some.back(), "standard");
  EXPECT_EQ(some.size(), all.size() + 1) << "nystrom with its defaults is another";
  EXPECT_EQ(std::ranges::count(some, "nystrom"), 1);
  EXPECT_EQ(std::ranges::count(some, "standard"), 1);
  EXPECT_EQ(std::ranges::count(texts("nystrom[num_landmarks=64],*"), "nystrom"), 0)
      << "the same by its effective options";
}

TEST(PresetTest, AFileOfOnesOwnIsReadStrictly) {
  const Scratch scratch;
  const std::string path = (scratch.path() / "p.json").string();
  const auto refusal = [&](const std::string& text) {
    write_file(path, text);
    return error_text<UsageError>([&] { load_preset(path); });
  };
  EXPECT_EQ(refusal(R"({"schema": "lra.preset/1", "name": "p", "lengths": [64],
                        "set": {"model.layers": 1, "input.mask": "length"}})"),
            "(no error)");
  EXPECT_EQ(load_preset(path).set_words(),
            (std::vector<std::string>{"model.layers=1", "input.mask=length"}));
  for (const auto& [field, expected] : std::vector<std::pair<std::string, std::string>>{
           {R"("lengths": [])", "lengths should be a list of integers from 1 to 16777216, not []"},
           {R"("lengths": [16777217])", "from 1 to 16777216, not [16777217]"},
           {R"("lengths": [0])", "lengths should be a list"},
           {R"("lengths": [512.5])", "lengths should be a list of integers"},
           {R"("lengths": [64, 128, 64])", ": lengths names 64 twice"},
           {R"("lengths": [64], "attentions": "linear,nystrom,linear")",
            ": attentions names linear twice"},
           {R"("lengths": [64], "lenghts": [1])", "lenghts"},
           {R"("lengths": [64], "attentions": "nystrm")", "did you mean 'nystrom'?"},
           {R"("lengths": [64], "scope": "modul")", "scope"},
           {R"("lengths": [64], "task": "lstops")", "did you mean 'listops'?"}}) {
    const std::string message =
        refusal(R"({"schema": "lra.preset/1", "name": "p", )" + field + "}");
    EXPECT_NE(message.find(expected), std::string::npos) << field << ": " << message;
  }
  EXPECT_NE(refusal(R"({"lengths": [64]})").find("lra.preset/1"), std::string::npos);
}

}  // namespace
}  // namespace lra
