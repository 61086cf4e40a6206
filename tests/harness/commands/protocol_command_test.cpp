// lra list protocols, lra protocol show and diff over all protocols, and a user's own.
#include <gtest/gtest.h>

#include "lra/config/protocol.h"
#include "tests/harness/program.h"

namespace lra {
namespace {

std::string protocol_output(const std::vector<std::string>& words) {
  const ProgramResult result = run_forked(words);
  EXPECT_EQ(result.status, 0) << result.err;
  return result.out;
}

TEST(ProtocolsCommandTest, ShowsEveryTaskOfEveryProtocol) {
  for (const std::string& name : protocol_names()) {
    const json shown = json::parse(protocol_output({"protocol", "show", name}));
    EXPECT_EQ(shown["name"], name);
    for (const Task* known : tasks()) {
      ASSERT_TRUE(shown["tasks"].contains(known->name)) << name << " " << known->name;
      const json settings = write_fields(task_settings(load_protocol(name), known->name));
      for (const auto& [group, values] : settings.items())
        EXPECT_EQ(shown["tasks"][known->name][group], values) << name << " " << known->name;
    }
  }
}

TEST(ProtocolsCommandTest, ShowsChoicesAndEntriesOfVariants) {
  const json shown =
      json::parse(protocol_output({"protocol", "show", "tay2020", "--task", "image"}));
  EXPECT_GE(shown["choices"].size(), 5u);
  EXPECT_EQ(
      shown["tasks"]["image"]["attentions"]["sinkhorn"]["settings"]["optimizer"]["weight_decay"],
      0.7);
  const json run = json::parse(protocol_output(
      {"protocol", "show", "tay2020", "--task", "image", "--attention", "sinkhorn"}));
  EXPECT_EQ(run["optimizer"]["weight_decay"], 0.7);
  EXPECT_EQ(run["model"]["pooling"], "mean");
  EXPECT_EQ(run["attention"]["name"], "sinkhorn_tay2020");
  EXPECT_EQ(run["attention"]["options"]["block"], 64);
}

TEST(ProtocolsCommandTest, DiffsAnyTwo) {
  const std::string skyformer = protocol_output(
      {"protocol", "diff", "nystromformer2021", "skyformer2021", "--task", "text", "--lines"});
  for (const char* line :
       {"tasks.text.optimizer.clip_value: 0.0 -> 1.0\n",
        "tasks.text.training.steps: 20000 -> 50000\n", "tasks.text.training.batch: 32 -> 16\n",
        "tasks.text.schedule.warmup: 8000 -> 80\n",
        "tasks.text.evaluation.select_after: 0.0 -> 0.2\n",
        "attentions.nystrom.num_landmarks: 64 -> 128\n"}) {
    EXPECT_NE(skyformer.find(line), std::string::npos) << line << skyformer;
  }
  const std::string tay = protocol_output(
      {"protocol", "diff", "lra-strict", "tay2020", "--task", "listops", "--lines"});
  for (const char* line : {"tasks.listops.model.pooling: \"mean\" -> \"cls\"\n",
                           "tasks.listops.model.positions: \"learned\" -> \"sinusoidal\"\n",
                           "tasks.listops.schedule.kind: \"one_cycle\" -> \"rsqrt\"\n",
                           "tasks.listops.input.length: 2048 -> 2000\n"}) {
    EXPECT_NE(tay.find(line), std::string::npos) << line << tay;
  }
}

TEST(ProtocolsCommandTest, TakesAUsersFileByItsPath) {
  const Scratch scratch;
  const std::string path = (scratch.path() / "mine.json").string();
  write_file(path, R"({"schema": "lra.protocol/1", "name": "mine", "extends": "tay2020",
    "choices": ["half as many steps"], "tasks": {"image": {"training": {"steps": 17500},
    "attentions": {"nystrom": {"settings": {"model": {"heads": 4}}}}}}})");
  const json shown = json::parse(protocol_output({"protocol", "show", path, "--task", "image"}));
  EXPECT_EQ(shown["tasks"]["image"]["training"]["steps"], 17500);
  EXPECT_EQ(shown["choices"].back(), "half as many steps");
  const std::string diff = protocol_output({"protocol", "diff", "tay2020", path, "--task", "image",
                                            "--attention", "nystrom", "--lines"});
  EXPECT_NE(diff.find("training.steps: 35000 -> 17500\n"), std::string::npos) << diff;
  EXPECT_NE(diff.find("model.heads: 8 -> 4\n"), std::string::npos) << diff;
}

}  // namespace
}  // namespace lra
