// The commands as a user meets them: help, versions, completion and names that were meant.
#include <gtest/gtest.h>
#include <torch/version.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include "attention_variants/base/files.h"
#include "harness/host/gpu.h"
#include "tests/harness/program.h"

namespace lra {
namespace {

using Words = std::vector<std::string>;

// The subcommands that a help text lists.
Words listed(const std::string& help) {
  Words names;
  bool listing = false;
  for (const std::string& line : text_lines(help)) {
    std::string lower = line;
    for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (lower == "subcommands:") {
      listing = true;
    } else if (listing && line.starts_with("  ") && line.size() > 2 && line[2] != ' ') {
      names.push_back(line.substr(2, line.find(' ', 2) - 2));
    }
  }
  return names;
}

// Asks for the help of a command and of all below it; their names go to `seen`.
void check_help(const Words& words, Words& seen) {
  std::string command = "lra";
  for (const std::string& word : words) command += " " + word;
  SCOPED_TRACE(command);
  seen.push_back(command);
  Words asking = words;
  asking.push_back("--help");
  const std::string help = output_of(asking);
  EXPECT_NE(help.find(command + " "), std::string::npos) << help;
  EXPECT_NE(help.find("--help"), std::string::npos) << help;
  for (const std::string& name : listed(help)) {
    Words inner = words;
    inner.push_back(name);
    check_help(inner, seen);
  }
}

TEST(CommandTest, EveryCommandHasHelpOnStdout) {
  Words seen;
  check_help({}, seen);
  for (const char* command :
       {"lra list",        "lra list attentions", "lra list tasks",    "lra list protocols",
        "lra data",        "lra data prepare",    "lra data verify",   "lra data show",
        "lra data export", "lra protocol",        "lra protocol show", "lra protocol diff",
        "lra train",       "lra evaluate",        "lra suite",         "lra profile",
        "lra tune",        "lra report",          "lra attend",        "lra check",
        "lra help",        "lra completion",      "lra predict"}) {
    EXPECT_EQ(std::ranges::count(seen, command), 1) << command;
  }
}

TEST(CommandTest, VersionIsOneLine) {
  const std::string version = output_of({"--version"});
  EXPECT_TRUE(version.starts_with("lra " LRA_VERSION " ")) << version;
  EXPECT_NE(version.find("torch " TORCH_VERSION), std::string::npos) << version;
  EXPECT_NE(version.find(" · cuda " + host::cuda_version() + " · "), std::string::npos) << version;
  EXPECT_EQ(std::ranges::count(version, '\n'), 1) << version;
#if defined(__x86_64__)
  EXPECT_NE(version.find(" · denormals zero"), std::string::npos) << version;
#endif
}

TEST(CommandTest, NamesTheCommandThatWasMeant) {
  expect_refusal({"lst"}, 2, "unknown command 'lst' in lra; did you mean 'list'?");
  expect_refusal({"list", "attention"}, 2,
                 "unknown command 'attention' in lra list; did you mean 'attentions'?");
  expect_refusal({"protocol", "dif"}, 2,
                 "unknown command 'dif' in lra protocol; did you mean 'diff'?");
  expect_refusal({"suit", "--budget", "smoke"}, 2, "unknown command 'suit' in lra; did you mean");
  expect_refusal({"data", "prepar", "listops", "--out", "d"}, 2,
                 "unknown command 'prepar' in lra data; did you mean 'prepare'?");
  expect_refusal({"list", "tasks", "--jsn"}, 2, "unknown option '--jsn'");
  expect_refusal({"list", "tasks", "--jsn"}, 2, "did you mean '--json'?");
  expect_refusal({"list"}, 2, "lra list needs a command: attentions, tasks, protocols");
  expect_refusal({}, 2, "lra needs a command: list, data");
}

TEST(HelpTest, WhatExcludesAnOptionIsInOrder) {
  const std::string help = output_of({"list", "attentions", "--help"});
  EXPECT_NE(help.find("--json Excludes: --markdown NAME\n"), help.npos) << help;
  EXPECT_NE(help.find("--markdown Excludes: --json "), help.npos) << help;
}

TEST(HelpTest, IsThatOfTheCommand) {
  EXPECT_EQ(output_of({"help"}), output_of({"--help"}));
  EXPECT_EQ(output_of({"help", "list", "attentions"}), output_of({"list", "attentions", "--help"}));
  expect_refusal({"help", "lst"}, 2, "unknown command 'lst' in lra; did you mean 'list'?");
}

TEST(HelpTest, OfASuitesStatusNamesTheFolderThatItNeeds) {
  EXPECT_NE(output_of({"suite", "status", "--help"}).find("It takes --out of lra suite"),
            std::string::npos);
}

TEST(HelpTest, BashCompletesCommandsOptionsAndNames) {
  const Scratch scratch;
  write_file(scratch.path() / "lra.bash", output_of({"completion", "bash"}));
  const auto completed = [&](const std::string& words, int at) {
    const std::string script = "source " + (scratch.path() / "lra.bash").string() +
                               "; COMP_WORDS=(" + words + "); COMP_CWORD=" + std::to_string(at) +
                               "; _lra; echo \"${COMPREPLY[@]}\"";
    return Program({"-c", script}, "/bin/bash").wait().text();
  };
  EXPECT_EQ(completed("lra lis", 1), "list\n");
  EXPECT_EQ(completed("lra list att", 2), "attentions\n");
  EXPECT_EQ(completed("lra train --att", 2), "--attention\n");
  EXPECT_EQ(completed("lra suite plan --bud", 3), "--budget\n");
  EXPECT_EQ(completed("lra suite plan --onl", 3), "\n");
  EXPECT_EQ(completed("lra suite submit --job", 3), "\n");
  EXPECT_EQ(completed("lra suite submit --dev", 3), "--device\n") << "and not --devices";
  EXPECT_EQ(completed("lra suite status --ta", 3), "\n");
  EXPECT_EQ(completed("lra suite status --ou", 3), "--out\n");
  EXPECT_EQ(completed("lra train --attention nys", 3), "nystrom\n");
  EXPECT_EQ(completed("lra protocol show t", 3), "tay2020\n");
  EXPECT_EQ(completed("lra list attentions nys", 3), "nystrom\n");
  EXPECT_EQ(completed("lra help tr", 2), "train\n");
  EXPECT_EQ(completed("lra help data pre", 3), "prepare\n");
  EXPECT_EQ(completed("lra evaluate --split t", 3), "train test\n");
  EXPECT_EQ(completed("lra evaluate --checkpoint b", 3), "best\n");
  EXPECT_EQ(completed("lra train --threads -", 3), "\n") << "a number comes there";
  EXPECT_EQ(completed("lra profile --chi", 2), "\n") << "of our own processes";
  const std::string zsh = output_of({"completion", "zsh"});
  EXPECT_NE(zsh.find("bashcompinit"), std::string::npos);
  // To zsh $path is $PATH, and a name after the colon of a slice a modifier.
  for (const char* wrong : {"path=", "$path", ":COMP_CWORD"})
    EXPECT_EQ(zsh.find(wrong), std::string::npos) << wrong;
  EXPECT_NE(output_of({"completion", "fish"}).find("complete -c lra"), std::string::npos);
}

}  // namespace
}  // namespace lra
