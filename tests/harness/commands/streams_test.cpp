// What reaches a terminal, a file or a full disk: all of it, in its order, and nothing that a
// terminal would obey.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "results/records/result.h"
#include "tests/harness/program.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

// The program in a shell; "lra" stands for it.
ProgramResult run_shell(const std::string& text) {
  return Program({"-c", fmt::format("lra() {{ {} \"$@\"; }}; {}", LRA_PROGRAM, text)}, "/bin/sh")
      .wait();
}

TEST(StreamsTest, WhatCannotBePrintedIsAnError) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full on this machine";
  for (const char* words :
       {"list attentions", "list attentions --json", "list tasks", "--help", "train --help",
        "--version", "protocol show lra-strict", "protocol diff lra-strict tay2020"}) {
    const ProgramResult result = run_shell(fmt::format("lra {} > /dev/full", words));
    EXPECT_EQ(result.status, 1) << words;
    EXPECT_EQ(result.err,
              "lra: cannot write standard output: No space left on device; free some space there "
              "or choose another place\n")
        << words;
  }
}

TEST(StreamsTest, MessagesThatCannotBeWrittenEndNothing) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full on this machine";
  EXPECT_EQ(run_shell("lra list attentionz 2> /dev/full").status, 2);
  EXPECT_EQ(run_shell("lra protocol show nothing 2> /dev/full").status, 2);
}

// Files that are opened first would take the numbers of those that are closed, and what is printed.
TEST(StreamsTest, WhatIsClosedIsNowhere) {
  const Scratch scratch;
  const std::string data = (scratch.path() / "data").string();
  EXPECT_EQ(run_shell(fmt::format("lra data prepare listops --train 8 --dev 4 --test 4 --out {} "
                                  "<&- >&- 2>&-",
                                  data))
                .status,
            0);
  const ProgramResult verified = run_shell(fmt::format("lra data verify {}/listops", data));
  EXPECT_EQ(verified.status, 0) << verified.text();
}

TEST(StreamsTest, BothInOneFileKeepTheirOrder) {
  const Scratch scratch;
  Result r;
  r.task = "listops";
  r.attention = {.name = "standard", .label = "standard", .options = json::object()};
  r.protocol = "lra-strict";
  r.test = Accuracy{.accuracy = 0.5, .correct = 1, .count = 2, .ci95 = {}, .by_length = {}};
  r.data.fingerprint = "abc";
  const std::string folder = scratch.path().string();
  for (int64_t i = 0; i < 40; ++i) {
    r.seed = static_cast<uint64_t>(i);
    fs::create_directories(scratch.path() / "runs" / std::to_string(i));
    write_json(scratch.path() / "runs" / std::to_string(i) / "result.json", make_result(r));
  }
  const ProgramResult result =
      run_shell(fmt::format("lra report {0}/runs --out {0}/out 2>&1", folder));
  ASSERT_EQ(result.status, 0) << result.out;
  const size_t said = result.out.find("\nwrote ");
  ASSERT_NE(said, std::string::npos) << result.out;
  EXPECT_EQ(std::ranges::count(result.out.substr(said + 1), '\n'), 1)
      << "the tables, which are printed before, come after it:\n"
      << result.out;
}

TEST(StreamsTest, WhatATerminalWouldObeyIsEscaped) {
  const std::string hostile = "x\x1b[31m\xe2\x80\xae\xc2\x9b";
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"data", "show", hostile},
        {"evaluate", hostile},
        {"train", "--task", hostile, "--attention", "standard", "--run", "/no"},
        {hostile},
        {"report", hostile, "--out", "/tmp"},
        {"suite", "status", "--out", hostile}}) {
    const ProgramResult result = run_program(words);
    EXPECT_NE(result.status, 0);
    EXPECT_NE(result.err.find("x\\x1b[31m\\xe2\\x80\\xae\\xc2\\x9b"), std::string::npos)
        << result.err;
    for (const char* raw : {"\x1b", "\xe2\x80\xae", "\xc2\x9b"})
      EXPECT_EQ(result.text().find(raw), std::string::npos) << result.text();
  }
}

}  // namespace
}  // namespace lra
