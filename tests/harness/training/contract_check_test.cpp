// The contract that a run tries on an attention of the user's own before it trains it.
#include <gtest/gtest.h>

#include "attention_variants/contract/contract.h"
#include "harness/training/run_folder.h"
#include "lra/formats/safetensors.h"
#include "tests/harness/suite/fixture.h"
#include "tests/harness/training/train_fixture.h"
#include "tests/support/shipped.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

class ContractRun : public TrainTest {
 protected:
  ProgramResult train(const std::string& name, const std::string& attention,
                      const std::vector<std::string>& more = {}, int64_t steps = 6) const {
    return run_program(with(words(name, attention, steps), more));
  }
  static std::string fixture(const std::string& name) {
    return "torchscript:" LRA_SOURCE_DIR "/tests/fixtures/torchscript-" + name + ".pt";
  }
};

TEST(ContractOwner, AVariantOfOursIsNotTheUsers) {
  for (const AttentionEntry* entry : shipped_attentions())
    EXPECT_FALSE(contract::is_user_defined(entry->info.name)) << entry->info.name;
  for (const AttentionEntry* entry : released_forms())
    EXPECT_FALSE(contract::is_user_defined(entry->info.name)) << entry->info.name;
  EXPECT_TRUE(contract::is_user_defined("torchscript"));
  EXPECT_THROW(contract::is_user_defined("none"), UsageError);
}

// Options that the protocol gives an attention are tried with it.
TEST_F(ContractRun, TriesWhatTheProtocolMakesOfAnAttention) {
  const std::vector<std::string> released = {"--protocol", "nystromformer2021", "--check"};
  const ProgramResult trained = train("released", "nystrom", released);
  ASSERT_EQ(trained.status, 0) << trained.err;
  EXPECT_NE(trained.err.find("fails 'batch invariance', wrong: "), std::string::npos)
      << trained.err;
  const Result record = parse_result(read_json(run("released") / kResultFile));
  EXPECT_EQ(record.attention.options.value("init", ""), "global");
  EXPECT_FALSE(record.contract->failed.empty());
}

TEST_F(ContractRun, WarnsOfAModuleThatIgnoresTheMaskAndRecordsIt) {
  const std::string name = fixture("ignores_mask");
  const ProgramResult trained = train("a", name);
  ASSERT_EQ(trained.status, 0) << trained.err;
  EXPECT_NE(trained.err.find("WARNING: " + name + " fails 'padding invariance', wrong: "),
            std::string::npos)
      << trained.err;
  EXPECT_NE(trained.err.find("18 of 19 clauses of the contract hold; lra check --attention"),
            std::string::npos)
      << trained.err;
  const Result result = read_result(run("a") / kResultFile);
  ASSERT_TRUE(result.contract);
  EXPECT_EQ(result.contract->count(), "18 of 19");
  EXPECT_EQ(result.contract->failures(), "wrong: padding invariance");

  const ProgramResult report =
      run_program({"report", run("a").string(), "--out", run("report").string()});
  EXPECT_NE(report.out.find("18 of 19 clauses of the contract hold; wrong: padding invariance"),
            std::string::npos)
      << report.out;

  // As if it had been killed after its first checkpoint.
  fs::remove(run("a") / kResultFile);
  const ProgramResult resumed = train("a", name);
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_EQ(resumed.err.find("WARNING"), std::string::npos) << "it was tried at the start";
  EXPECT_EQ(read_result(run("a") / kResultFile).contract->count(), "18 of 19");
}

TEST_F(ContractRun, IsNotTriedWhereItIsNotAskedFor) {
  const ProgramResult trained = train("a", fixture("ignores_mask"), {"--no-check"});
  ASSERT_EQ(trained.status, 0) << trained.err;
  EXPECT_EQ(trained.err.find("WARNING"), std::string::npos) << trained.err;
  EXPECT_FALSE(read_result(run("a") / kResultFile).contract);
  const ProgramResult both = train("b", "standard", {"--check", "--no-check"});
  EXPECT_EQ(both.status, 2) << both.text();
}

TEST_F(ContractRun, SaysInOneLineWhatIsFragile) {
  const ProgramResult trained = train("a", fixture("sdpa"));
  ASSERT_EQ(trained.status, 0) << trained.err;
  EXPECT_EQ(trained.err.find(", wrong: "), std::string::npos) << trained.err;
  EXPECT_NE(trained.err.find(" is fragile: padding invariance\n"), std::string::npos)
      << trained.err;
}

TEST_F(ContractRun, ChangesNoBitOfTheRun) {
  ASSERT_EQ(train("without", "standard").status, 0);
  const ProgramResult with = train("with", "standard", {"--check"});
  ASSERT_EQ(with.status, 0) << with.err;
  EXPECT_EQ(with.err.find("contract"), std::string::npos) << "all of it holds";
  EXPECT_EQ(tensor_bytes(run("with") / kLastCheckpoint),
            tensor_bytes(run("without") / kLastCheckpoint));
  EXPECT_EQ(read_file(run("with") / kPredictionsFile),
            read_file(run("without") / kPredictionsFile));
  json one = read_json(run("with") / kResultFile), other = read_json(run("without") / kResultFile);
  EXPECT_EQ(one["contract"], json::parse(R"({"passed": 19, "of": 19})"));
  EXPECT_FALSE(other.contains("contract")) << "a variant of ours is tried on request alone";
  for (json* result : {&one, &other}) {
    for (const char* key : {"training", "contract"}) result->erase(key);
  }
  EXPECT_EQ(one, other);
}

TEST_F(ContractRun, IsTriedWhereARunIsContinuedWithIt) {
  ASSERT_EQ(train("a", "standard").status, 0);
  fs::remove(run("a") / kResultFile);
  const ProgramResult resumed = train("a", "standard", {"--check"});
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_NE(resumed.err.find("resuming "), std::string::npos);
  const auto found = read_result(run("a") / kResultFile).contract;
  ASSERT_TRUE(found);
  EXPECT_EQ(found->count(), "19 of 19");
}

class ContractSuite : public suite::SuiteTest {};

TEST_F(ContractSuite, ItsCellsTryItOnRequest) {
  const auto asked = with(words("s", "standard"), {"--check"});
  ASSERT_EQ(run_program(with(asked, {"--only", "0"})).status, 0);
  const Result result = read_result(run("s", "standard") / kResultFile);
  ASSERT_TRUE(result.contract);
  EXPECT_EQ(result.contract->count(), "19 of 19");
  auto submitted = asked;
  submitted.insert(submitted.begin() + 1, {"submit", "--slurm", "--dry-run"});
  const ProgramResult scripts = run_program(submitted);
  EXPECT_NE(scripts.out.find(" --check"), std::string::npos) << scripts.text();
  for (std::string& word : submitted) {
    if (word == "--check") word = "--no-check";
  }
  const ProgramResult none = run_program(submitted);
  EXPECT_NE(none.out.find(" --no-check"), std::string::npos) << none.text();
}

// Where one clause fails, the rest may build on it: they are not tried, nor counted as held.
TEST_F(ContractRun, StopsWhereTheRestCannotBeJudged) {
  const ProgramResult trained = train("a", fixture("noise"));
  ASSERT_EQ(trained.status, 0) << trained.err;
  const Result result = read_result(run("a") / kResultFile);
  ASSERT_TRUE(result.contract);
  EXPECT_EQ(result.contract->failures(), "wrong: deterministic");
  EXPECT_EQ(result.contract->count(), "2 of 19");
}

}  // namespace
}  // namespace lra
