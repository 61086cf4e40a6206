// lra list protocols, lra protocol show and diff over all protocols, and a user's own.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <map>
#include <string>
#include <vector>

#include "lra/config/protocol.h"
#include "tests/harness/program.h"

namespace lra {
namespace {

using Words = std::vector<std::string>;

std::string protocol_output(const std::vector<std::string>& words) {
  const ProgramResult result = run_program(words);
  EXPECT_EQ(result.status, 0) << result.err;
  return result.out;
}

TEST(ProtocolsCommandTest, ShowsEveryTaskOfEveryProtocol) {
  for (const std::string& name : protocol_names()) {
    const json shown = json::parse(protocol_output({"protocol", "show", name}));
    EXPECT_EQ(shown["name"], name);
    const Protocol protocol = load_protocol(name);
    for (const auto& [task_name, entry] : protocol.tasks.items()) {
      ASSERT_TRUE(shown["tasks"].contains(task_name)) << name << " " << task_name;
      const json settings = write_fields(task_settings(protocol, task_name));
      for (const auto& [group, values] : settings.items())
        EXPECT_EQ(shown["tasks"][task_name][group], values) << name << " " << task_name;
    }
  }
}

TEST(ProtocolsCommandTest, ListsEachProtocolOnceUnderItsRegime) {
  const std::string text = protocol_output({"list", "protocols"});
  const auto place = [&](const std::string& what) {
    EXPECT_NE(text.find(what), std::string::npos) << what << "\n" << text;
    return text.find(what);
  };
  std::map<std::string, size_t> headings;
  for (const auto& [regime, meaning] : kRegimes)
    headings[regime] = place(fmt::format("Regime {}: {}\n", regime, meaning));
  for (const std::string& name : protocol_names()) {
    const size_t at = place("\n" + name + "\n");
    const size_t own = headings.at(load_protocol(name).regime);
    for (const auto& [regime, heading] : headings)
      EXPECT_TRUE(heading <= own || heading > at) << name << " stands under " << regime;
    EXPECT_LT(own, at) << name;
  }
  EXPECT_LT(headings.at("2021"), headings.at("later"));
  place("Regime recall: no regime of LRA's tables");
  place("never ranked");
  for (const json& item : json::parse(protocol_output({"list", "protocols", "--json"})))
    EXPECT_EQ(item["regime"], load_protocol(item["name"]).regime);
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

TEST(ProtocolCommandTest, ShowsTheValuesInEffect) {
  const json shown =
      json::parse(output_of({"protocol", "show", "lra-strict", "--task", "listops"}));
  EXPECT_EQ(shown["name"], "lra-strict");
  ASSERT_EQ(shown["tasks"].size(), 1u);
  const json& settings = shown["tasks"]["listops"];
  EXPECT_EQ(settings["input"]["length"], 2048);
  EXPECT_EQ(settings["model"]["feed_forward"], 128);
  EXPECT_EQ(settings["training"]["steps"], 5000);
  EXPECT_EQ(settings["training"]["evaluate_every"], 50);
  EXPECT_EQ(settings["schedule"]["warmup"], 1000);
  EXPECT_EQ(settings["optimizer"]["lr"], 1e-4);
  EXPECT_EQ(settings["training"]["micro_batch"], 0) << "what the file leaves out is shown too";
  EXPECT_EQ(shown["attentions"]["nystrom"]["num_landmarks"], 64);

  const json run = json::parse(output_of({"protocol", "show", "lra-strict", "--task", "listops",
                                          "--attention", "nystrom[pinv=exact]"}));
  EXPECT_EQ(run["attention"]["options"]["pinv"], "exact");
  EXPECT_EQ(run["attention"]["options"]["conv_kernel_size"], 35);
  EXPECT_EQ(run["input"]["length"], 2048);
}

// The quirks of the released code, field by field.
TEST(ProtocolCommandTest, DiffNamesEveryFieldThatDiffers) {
  const Words all =
      text_lines(output_of({"protocol", "diff", "lra-strict", "nystromformer2021", "--lines"}));
  Words of_listops, others;
  for (const std::string& line : all) {
    const size_t colon = line.find(": "), arrow = line.find(" -> ");
    EXPECT_TRUE(json::accept(line.substr(colon + 2, arrow - colon - 2))) << line;
    EXPECT_TRUE(json::accept(line.substr(arrow + 4))) << line;
    const std::string prefix = "tasks.listops.";
    if (line.starts_with(prefix)) {
      of_listops.push_back(line.substr(prefix.size()));
    } else {
      others.push_back(line);
    }
  }
  std::ranges::sort(of_listops);
  EXPECT_EQ(of_listops, (Words{
                            "evaluation.drop_last: false -> true",
                            "input.mask: \"length\" -> \"nonzero\"",
                            "model.attention_dtype: \"model\" -> \"float32\"",
                            "model.mean_over: \"real\" -> \"length\"",
                            "schedule.beta1_high: 0.0 -> 0.95",
                            "schedule.beta1_low: 0.0 -> 0.85",
                        }));
  for (const char* line :
       {"name: \"lra-strict\" -> \"nystromformer2021\"", "attentions.standard.dropout: 0 -> 0.1",
        "attentions.nystrom.padding: null -> \"zeroed\"",
        "attentions.nystrom.init: null -> \"global\""}) {
    EXPECT_EQ(std::ranges::count(others, line), 1) << line;
  }
  EXPECT_EQ(run_program({"protocol", "diff", "lra-strict", "lra-strict", "--lines"}).out, "");
}

TEST(ProtocolCommandTest, ExplainsASetting) {
  const std::string text = output_of({"protocol", "show", "lra-strict", "training.steps"});
  const std::string line = line_of(text, "training.steps");
  EXPECT_NE(line.find("an integer, at least 1"), line.npos) << text;
  EXPECT_NE(line.find(" 5000"), line.npos) << text;
  EXPECT_NE(text.find("Example: --set training.steps="), text.npos) << text;
  EXPECT_NE(line_of(output_of({"protocol", "show", "tay2020", "training"}), "training.batch"), "");
  expect_refusal({"protocol", "show", "lra-strict", "training.step"}, 2,
                 "did you mean 'training.steps'?");
  // Of attentions as the protocol has them on one task, and on all.
  const std::string mask = output_of({"protocol", "show", "tay2020", "input.mask"});
  EXPECT_NE(mask.find("input.mask: linear none on listops, text, "), mask.npos) << mask;
  EXPECT_NE(mask.find("input.mask: reformer none on listops, "), mask.npos) << mask;
  // A setting is told of all tasks and attentions, and in words alone.
  for (const Words& more :
       {Words{"--task", "listops"}, Words{"--attention", "standard"}, Words{"--words"}}) {
    Words words = {"protocol", "show", "lra-strict", "training.steps"};
    words.insert(words.end(), more.begin(), more.end());
    expect_refusal(words, 2, "excludes");
  }
}

TEST(ProtocolCommandTest, RefusesNamesThatItDoesNotKnow) {
  expect_refusal({"protocol", "show", "lra-strikt"}, 2,
                 "unknown protocol 'lra-strikt'; did you mean 'lra-strict'?");
  expect_refusal({"protocol", "diff", "lra-strict", "nystromformer2012"}, 2,
                 "unknown protocol 'nystromformer2012'; did you mean 'nystromformer2021'?");
  expect_refusal({"protocol", "show", "lra-strict", "--task", "listop"}, 2,
                 "unknown task 'listop' in protocol lra-strict; did you mean 'listops'?");
  expect_refusal({"protocol", "show", "lra-strict", "--task", "listops", "--attention", "nystrm"},
                 2, "unknown attention 'nystrm'; did you mean 'nystrom'?");
  expect_refusal({"protocol", "show", "lra-strict", "--attention", "standard"}, 2,
                 "--attention needs --task");
  expect_refusal({"protocol", "show", "no/such.json"}, 2,
                 "protocol file no/such.json does not exist");
}

}  // namespace
}  // namespace lra
