// The example of an attention of one's own, tests/examples/my_attention.cpp, compiled into a
// program of its own as LRA_EXTRA_VARIANTS would: it passes the contract, trains and is measured.
#include <gtest/gtest.h>

#include "attention_variants/base/files.h"
#include "harness/training/run_folder.h"
#include "results/store/store.h"
#include "tests/harness/program.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

const fs::path kProgram = fs::path(LRA_PROGRAM).parent_path() / "lra_example";
const fs::path kSource = fs::path(LRA_SOURCE_DIR) / "tests/examples/my_attention.cpp";

class ExampleTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(kProgram))
      GTEST_SKIP() << "not built beside LRA_EXTRA_VARIANTS, whose names might be the example's";
  }
  static ProgramResult run_example(std::vector<std::string> words) {
    return Program(std::move(words), kProgram).wait();
  }
};

TEST_F(ExampleTest, IsListedAndKeepsTheContract) {
  EXPECT_NE(run_example({"list", "attentions"}).out.find("softplus"), std::string::npos);
  const ProgramResult result =
      run_example({"check", "--attention", "softplus[beta=2]", "--threads", "1"});
  EXPECT_EQ(result.status, 0) << result.text();
}

TEST_F(ExampleTest, TrainsAndIsMeasured) {
  const Scratch scratch;
  prepare_tiny_listops(scratch.path() / "data");
  const fs::path run = scratch.path() / "run", out = scratch.path() / "p.jsonl";
  const ProgramResult trained =
      run_example(tiny_train(scratch.path() / "data", run, "softplus[beta=2]", /*steps=*/20));
  ASSERT_EQ(trained.status, 0) << trained.err;
  const Result result = parse_result(read_json(run / kResultFile));
  EXPECT_EQ(result.steps, 20);
  const json own = {{"beta", 2.0}, {"source_sha256", sha256_file(kSource)}};
  EXPECT_EQ(result.attention.options, own);
  ASSERT_TRUE(result.contract) << "it is the user's own";
  EXPECT_EQ(result.contract->count(), "19 of 19");
  ASSERT_EQ(run_example({"profile", "--attentions", "softplus,standard", "--lengths", "64",
                         "--seconds", "0.05", "--threads", "1", "--out", out.string()})
                .status,
            0);
  const Records records = find_records({out});
  ASSERT_EQ(records.profiles.size(), 2u);
  EXPECT_EQ(records.profiles[0].attention.label, "softplus");
  EXPECT_EQ(records.profiles[0].attention.options.value("source_sha256", ""),
            own.at("source_sha256"));
  EXPECT_EQ(records.profiles[0].status, Status::ok) << records.profiles[0].reason;
}

}  // namespace
}  // namespace lra
