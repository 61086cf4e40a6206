// Files and folders that are not what they should be: links, pipes, names.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "results/records/result.h"
#include "tests/harness/program.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

class PlacesTest : public testing::Test {
 protected:
  std::string in(const std::string& name) const { return (scratch_.path() / name).string(); }
  // Fails unless the words end with that status and one line that says this.
  void expect_error(const std::vector<std::string>& words, const std::string& text) const {
    Program program(words);
    for (int i = 0; i < 2000 && !program.ended(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_TRUE(program.ended()) << words[0] << " waits for ever";
    program.send(SIGKILL);
    const ProgramResult result = program.wait();
    EXPECT_EQ(result.status, 1) << result.text();
    EXPECT_NE(result.err.find(text), std::string::npos) << result.err;
    EXPECT_EQ(text_lines(result.err).size(), 1u) << result.err;
  }
  Scratch scratch_;
};

TEST_F(PlacesTest, WhatTheLibraryThrowsIsPutIntoWords) {
  fs::create_symlink("loop", in("loop"));
  expect_error(
      {"data", "verify", in("loop")},
      "lra: cannot look at " + in("loop") + ": Too many levels of symbolic links; its symbolic");
  const std::string name(300, 'x');
  expect_error({"data", "verify", in(name)}, ": File name too long; choose a shorter name");
  expect_error({"evaluate", in(name)}, ": File name too long; choose a shorter name");
}

TEST_F(PlacesTest, ARunWhoseFilesAreOthersIsRefused) {
  prepare_tiny_listops(in("data"));
  ASSERT_EQ(run_program(tiny_train(in("data"), in("run"), "standard")).status, 0);
  fs::rename(in("run/checkpoint-best.safetensors"), in("best"));
  ASSERT_EQ(mkfifo(in("run/checkpoint-best.safetensors").c_str(), 0600), 0);
  expect_error({"evaluate", in("run")},
               "checkpoint-best.safetensors: it is no regular file; put the file itself there");
  fs::remove(in("run/checkpoint-best.safetensors"));
  fs::rename(in("best"), in("run/checkpoint-best.safetensors"));

  json config = read_json(in("run/config.json"));
  config["task"] = "../../etc\xe2\x80\xae";
  write_json(in("run/config.json"), config);
  expect_error({"evaluate", in("run")},
               "unknown task '../../etc\\xe2\\x80\\xae' in " + in("run/config.json"));

  fs::remove(in("run/config.json"));
  ASSERT_EQ(mkfifo(in("run/config.json").c_str(), 0600), 0);
  expect_error({"evaluate", in("run")}, "config.json: it is a pipe, and no one writes to it");
}

TEST_F(PlacesTest, ALinkThatLeadsNowhereIsExplained) {
  prepare_tiny_listops(in("data"));
  fs::create_symlink("nowhere", in("link"));
  const std::string text = in("link") + " is a symbolic link to nowhere, which does not exist";
  expect_error(tiny_train(in("data"), in("link"), "standard"), text);
  expect_error({"data", "prepare", "listops", "--out", in("link")}, text);
  // Before anything is generated: all of it takes minutes.
  expect_error({"data", "prepare", "pathx", "--out", in("link")}, text);
}

// Who may put a link into a folder could else have any file of the user's overwritten.
TEST_F(PlacesTest, LinksAtNamesOfOursAreReplaced) {
  prepare_tiny_listops(in("data"));
  write_file(in("mine"), "mine");
  fs::create_directories(in("run"));
  fs::create_directories(in("out"));
  for (const char* name : {"run/predictions-test.csv", "out/report.md", "out/report.html"})
    fs::create_symlink("../mine", in(name));
  fs::create_symlink("../new", in("run/metrics.jsonl"));
  ASSERT_EQ(run_program(tiny_train(in("data"), in("run"), "standard")).status, 0);
  ASSERT_EQ(run_program({"report", in("run"), "--out", in("out")}).status, 0);
  EXPECT_EQ(read_file(in("mine")), "mine");
  EXPECT_FALSE(fs::exists(in("new")));
  for (const char* name : {"run/metrics.jsonl", "run/predictions-test.csv", "out/report.md"})
    EXPECT_FALSE(fs::is_symlink(in(name))) << name;
}

}  // namespace
}  // namespace lra
