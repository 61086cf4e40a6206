// A suite goes on with the files of its attentions as its folder keeps them, measures those that it
// trained, names one that nothing keeps, and goes on with data and a protocol that have moved.
#include "harness/suite/changed_files.h"

#include "harness/suite/suite_folder.h"
#include "tests/harness/suite/fixture.h"

namespace lra::suite {
namespace {

namespace fs = std::filesystem;

const fs::path kScripts = fs::path(LRA_SOURCE_DIR) / "tests" / "fixtures";

class ChangedFilesTest : public SuiteTest {
 protected:
  void SetUp() override {
    write_budget(30);
    fs::copy_file(kScripts / "torchscript-linear.pt", file_);
    sha256_ = sha256_file(file_);
  }
  // Two seeds, without the profile.
  std::vector<std::string> two(const std::string& name) const {
    return with(words(name, attention_), {"--seeds", "0,1", "--only", "0-1"});
  }
  fs::path seed(const std::string& name, int64_t seed) const {
    return run(name, folder_name(attention_), seed);
  }
  void replace_file() const {
    fs::copy_file(kScripts / "torchscript-softmax.pt", file_, fs::copy_options::overwrite_existing);
  }
  // The first seed cut, the second not begun.
  void cut(const std::string& name) const {
    ASSERT_TRUE(kill_in_training(two(name), {seed(name, 0)}, std::chrono::milliseconds(0)));
    ASSERT_FALSE(fs::exists(seed(name, 1) / kConfigFile));
  }
  void expect_trained_by_the_old_one(const std::string& name) const {
    for (const int64_t of : {0, 1}) {
      const Result result = read_result(seed(name, of) / kResultFile);
      EXPECT_EQ(result.status, Status::ok) << result.reason;
      EXPECT_EQ(result.attention.label, attention_);
      EXPECT_EQ(result.attention.options["file"], file_.string());
      EXPECT_EQ(result.attention.options["sha256"], sha256_);
      EXPECT_EQ(sha256_file(seed(name, of) / kAttentionFile), sha256_);
    }
  }

  // In the profile, of which it is one attention.
  void expect_measured_by_the_old_one(const std::string& name) const {
    int64_t cells = 0;
    for (const json& cell : read_lines(out(name) / kProfileFile)) {
      const json& attention = cell["attention"];
      if (attention["label"] == "standard") continue;
      EXPECT_EQ(cell["status"], "ok") << cell["reason"];
      EXPECT_EQ(attention["label"], attention_);
      EXPECT_EQ(attention["options"]["file"], file_.string());
      EXPECT_EQ(attention["options"]["sha256"], sha256_);
      ++cells;
    }
    EXPECT_EQ(cells, 1);
  }
  // Where the suite's folder keeps it.
  fs::path kept(const std::string& name) const {
    return out(name) / kAttentionsFolder / sha256_.substr(0, 16) / kAttentionFile;
  }

  const fs::path file_ = scratch_.path() / "my.pt";
  const std::string attention_ = "torchscript:" + file_.string();
  std::string sha256_;
};

// Of a suite that is made in the folder of its file.
class NamedFromFolderTest : public ChangedFilesTest {
 protected:
  void TearDown() override { fs::current_path(before_); }
  const fs::path before_ = fs::current_path();
};

TEST_F(NamedFromFolderTest, ItGoesOnThereAlone) {
  fs::current_path(scratch_.path());
  const auto w = with(words("s", "torchscript:my.pt,standard"), {"--only", "1"});
  ASSERT_EQ(run_program(w).status, 0);
  fs::current_path("/");
  const std::vector<std::string> bare = {"suite",    "--out",  out("s").string(),
                                         "--resume", "--only", "1"};
  const std::string why = "torchscript:my.pt is named from the folder " + scratch_.path().string() +
                          ": call lra there, with --out " + out("s").string();
  expect_refusal(bare, 1, why);
  fs::current_path(scratch_.path());
  EXPECT_EQ(run_program(bare).status, 0);
}

TEST_F(ChangedFilesTest, ASuiteGoesOnWithWhatItsFolderKeeps) {
  ASSERT_EQ(run_program(two("whole")).status, 0);
  cut("changed");
  remove_tree(out("changed") / kAttentionsFolder);  // as earlier suites, whose runs alone keep it
  cut("gone");
  replace_file();
  const ProgramResult changed = run_program(two("changed"));
  ASSERT_EQ(changed.status, 0) << changed.err;
  EXPECT_NE(
      changed.err.find(file_.string() + " has changed; " + attention_ +
                       " goes on with the file as it was, " + kept("changed").string() + "\n"),
      std::string::npos)
      << changed.err;
  fs::remove(file_);
  const ProgramResult gone = run_program(
      {"suite", "--out", out("gone").string(), "--resume", "--only", "0-1", "--threads", "1"});
  ASSERT_EQ(gone.status, 0) << gone.err;
  EXPECT_NE(gone.err.find(file_.string() + " is gone; "), std::string::npos) << gone.err;
  for (const char* name : {"changed", "gone"}) {
    expect_trained_by_the_old_one(name);
    for (const int64_t of : {0, 1}) expect_same_run(seed("whole", of), seed(name, of));
  }
  EXPECT_EQ(read_json(out("changed") / kSuiteFile)["cells"],
            read_json(out("whole") / kSuiteFile)["cells"])
      << "what a suite is stays";
}

TEST_F(ChangedFilesTest, AFileThatNoRunKeepsIsNamed) {
  cut("s");
  replace_file();
  fs::remove(seed("s", 0) / kAttentionFile);
  remove_tree(out("s") / kAttentionsFolder);
  const std::string message = attention_ + ": " + file_.string() +
                              " has changed since its runs in " + out("s").string() +
                              " were planned, and none of them keeps what it was; put that back, "
                              "or choose another --out folder";
  expect_refusal(two("s"), 1, message);
  expect_refusal({"suite", "--out", out("s").string(), "--resume"}, 1, message);
  // Another difference is told first.
  EXPECT_NE(run_program(with(two("s"), {"--set", "model.layers=1"})).err.find("(--set none there"),
            std::string::npos);
  fs::copy_file(kScripts / "torchscript-linear.pt", file_, fs::copy_options::overwrite_existing);
  EXPECT_EQ(run_program(two("s")).status, 0);
  expect_trained_by_the_old_one("s");
}

// Its later processes read it anew: of the second cell, of the first one's test, of the profile.
TEST_F(ChangedFilesTest, WhatChangesMeanwhileIsReadAsItWas) {
  Program program(with(words("s", attention_), {"--seeds", "0,1"}));
  ASSERT_TRUE(wait_until(program, [&] { return fs::exists(seed("s", 0) / kLastCheckpoint); }));
  replace_file();
  const ProgramResult ended = program.wait();
  EXPECT_EQ(ended.status, 0) << ended.err;
  expect_trained_by_the_old_one("s");
  expect_measured_by_the_old_one("s");
}

// As suites of before measured what had changed by then.
TEST_F(ChangedFilesTest, AProfileOfAnotherFileIsMeasuredAnew) {
  const std::vector<std::string> one = words("s", "standard," + attention_);
  ASSERT_EQ(run_program(one).status, 0);
  const fs::path profile = out("s") / kProfileFile, done = out("s") / "profile.done";
  std::string text, others;
  for (json cell : read_lines(profile)) {
    json& options = cell["attention"]["options"];
    if (options.contains("sha256")) {
      options["sha256"] = std::string(64, '0');
    } else {
      others += cell.dump() + "\n";
    }
    text += cell.dump() + "\n";
  }
  write_file(profile, text);
  json mark = read_json(done);
  mark["sha256"] = sha256_file(profile);
  write_json(done, mark);
  const ProgramResult again = run_program(one);
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_NE(again.err.find("1 cell of another file than was trained is measured anew"),
            std::string::npos)
      << again.err;
  expect_measured_by_the_old_one("s");
  EXPECT_NE(read_file(profile).find(others), std::string::npos);
  EXPECT_EQ(read_json(done)["sha256"], sha256_file(profile));
}

TEST_F(ChangedFilesTest, ASuiteThatIsWithdrawnKeepsNothing) {
  SuiteRequest request;
  request.tasks = {"listops"};
  request.attentions = parse_attentions("standard," + attention_);
  request.seeds = {0, 1};
  request.budget = load_budget(budget_.string());
  request.out = out("s");
  const OpenedSuite opened = open_suite(plan_suite(request), Resume::no, 0, nullptr);
  EXPECT_EQ(sha256_file(kept("s")), sha256_);
  EXPECT_FALSE(changed_now(opened.suite, request.attentions[1]));
  replace_file();
  EXPECT_EQ(changed_now(opened.suite, request.attentions[1]).value().kept, kept("s"));
  EXPECT_FALSE(changed_now(opened.suite, request.attentions[0])) << "it has no file";
  withdraw_suite(opened);
  EXPECT_FALSE(fs::exists(out("s")));
}

// Options as config.json holds them, without Python.
TEST_F(ChangedFilesTest, RunsWithOtherOptionsOfAClassKeepItToo) {
  const fs::path source = scratch_.path() / "my.py";
  write_file(source, "as it was");
  std::vector<PlannedRun> runs;
  for (const int64_t features : {4, 8}) {
    const json given = {{"file", source.string()}, {"class", "Gated"}, {"features", features}};
    json options = given;
    options["sha256"] = sha256_file(source);
    runs.push_back(
        {.config = {{"attention", {{"name", "python"}, {"given", given}, {"options", options}}}},
         .run = out("features" + std::to_string(features))});
  }
  write_file(source, "changed");
  fs::create_directories(runs[0].run);
  write_file(runs[0].run / kAttentionSource, "as it was");
  const std::vector<ChangedFile> changed = changed_files(runs, out("s"));
  ASSERT_EQ(changed.size(), 2u);
  for (const ChangedFile& one : changed)
    EXPECT_EQ(one.kept, runs[0].run / kAttentionSource) << one.attention;
}

TEST_F(ChangedFilesTest, WhatItWasIsLookedForInTheWholeFolder) {
  const Config config = make_config(load_protocol("lra-strict"), "listops",
                                    parse_attention(attention_), {}, 0, "float32");
  const std::vector<PlannedRun> runs = {{.config = config.to_json(), .run = out("a")},
                                        {.config = config.to_json(), .run = out("b")}};
  const auto changed = [&] { return changed_files(runs, out("s")); };
  EXPECT_TRUE(changed().empty()) << "it is the same";
  replace_file();
  ASSERT_EQ(changed().size(), 1u);
  EXPECT_TRUE(changed()[0].kept.empty());
  const fs::path by_run = out("b") / kPretrainingFolder / kAttentionFile;
  for (const fs::path& folder : {out("a"), by_run.parent_path(), kept("s").parent_path()})
    fs::create_directories(folder);
  for (const fs::path& other : {out("a") / kAttentionFile, kept("s")})
    write_file(other, "of another content");
  EXPECT_TRUE(changed()[0].kept.empty()) << "not what it was";
  fs::copy_file(kScripts / "torchscript-linear.pt", by_run);
  EXPECT_EQ(changed()[0].kept, by_run);
  write_file(kept("s"), read_file(by_run));
  EXPECT_EQ(changed()[0].kept, kept("s"));
  EXPECT_EQ(changed()[0].attention, attention_);
  EXPECT_TRUE(changed_files(scratch_.path() / "none").empty()) << "no suite is there";
}

TEST_F(SuiteTest, DataAndAProtocolThatHaveMovedAreNamedAnew) {
  ASSERT_EQ(
      run_program({"data", "prepare", "listops", "--out", out("data").string(), "--train", "96",
                   "--dev", "40", "--test", "50", "--min-length", "10", "--max-length", "60"})
          .status,
      0);
  write_file(out("p.json"),
             R"({"schema": "lra.protocol/1", "name": "mine", "title": "Mine", "description": "",
                 "source": "a test", "extends": "lra-strict", "follows": [], "choices": []})");
  const auto given = [&](const char* data, const char* protocol) {
    return with(words("s"), {"--data", out(data).string(), "--protocol", out(protocol).string()});
  };
  ASSERT_EQ(run_program(with(given("data", "p.json"), {"--only", "0"})).status, 0);
  fs::rename(out("data"), out("data two"));
  const ProgramResult lost = run_program({"suite", "--out", out("s").string(), "--resume"});
  EXPECT_EQ(lost.status, 2) << lost.err;
  EXPECT_TRUE(lost.err.find("say with --data where they are") != std::string::npos) << lost.err;
  const ProgramResult moved = run_program(
      {"suite", "--out", out("s").string(), "--resume", "--data", out("data two").string()});
  EXPECT_EQ(moved.status, 0) << moved.err;
  EXPECT_EQ(run_program({"suite", "--out", out("s").string(), "--resume"}).status, 0);
  fs::rename(out("p.json"), out("q.json"));
  const ProgramResult renamed = run_program(given("data two", "q.json"));
  EXPECT_EQ(renamed.status, 0) << renamed.err;
}

}  // namespace
}  // namespace lra::suite
