// Protocols in words, the file that `lra protocol show` prints, and docs/protocols.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "lra/config/choices.h"
#include "lra/config/protocol.h"
#include "results/print/table.h"
#include "results/published/published.h"
#include "tests/harness/program.h"

namespace lra {
namespace {

std::string words_of(const std::vector<std::string>& arguments) {
  const ProgramResult result = run_program(arguments);
  EXPECT_EQ(result.status, 0) << result.err;
  return result.out;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// Without the line breaks of wrapping.
std::string unwrapped(const std::string& text) {
  std::string result;
  for (const std::string& line : lines_of(text)) {
    const size_t first = std::min(line.find_first_not_of(' '), line.size());
    result += " " + line.substr(first);
  }
  return result;
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// Of a table beside which a protocol stands first: as many test samples as its runs test.
TEST(PublishedAccuracies, AreOfTheSamplesThatTheProtocolTests) {
  const std::map<std::string, int64_t> whole = {{"listops", 2'000},
                                                {"text", 25'000},
                                                {"retrieval", 17'437},
                                                {"image", 10'000},
                                                {"pathfinder", 20'000}};
  int compared = 0;
  for (const char* name : {"nystromformer2021", "skyformer2021", "tay2020"}) {
    const auto set = std::ranges::find(published(), name, &Published::name);
    ASSERT_NE(set, published().end()) << name;
    ASSERT_EQ(set->accuracy->protocols.at(0), name);
    for (const auto& [task_name, count] : whole) {
      const EvaluationOptions evaluation =
          make_config(load_protocol(name), task_name, parse_attention("standard"), {}, 0, "float32")
              .settings.evaluation;
      const int64_t left_out = evaluation.drop_last ? count % evaluation.batch : 0;
      EXPECT_EQ(set->accuracy->test_examples.at(task_name), count - left_out)
          << name << " " << task_name;
      ++compared;
    }
  }
  EXPECT_EQ(compared, 15);
}

// The lines from "task NAME", or "all tasks", to the next heading.
std::string section_of(const std::string& text, const std::string& heading) {
  std::string section;
  bool in = false;
  for (const std::string& line : lines_of(text)) {
    if (!line.empty() && line[0] != ' ') in = line == heading;
    if (in) section += line + "\n";
  }
  return section;
}

TEST(ProtocolWords, SayEveryLineOfEveryProtocolWithin100Columns) {
  for (const std::string& name : protocol_names()) {
    const std::string text = words_of({"protocol", "show", name, "--words"}),
                      flat = unwrapped(text);
    const Protocol protocol = load_protocol(name);
    for (const std::string& line : protocol.follows)
      EXPECT_GE(count_of(flat, "follows: " + line), 1u) << name << ": " << line;
    for (const std::string& line : protocol.choices)
      EXPECT_GE(count_of(flat, "differs: " + line), 1u) << name << ": " << line;
    for (const std::string& line : lines_of(text)) EXPECT_LE(display_width(line), 100u) << line;
  }
}

TEST(ProtocolWords, StandByTaskAndVariant) {
  const std::string text = words_of({"protocol", "show", "tay2020", "--words"});
  const std::string all = unwrapped(section_of(text, "all tasks")),
                    listops = unwrapped(section_of(text, "task listops")),
                    image = unwrapped(section_of(text, "task image"));
  EXPECT_EQ(count_of(all, "runs: local → local_tay2020"), 1u) << all;
  EXPECT_EQ(count_of(all, "input.mask: nonzero → none"), 4u) << all;
  EXPECT_EQ(count_of(all, "runs: performer"), 0u) << "not on listops";
  EXPECT_EQ(count_of(listops, "runs: performer"), 0u);
  EXPECT_EQ(count_of(image, "runs: performer → performer_tay2020"), 1u) << image;
  EXPECT_EQ(count_of(image, "optimizer.weight_decay: 0.0 → 0.7"), 1u) << image;
  EXPECT_EQ(count_of(image, "sinkhorn on text, image: mean pooling"), 1u) << image;
  EXPECT_EQ(count_of(listops, "sinkhorn on text, image"), 0u);
  EXPECT_EQ(count_of(listops, "length 2000"), 1u) << listops;
  const std::string part = words_of(
      {"protocol", "show", "tay2020", "--words", "--task", "image", "--attention", "sinkhorn"});
  EXPECT_EQ(count_of(part, "bigbird"), 0u) << part;
  EXPECT_EQ(count_of(part, "task listops"), 0u) << part;
  EXPECT_EQ(count_of(unwrapped(part), "runs: sinkhorn → sinkhorn_tay2020"), 1u) << part;
}

TEST(ProtocolWords, DifferencesStandByTaskAndVariantWithTheirReasons) {
  const std::string text = words_of({"protocol", "diff", "tay2020", "lra-strict"}),
                    flat = unwrapped(text);
  const auto all = lines_of(section_of(text, "all tasks")),
             listops = lines_of(section_of(text, "task listops")),
             image = lines_of(section_of(text, "task image"));
  const auto has = [](const std::vector<std::string>& lines, const std::string& line) {
    return std::ranges::count(lines, line) == 1;
  };
  EXPECT_TRUE(has(all, "  model.init: flax → torch")) << text;
  EXPECT_TRUE(has(all, "    runs: local_tay2020 → local")) << text;
  EXPECT_TRUE(has(listops, "  input.length: 2000 → 2048")) << text;
  EXPECT_FALSE(has(listops, "  model.init: flax → torch")) << "once, under all tasks";
  EXPECT_TRUE(has(image, "    runs: performer_tay2020 → performer")) << text;
  EXPECT_TRUE(has(listops, "    model.pooling: mean in both")) << "sinkhorn's alone\n" << text;
  for (const char* name : {"tay2020", "lra-strict"}) {
    for (const std::string& line : load_protocol(name).choices)
      EXPECT_GE(count_of(flat, std::string(name) + " differs: " + line), 1u) << line;
  }
  for (const std::string& line : lines_of(text)) EXPECT_LE(display_width(line), 100u) << line;
  const std::string same = words_of({"protocol", "diff", "tay2020", "tay2020"});
  EXPECT_EQ(same, "tay2020 → tay2020\n");
}

TEST(ProtocolWords, ATaskThatOneProtocolLacksIsSaid) {
  const Scratch scratch;
  const std::string path = (scratch.path() / "mine.json").string();
  write_file(path, R"({"schema": "lra.protocol/1", "name": "mine",
                       "tasks": {"text": {"training": {"steps": 9000}, "schedule": {"warmup": 10}}}})");
  const std::string text = words_of({"protocol", "diff", path, "lra-strict"});
  EXPECT_EQ(count_of(section_of(text, "task text"), "training.steps: 9000 → 20000"), 1u) << text;
  EXPECT_EQ(count_of(section_of(text, "task image"), "only in: lra-strict"), 1u) << text;
  const std::string reversed = words_of({"protocol", "diff", "lra-strict", path});
  EXPECT_EQ(count_of(section_of(reversed, "task image"), "only in: lra-strict"), 1u) << reversed;
}

// The file that an entry is of need not be there.
TEST(ProtocolWords, ListEntriesForAttentionsFromFiles) {
  const Scratch scratch;
  const auto with_rate = [&](const std::string& name, double rate) {
    const std::string path = (scratch.path() / (name + ".json")).string();
    json protocol = {{"schema", "lra.protocol/1"}, {"name", name}, {"extends", "lra-strict"}};
    protocol["tasks"]["listops"]["attentions"]["python:my.py:Softplus"]["settings"]["optimizer"] = {
        {"lr", rate}};
    write_json(path, protocol);
    return path;
  };
  const std::string one = with_rate("one", 0.003), other = with_rate("other", 0.004);
  const std::string shown = unwrapped(words_of({"protocol", "show", one, "--words"}));
  EXPECT_EQ(count_of(shown, "python:my.py:Softplus"), 1u) << shown;
  EXPECT_EQ(count_of(shown, "optimizer.lr: 0.0001 → 0.003"), 1u) << shown;
  const auto between = [](const std::string& a, const std::string& b) {
    return unwrapped(words_of({"protocol", "diff", a, b}));
  };
  EXPECT_EQ(count_of(between(one, other), "optimizer.lr: 0.003 → 0.004"), 1u);
  EXPECT_EQ(count_of(between("lra-strict", one), "optimizer.lr: 0.0001 → 0.003"), 1u);
}

TEST(ProtocolWords, AFileWithoutTitleAndSourceHasNoEmptyOnes) {
  const Scratch scratch;
  const std::string path = (scratch.path() / "mine.json").string();
  write_file(path, R"({"schema": "lra.protocol/1", "name": "mine", "extends": "lra-strict"})");
  const std::vector<std::string> lines =
      lines_of(words_of({"protocol", "show", path, "--words", "--task", "listops"}));
  EXPECT_EQ(lines.at(0), "mine");
  EXPECT_EQ(lines.at(1), "");
  EXPECT_EQ(std::ranges::count(lines, "task listops"), 1);
}

TEST(ProtocolWords, ASubjectIsNamesAlone) {
  using Names = std::vector<std::string>;
  const auto subject = [](const std::string& line) { return choice_subject(line); };
  EXPECT_EQ(subject("sinkhorn on text, image: x").attentions, Names{"sinkhorn"});
  EXPECT_EQ(subject("sinkhorn on text, image: x").tasks, (Names{"text", "image"}));
  EXPECT_EQ(subject("text: 1,000 bytes: x").tasks, Names{"text"});
  EXPECT_EQ(subject("linformer and performer: x").attentions, (Names{"linformer", "performer"}));
  for (const char* line : {"arithmetic in float32; x", "seeds 0, 1: x", "sinkhorn on: x", "text",
                           "sinkhorn on nothing: x", "text, x: y", ": x", ""}) {
    EXPECT_TRUE(subject(line).tasks.empty() && subject(line).attentions.empty()) << line;
  }
}

TEST(ProtocolFile, WhatShowPrintsIsAProtocol) {
  const Scratch scratch;
  for (const std::string& name : protocol_names()) {
    const std::string path = (scratch.path() / "mine.json").string(),
                      printed = words_of({"protocol", "show", name});
    write_file(path, printed);
    EXPECT_EQ(words_of({"protocol", "show", path}), printed) << name;
    EXPECT_EQ(words_of({"protocol", "diff", name, path}), name + " → " + name + "\n");
    const std::string task = load_protocol(name).tasks.items().begin().key();
    for (const char* attention : {"standard", "sinkhorn"}) {
      const auto config = [&](const std::string& protocol) {
        return make_config(load_protocol(protocol), task, parse_attention(attention), {}, 0,
                           "float32")
            .to_json();
      };
      EXPECT_EQ(config(path), config(name)) << name << " " << attention;
    }
    write_file(path, words_of({"protocol", "show", name, "--task", task}));
    EXPECT_EQ(run_program({"protocol", "show", path}).status, 0) << "one task of it, too";
  }
}

TEST(ProtocolFile, ABuiltInNameIsRefusedToWhatSaysSomethingElse) {
  const Scratch scratch;
  const std::string path = (scratch.path() / "mine.json").string();
  const json printed = json::parse(words_of({"protocol", "show", "tay2020"}));
  const auto error = [&](const char* at, const json& value) {
    json changed = printed;
    changed[json::json_pointer(at)] = value;
    write_file(path, changed.dump());
    return run_program({"protocol", "show", path}).err;
  };
  for (const auto& [at, value] : {std::pair<const char*, json>{"/tasks/text/training/steps", 1},
                                  {"/attentions/bigbird/block", 32},
                                  {"/variants/reformer", "reformer"},
                                  {"/tasks/image/attentions/sinkhorn/options/block", 32},
                                  {"/attention_settings/linear/input/mask", "length"}}) {
    EXPECT_NE(error(at, value).find("the name tay2020 is a built-in protocol's"), std::string::npos)
        << at;
  }
  EXPECT_EQ(error("/choices/0", "a remark of mine"), "") << "which decides no run";
}

TEST(ProtocolFile, InheritsWhatItsParentSaysUnlessItDoesNot) {
  const Scratch scratch;
  const std::string path = (scratch.path() / "mine.json").string();
  const auto shown = [&](const char* more) {
    write_file(path, std::string(R"({"schema": "lra.protocol/1", "name": "mine",
      "extends": "lra-strict", "choices": ["c"], "follows": ["f"])") +
                         more + "}");
    return load_protocol(path);
  };
  EXPECT_EQ(shown("").choices.size(), load_protocol("lra-strict").choices.size() + 1);
  EXPECT_EQ(shown(R"(, "inherit_choices": false)").choices, std::vector<std::string>{"c"});
  EXPECT_EQ(shown(R"(, "inherit_choices": false)").follows, std::vector<std::string>{"f"});
  // What holds of lra-strict alone is not said of a release.
  for (const char* name : {"nystromformer2021", "skyformer2021"}) {
    for (const std::string& line : load_protocol(name).choices)
      EXPECT_EQ(std::ranges::count(load_protocol("lra-strict").choices, line), 0) << line;
  }
}

// One table a protocol, with every line once and no other.
TEST(ProtocolDocument, HoldsTheLinesOfEveryProtocol) {
  const std::string page = read_file(LRA_SOURCE_DIR "/docs/protocols.md");
  for (const std::string& name : protocol_names()) {
    const size_t begin = page.find("\n### " + name + "\n");
    ASSERT_NE(begin, std::string::npos) << name;
    const size_t end = page.find("\n### ", begin + 1);
    std::vector<std::string> rows;
    for (const std::string& line : lines_of(page.substr(begin, end - begin))) {
      if (line.starts_with("| ")) rows.push_back(line);
    }
    ASSERT_FALSE(rows.empty()) << name;
    rows.erase(rows.begin());  // the headings
    std::vector<std::string> expected;
    const Protocol protocol = load_protocol(name);
    for (const std::string& line : protocol.follows) expected.push_back("| " + line + " | – | – |");
    for (const std::string& line : protocol.choices) {
      const size_t why = line.find("; ");
      expected.push_back(why == std::string::npos ? "| – | " + line + " | – |"
                                                  : "| – | " + line.substr(0, why) + " | " +
                                                        line.substr(why + 2) + " |");
    }
    EXPECT_EQ(rows, expected) << name;
  }
}

TEST(ProtocolDocument, EveryReleasedFormHasAPublishedRow) {
  for (const AttentionEntry* form : released_forms()) {
    const AttentionRecord record{
        .name = form->info.name, .label = form->info.name, .options = form->default_options};
    const auto rows = std::ranges::count_if(published(), [&](const Published& p) {
      return p.accuracy && p.accuracy->row(record) != nullptr &&
             p.accuracy->row(record)->variant->name == form->info.released_form_of;
    });
    EXPECT_EQ(rows, 1) << form->info.name;
  }
}

}  // namespace
}  // namespace lra
