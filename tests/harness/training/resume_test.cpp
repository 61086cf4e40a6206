// A run goes on with the file of its attention that its folder keeps.
#include "harness/training/resume.h"

#include "attention_variants/python_host.h"
#include "tests/harness/training/train_fixture.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

const fs::path kTestFiles = fs::path(LRA_SOURCE_DIR) / "tests";

class ResumedFileTest : public TrainTest {
 protected:
  // Cuts a run of the attention once it has a checkpoint.
  void cut(const std::string& name, const std::string& attention) const {
    ASSERT_TRUE(kill_in_training(words(name, attention, kSteps), {run(name)},
                                 std::chrono::milliseconds(0)));
  }
  // Without its notes of clocks, as where nobody had touched it.
  void expect_goes_on_as(const std::string& whole, const std::string& name,
                         const std::string& attention, const std::string& line) const {
    const ProgramResult resumed = run_program(words(name, attention, kSteps));
    ASSERT_EQ(resumed.status, 0) << resumed.err;
    EXPECT_NE(resumed.err.find(line + "; the run in " + run(name).string() +
                               " goes on with the file that it keeps, " + run(name).string()),
              std::string::npos)
        << resumed.err;
    EXPECT_EQ(comparable(run(name)), comparable(run(whole)));
    EXPECT_EQ(tensor_bytes(run(name) / kLastCheckpoint),
              tensor_bytes(run(whole) / kLastCheckpoint));
    json config = read_json(run(name) / kConfigFile),
         expected = read_json(run(whole) / kConfigFile);
    EXPECT_EQ(config["identity"], expected["identity"]);
    EXPECT_EQ(config["attention"], expected["attention"]);
  }
  // Of a file whose content `other` replaces.
  void expect_kept(const fs::path& file, const std::string& attention,
                   const fs::path& other) const {
    ASSERT_EQ(run_program(words("whole", attention, kSteps)).status, 0);
    cut("changed", attention);
    for (const char* name : {"gone", "lost"})
      fs::copy(run("changed"), run(name), fs::copy_options::recursive);
    fs::copy_file(other, file, fs::copy_options::overwrite_existing);
    expect_goes_on_as("whole", "changed", attention, file.string() + " has changed");
    for (const char* name : {kAttentionFile, kAttentionSource}) fs::remove(run("lost") / name);
    expect_refusal(words("lost", attention, kSteps), 1,
                   "a run of another configuration (attention.");
    fs::remove(file);
    expect_goes_on_as("whole", "gone", attention, file.string() + " is gone");
  }

  static constexpr int64_t kSteps = 60;  // a checkpoint stands after the first four
};

TEST_F(ResumedFileTest, AScriptThatHasChangedOrGone) {
  const fs::path file = scratch_.path() / "my.pt";
  fs::copy_file(kTestFiles / "fixtures" / "torchscript-linear.pt", file);
  expect_kept(file, "torchscript:" + file.string(),
              kTestFiles / "fixtures" / "torchscript-softmax.pt");
}

// A file is mended where its run never came to a checkpoint.
TEST_F(ResumedFileTest, ARunWithoutACheckpointBeginsAnewWithTheFileAsItIs) {
  const fs::path file = scratch_.path() / "my.pt";
  const std::string attention = "torchscript:" + file.string();
  fs::copy_file(kTestFiles / "fixtures" / "torchscript-wrong_shape.pt", file);
  EXPECT_EQ(run_program(words("a", attention)).status, 1);
  EXPECT_TRUE(kept_for(run("a"), parse_attention(attention)).empty());
  fs::copy_file(kTestFiles / "fixtures" / "torchscript-softmax.pt", file,
                fs::copy_options::overwrite_existing);
  const ProgramResult mended = run_program(words("a", attention));
  EXPECT_EQ(mended.status, 0) << mended.err;
  EXPECT_EQ(read_result(run("a") / kResultFile).attention.options["sha256"], sha256_file(file));
}

// What a run keeps has the name of a file that a user may well have there.
TEST_F(ResumedFileTest, TheUsersFileStays) {
  const fs::path file = run("mine") / kAttentionFile, fixtures = kTestFiles / "fixtures";
  fs::create_directories(run("mine"));
  fs::copy_file(fixtures / "torchscript-softmax.pt", file);
  std::vector<std::string> made_of_it = words("mine", "torchscript:" + file.string(), 12);
  ASSERT_EQ(run_program(made_of_it).status, 0);
  std::ranges::replace(made_of_it, std::string("--resume"), std::string("--overwrite"));
  expect_refusal(made_of_it, 1, ", of which the attention is made, would be removed");
  EXPECT_EQ(read_file(file), read_file(fixtures / "torchscript-softmax.pt"));
  EXPECT_TRUE(fs::exists(run("mine") / kResultFile));

  fs::remove(run("mine") / kConfigFile);  // what is left is still of a run
  std::vector<std::string> another =
      words("mine", "torchscript:" + (fixtures / "torchscript-linear.pt").string());
  std::ranges::replace(another, std::string("--resume"), std::string("--overwrite"));
  EXPECT_EQ(run_program(another).status, 0);

  fs::create_directories(run("other"));
  write_file(run("other") / kAttentionFile, "mine");
  expect_refusal(words("other", "torchscript:" + (fixtures / "torchscript-softmax.pt").string()), 1,
                 "is of no run, and would be replaced");
  EXPECT_EQ(read_file(run("other") / kAttentionFile), "mine");
}

TEST_F(ResumedFileTest, TheSameFileMayBeNamedFromAnotherFolder) {
  const fs::path file = scratch_.path() / "my.pt", copy = scratch_.path() / "folder" / "my.pt";
  const std::string at = "torchscript:" + file.string(), moved = "torchscript:" + copy.string();
  fs::copy_file(kTestFiles / "fixtures" / "torchscript-linear.pt", file);
  ASSERT_EQ(run_program(words("a", at)).status, 0);
  fs::create_directories(copy.parent_path());
  fs::rename(file, copy);
  const ProgramResult same = run_program(words("a", moved));
  EXPECT_EQ(same.status, 0) << same.err;
  fs::copy_file(kTestFiles / "fixtures" / "torchscript-softmax.pt", copy,
                fs::copy_options::overwrite_existing);
  expect_refusal(words("a", moved), 1, "holds a run of another configuration");
}

TEST_F(ResumedFileTest, AnotherAttentionIsNoneOfItsBusiness) {
  const fs::path file = scratch_.path() / "my.pt";
  const std::string attention = "torchscript:" + file.string();
  fs::copy_file(kTestFiles / "fixtures" / "torchscript-linear.pt", file);
  ASSERT_EQ(run_program(words("a", attention)).status, 0);
  EXPECT_TRUE(kept_for(run("a"), parse_attention(attention)).empty()) << "the file is the same";
  fs::remove(file);
  EXPECT_EQ(kept_for(run("a"), parse_attention(attention)), run("a") / kAttentionFile);
  for (const std::string other : {"linear", "torchscript:other.pt", "python:my.py:Softplus"})
    EXPECT_TRUE(kept_for(run("a"), parse_attention(other)).empty()) << other;
  EXPECT_TRUE(kept_for(run("none"), parse_attention(attention)).empty());
  write_file(run("a") / kAttentionFile, "of another content");
  EXPECT_TRUE(kept_for(run("a"), parse_attention(attention)).empty());
}

// Options as config.json holds them, without Python.
TEST(KeptSource, MayLieInAFolderWithBracketsInItsName) {
  const Scratch scratch;
  const fs::path run = scratch.path() / "python_my.py_Softplus[beta=2]",
                 own = scratch.path() / "my.py";
  fs::create_directories(run);
  write_file(own, "as it was");
  const json options = {
      {"file", own.string()}, {"class", "Softplus"}, {"sha256", sha256_file(own)}};
  EXPECT_EQ(file_state(options), FileState::same);
  EXPECT_EQ(with_kept_file(options, run), options);
  write_file(run / kAttentionSource, "as it was");
  write_file(own, "changed");
  EXPECT_EQ(file_state(options), FileState::changed);
  EXPECT_EQ(kept_file(options, run), run / kAttentionSource);
  EXPECT_EQ(with_kept_file(options, run)["file"], (run / kAttentionSource).string());
  json module = options;
  module["file"] = "package.module";
  EXPECT_EQ(file_state(module), std::nullopt) << "Python finds it";
  EXPECT_TRUE(kept_file(module, run).empty());
}

TEST(KeptSource, IsWhatWasLoaded) {
  const Scratch scratch;
  const fs::path folder = scratch.path() / "kept", own = scratch.path() / "my.py",
                 helper = scratch.path() / "helper.py";
  fs::create_directories(folder);
  for (const fs::path& file : {own, helper}) write_file(file, "as it was");
  const json options = {{"file", own.string()},
                        {"class", "A"},
                        {"sha256", sha256_file(own)},
                        {kImportsHash, {{"helper.py", sha256_file(helper)}}}};
  for (const fs::path& file : {helper, own}) {
    write_file(file, "changed");
    try {
      keep_attention(folder, options);
      ADD_FAILURE() << file;
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()),
                file.string() + " has changed since it was loaded; start again");
    }
    write_file(file, "as it was");
  }
  keep_attention(folder, options);
  EXPECT_EQ(kept_file(options, folder), folder / kAttentionSource);
  for (const fs::path& file : {own, helper}) fs::remove(file);
  keep_attention(folder, options);  // it is there
}

TEST(KeptSource, IsOfWhatItImportsToo) {
  const Scratch scratch;
  const fs::path run = scratch.path() / "run", own = scratch.path() / "my.py",
                 helper = scratch.path() / "pack" / "helper.py";
  for (const fs::path& folder : {run / kAttentionImports / "pack", helper.parent_path()})
    fs::create_directories(folder);
  write_file(own, "from pack import helper");
  write_file(helper, "as it was");
  const json options = {{"file", own.string()},
                        {"class", "A"},
                        {"sha256", sha256_file(own)},
                        {kImportsHash, {{"pack/helper.py", sha256_file(helper)}}}};
  EXPECT_EQ(file_state(options), FileState::same);
  write_file(run / kAttentionSource, read_file(own));
  EXPECT_TRUE(kept_file(options, run).empty()) << "the helper is not kept";
  write_file(run / kAttentionImports / "pack" / "helper.py", "as it was");
  EXPECT_EQ(kept_file(options, run), run / kAttentionSource);

  write_file(helper, "changed");
  EXPECT_EQ(file_state(options), FileState::changed);
  const std::string which = helper.string() + ", which " + own.string() + " imports,";
  EXPECT_EQ(changed_text(options), which + " has changed");
  fs::remove(helper);
  EXPECT_EQ(changed_text(options), which + " is gone");
  const json kept = with_kept_file(options, run);
  EXPECT_EQ(kept["file"], (run / kAttentionSource).string());
  EXPECT_EQ(file_state(kept), FileState::same);
  fs::remove(own);
  EXPECT_EQ(changed_text(options), own.string() + " is gone");
}

using SlowResumedFileTest = ResumedFileTest;

TEST_F(SlowResumedFileTest, AClassOfPythonThatHasChangedOrGone) {
  const fs::path file = scratch_.path() / "my.py", other = scratch_.path() / "other.py";
  const std::string source = read_file(kTestFiles / "examples" / "python" / "linear.py"),
                    attention = "python:" + file.string() + ":LinearAttention";
  write_file(file, source);
  write_file(other, source + R"(

class LinearAttention(LinearAttention):
    def forward(self, q, k, v, mask):
        raise RuntimeError("changed")
)");
  const std::string reason =
      run_program({"check", "--attention", "python:" + file.string() + ":NoSuchClass"}).err;
  if (reason.find("NoSuchClass is not in it") == std::string::npos)
    GTEST_SKIP() << "there is no Python with torch: " << reason;
  expect_kept(file, attention, other);
}

}  // namespace
}  // namespace lra
