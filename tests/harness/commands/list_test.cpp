// lra list: every attention, task and protocol, and what their options and settings mean.
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "harness/commands/describe.h"
#include "harness/host/gpu.h"
#include "lra/config/protocol.h"
#include "lra/data/task.h"
#include "tests/harness/program.h"
#include "tests/support/shipped.h"

namespace lra {
namespace {

using Words = std::vector<std::string>;

TEST(ListTest, AttentionsWithTheirDefaults) {
  const json list = json::parse(output_of({"list", "attentions", "--try", "--json"}));
  const json declared = json::parse(output_of({"list", "attentions", "--json"}));
  const std::string plain = output_of({"list", "attentions"});
  EXPECT_EQ(plain.find("  bfloat16"), std::string::npos) << "no column of what was not tried";
  ASSERT_EQ(list.size(), declared.size());
  const Words plain_lines = text_lines(plain);
  Words names;
  for (const json& item : list) {
    names.push_back(item["name"].get<std::string>());
    SCOPED_TRACE(names.back());
    const AttentionEntry& entry = attention_entry(names.back());
    EXPECT_EQ(item["title"], entry.info.title);
    EXPECT_EQ(item["paper"], entry.info.paper);
    EXPECT_EQ(item["softmax"] == "exact", entry.info.softmax == Softmax::exact);
    json by_default = entry.effective_options(json::object());
    by_default.erase("source_sha256");  // of a user's variant, which cannot choose it
    EXPECT_EQ(item["options"], by_default) << "in effect by default";
    EXPECT_EQ(std::ranges::count_if(
                  plain_lines,
                  [&](const std::string& line) { return line.starts_with(names.back() + ": "); }),
              1)
        << plain;
    EXPECT_EQ(item["mask"], "yes");
    EXPECT_EQ(item["bfloat16"], "yes");
    json untried = item;
    for (const char* key : {"mask", "bfloat16", "cuda"}) untried[key] = "not tried";
    untried["parameters"] = nullptr;
    EXPECT_EQ(declared[names.size() - 1], untried);
    EXPECT_GE(item["parameters"], 0);
    EXPECT_NE(plain.find(item["options"].dump()), std::string::npos) << plain;
  }
  EXPECT_TRUE(std::ranges::is_sorted(names));
  EXPECT_EQ(std::ranges::count(names, "standard"), 1);
  const auto nystrom = std::ranges::find(names, "nystrom");
  ASSERT_NE(nystrom, names.end());
  const json& options = list[static_cast<size_t>(nystrom - names.begin())]["options"];
  EXPECT_EQ(options["num_landmarks"], 64);
  EXPECT_EQ(options["pinv_iterations"], 6);
  EXPECT_EQ(options["pinv"], "iterative");
}

TEST(ListTest, AnAttentionsOptionsAreExplained) {
  const std::string nystrom = output_of({"list", "attentions", "nystrom"});
  EXPECT_NE(nystrom.find("Example: nystrom[num_landmarks=32]\n"), nystrom.npos) << nystrom;
  const std::string line = line_of(nystrom, "num_landmarks");
  EXPECT_NE(line.find("an integer, at least 1"), line.npos) << line;
  EXPECT_TRUE(line.ends_with("  64")) << line;
  EXPECT_NE(line_of(nystrom, "pinv").find("iterative"), line.npos) << nystrom;
  expect_refusal({"list", "attentions", "nystrm"}, 2, "did you mean 'nystrom'?");

  std::vector<const AttentionEntry*> all = shipped_attentions();
  for (const AttentionEntry* entry : released_forms()) all.push_back(entry);
  for (const AttentionEntry* entry : all) {
    const std::string text = output_of({"list", "attentions", entry->info.name});
    for (const std::string& option : entry->option_names) {
      EXPECT_NE(option_meaning(entry->info.name, option), "") << entry->info.name << " " << option;
      EXPECT_NE(line_of(text, option), "") << text;
    }
    const size_t at = text.find("Example: ");
    if (at == text.npos) continue;
    const AttentionSpec example =
        parse_attention(text.substr(at + 9, text.find('\n', at) - at - 9));
    EXPECT_NO_THROW(entry->effective_options(example.options)) << text;
  }
}

TEST(ListTest, AnAttentionFromAFileIsToldByItsForm) {
  EXPECT_EQ(output_of({"list", "attentions", "python"}),
            "python: a class of one's own, named python:FILE.py:Class; see docs/python.md\n");
  EXPECT_EQ(output_of({"list", "attentions", "torchscript"}),
            "torchscript: a TorchScript module of one's own, named torchscript:FILE.pt; see "
            "docs/attentions.md\n");
}

// What the example of `lra train` in the text of a task runs with; throws where it is refused.
Config example_config(const std::string& text, const std::string& task_name) {
  Words words;
  std::istringstream line(text.substr(text.find("lra train ")));
  for (std::string word; line >> word;) words.push_back(word);
  std::string protocol = "lra-strict";
  Words sets;
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    if (words[i] == "--protocol") protocol = words[i + 1];
    if (words[i] == "--set") sets.push_back(words[i + 1]);
  }
  EXPECT_EQ(std::ranges::count(sets, "training.steps=100"), 1) << text;
  return make_config(load_protocol(protocol), task_name, parse_attention("standard"), sets, 0,
                     "float32");
}

TEST(ListTest, ATasksSettingsAreExplained) {
  const std::string listops = output_of({"list", "tasks", "listops"});
  EXPECT_NE(line_of(listops, "training.steps").find("an integer, at least 1"), listops.npos);
  EXPECT_TRUE(line_of(listops, "training.steps").ends_with(" 5000")) << listops;
  EXPECT_NE(listops.find("lra data prepare listops --out data\n"), listops.npos) << listops;
  const json settings = write_fields(Settings{});
  for (const auto& [group, fields] : settings.items()) {
    if (!fields.is_object()) {
      EXPECT_NE(setting_meaning(group), "") << group;
      continue;
    }
    for (const auto& [key, value] : fields.items())
      EXPECT_NE(setting_meaning(group + "." + key), "") << group << "." << key;
  }
  expect_refusal({"list", "tasks", "listop"}, 2, "did you mean 'listops'?");
  // Of tasks that the default protocol does not know too.
  for (const Task* known : tasks()) {
    const std::string text = output_of({"list", "tasks", known->name});
    EXPECT_NE(text.find("Settings under "), text.npos) << text;
    EXPECT_NE(text.find("lra train --task " + known->name + " "), text.npos) << text;
    EXPECT_NO_THROW(example_config(text, known->name)) << text;
  }
  EXPECT_NE(output_of({"list", "tasks", "mqar"}).find("--task mqar --protocol recall "),
            std::string::npos);
}

// docs/attentions.md holds what the program says today.
TEST(ListTest, TheDocumentOfTheAttentionsIsCurrent) {
  host::load_cuda();
  if (torch::cuda::is_available()) GTEST_SKIP() << "with a CUDA device its column says more";
  if (attention_entries().size() != shipped_attentions().size())
    GTEST_SKIP() << "with a user's variants the table says more";
  const std::string document = read_file(LRA_SOURCE_DIR "/docs/attentions.md");
  EXPECT_NE(document.find(output_of({"list", "attentions", "--try", "--markdown"})),
            std::string::npos)
      << "make it anew: see the command in docs/attentions.md";
}

TEST(ListTest, Tasks) {
  const json list = json::parse(output_of({"list", "tasks", "--json"}));
  const std::string plain = output_of({"list", "tasks"});
  ASSERT_EQ(list.size(), tasks().size());
  for (size_t i = 0; i < list.size(); ++i) {
    const Task& known = *tasks()[i];
    EXPECT_EQ(list[i]["name"], known.name);
    EXPECT_EQ(list[i]["classes"], known.classes);
    EXPECT_EQ(list[i]["vocabulary"], known.vocabulary);
    EXPECT_EQ(list[i]["inputs"], known.inputs);
    EXPECT_EQ(list[i]["length"], known.length);
    EXPECT_EQ(std::ranges::count(text_lines(plain), known.name), 1) << plain;
  }
  EXPECT_EQ(task("listops").classes, 10);
}

TEST(ListTest, Protocols) {
  const json list = json::parse(output_of({"list", "protocols", "--json"}));
  const std::string plain = output_of({"list", "protocols"});
  Words names;
  for (const json& item : list) {
    names.push_back(item["name"].get<std::string>());
    EXPECT_NE(item["title"].get<std::string>(), "");
    EXPECT_NE(item["source"].get<std::string>(), "");
    EXPECT_EQ(std::ranges::count(text_lines(plain), names.back()), 1) << plain;
  }
  EXPECT_EQ(names, protocol_names());
  EXPECT_EQ(std::ranges::count(names, "lra-strict"), 1);
  EXPECT_EQ(std::ranges::count(names, "nystromformer2021"), 1);
}

}  // namespace
}  // namespace lra
