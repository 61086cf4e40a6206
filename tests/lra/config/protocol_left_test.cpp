// Values of a user's protocol that entries of what it extends go over.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "attention_variants/base/files.h"
#include "lra/config/protocol.h"
#include "tests/support/scratch.h"

namespace lra {
namespace {

using Texts = std::vector<std::string>;

class ProtocolLeftTest : public testing::Test {
 protected:
  // A protocol that extends another, with these parts.
  Protocol extend(const std::string& other, json parts, const std::string& name = "mine") const {
    parts["schema"] = "lra.protocol/1";
    parts["name"] = name;
    parts["extends"] = other;
    write_json(path(name), parts);
    return load_protocol(path(name));
  }
  std::string path(const std::string& name) const {
    return (scratch_.path() / (name + ".json")).string();
  }
  static std::string remedy(const Protocol& protocol, const std::string& attention) {
    return make_config(protocol, "listops", parse_attention(attention), {}, 0, "float32")
        .left.at(0)
        .remedy();
  }
  static Texts left(const Protocol& protocol, const std::string& task, const std::string& attention,
                    const Texts& sets = {}) {
    const Config config =
        make_config(protocol, task, parse_attention(attention), sets, 0, "float32");
    Texts texts;
    for (const LeftValue& one : config.left) texts.push_back(one.text(one.attention));
    return texts;
  }

  Scratch scratch_;
};

const json kRate = {{"optimizer", {{"lr", 5e-4}}}};

TEST_F(ProtocolLeftTest, ASettingIsToldWhereAnOlderEntryHasItOtherwise) {
  for (const json& parts : {json{{"settings", kRate}}, json{{"tasks", {{"listops", kRate}}}}}) {
    const Protocol mine = extend("lra-2026", parts);
    EXPECT_EQ(left(mine, "listops", "linformer"),
              Texts{"listops: optimizer.lr as lra-2026 has it for linformer"});
    EXPECT_EQ(task_settings(mine, "listops", "linformer").optimizer.lr, 3e-3);
    EXPECT_EQ(left(mine, "listops", "standard"), Texts());
    EXPECT_EQ(left(mine, "image", "linformer"), Texts());
    EXPECT_EQ(left(mine, "listops", "linformer", {"optimizer.lr=1e-5"}), Texts());
  }
  const Protocol same = extend("lra-2026", {{"settings", {{"optimizer", {{"lr", 3e-3}}}}}});
  EXPECT_EQ(left(same, "listops", "linformer"), Texts()) << "which is the same";
  EXPECT_EQ(left(load_protocol("lra-2026"), "listops", "linformer"), Texts());
}

TEST_F(ProtocolLeftTest, AnEntryOfItsOwnIsRead) {
  const Protocol mine = extend(
      "lra-2026",
      {{"settings", kRate},
       {"tasks",
        {{"listops",
          {{"attentions", {{"linformer", {{"settings", {{"optimizer", {{"lr", 1e-3}}}}}}}}}}}}}});
  EXPECT_EQ(left(mine, "listops", "linformer"), Texts());
  EXPECT_EQ(left(mine, "listops", "performer"),
            Texts{"listops: optimizer.lr as lra-2026 has it for performer"});
  // An entry of all tasks is below one of a task.
  const Protocol all = extend("lra-2026", {{"attention_settings", {{"linformer", kRate}}}});
  EXPECT_EQ(left(all, "listops", "linformer"),
            Texts{"listops: optimizer.lr as lra-2026 has it for linformer"});
  const Protocol mask = extend("tay2020", {{"settings", {{"input", {{"mask", "length"}}}}}});
  EXPECT_EQ(left(mask, "listops", "linear"),
            Texts{"listops: input.mask as tay2020 has it for linear"});
}

TEST_F(ProtocolLeftTest, OptionsAndFormsAreToldToo) {
  const Protocol s5 = extend("s5-2023", {{"attentions", {{"s5", {{"state", 64}}}}}});
  EXPECT_EQ(left(s5, "listops", "s5"),
            Texts{"listops: attentions.s5.state as s5-2023 has it for s5"});
  EXPECT_EQ(left(s5, "listops", "s5[state=64]"), Texts());
  EXPECT_EQ(remedy(s5, "s5"), "an entry for s5 in tasks.listops.attentions gives it, or brackets");
  const Protocol tay = extend("tay2020", {{"variants", {{"performer", "performer"}}}});
  EXPECT_EQ(left(tay, "text", "performer"),
            Texts{"text: variants.performer as tay2020 has it for performer"});
}

TEST_F(ProtocolLeftTest, OverTwoFilesAKeyIsToldOnceAndGivenByAnyEntry) {
  extend("lra-2026", {{"settings", kRate}});
  const Protocol other =
      extend(path("mine"), {{"settings", {{"optimizer", {{"lr", 7e-4}}}}}}, "other");
  EXPECT_EQ(left(other, "listops", "linformer"),
            Texts{"listops: optimizer.lr as lra-2026 has it for linformer"});

  extend("tay2020", {{"settings", {{"input", {{"mask", "length"}}}}}});
  const json mask = {{"input", {{"mask", "length"}}}};
  EXPECT_EQ(left(extend(path("mine"), {{"attention_settings", {{"linear", mask}}}}, "masked"),
                 "listops", "linear"),
            Texts());

  const auto entry = [](const char* name, json part) {
    return json{{"tasks", {{"listops", {{"attentions", {{name, std::move(part)}}}}}}}};
  };
  extend("s5-2023", {{"attentions", {{"s5", {{"state", 64}}}}}});
  EXPECT_EQ(left(extend(path("mine"), entry("s5", {{"options", {{"state", 64}}}}), "stated"),
                 "listops", "s5"),
            Texts());
  extend("tay2020", {{"variants", {{"performer", "performer"}}}});
  EXPECT_EQ(left(extend(path("mine"), entry("performer", {{"variant", "performer"}}), "meant"),
                 "listops", "performer"),
            Texts());
}

TEST_F(ProtocolLeftTest, WhatAParentFileLeftStaysLeft) {
  extend("lra-2026", {{"settings", kRate}});
  const Protocol child = extend(path("mine"), json::object(), "child");
  EXPECT_EQ(left(child, "listops", "linformer"),
            Texts{"listops: optimizer.lr as lra-2026 has it for linformer"});
  const Protocol given =
      extend(path("mine"),
             {{"tasks", {{"listops", {{"attentions", {{"linformer", {{"settings", kRate}}}}}}}}}},
             "given");
  EXPECT_EQ(left(given, "listops", "linformer"), Texts());
}

}  // namespace
}  // namespace lra
