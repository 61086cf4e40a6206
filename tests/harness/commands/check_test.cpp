// lra check: a verdict a line, and every broken file caught by the clause of its name.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "attention_variants/contract/contract.h"
#include "harness/overview/check_attention.h"
#include "lra/config/protocol.h"
#include "tests/harness/program.h"

namespace lra {
namespace {

std::string fixture(const std::string& name) {
  return "torchscript:" LRA_SOURCE_DIR "/tests/fixtures/torchscript-" + name + ".pt";
}

ProgramResult check(const std::string& attention, std::vector<std::string> more = {}) {
  more.insert(more.begin(), {"check", "--attention", attention, "--threads", "1"});
  return run_program(more);
}

// The line of a clause.
std::string clause_line(const ProgramResult& result, const std::string& clause) {
  for (const std::string& line : text_lines(result.out)) {
    if (line.starts_with(clause + ": ")) return line;
  }
  ADD_FAILURE() << "no line for " << clause << " in\n" << result.text();
  return "";
}

TEST(CheckTest, SaysOfEveryClauseThatItHolds) {
  const ProgramResult result = check("nystrom", {"--option", "num_landmarks=5"});
  EXPECT_EQ(result.status, 0) << result.text();
  EXPECT_EQ(result.err, "");
  const std::vector<std::string> lines = text_lines(result.out);
  const auto clauses = contract::contract_clauses();
  ASSERT_EQ(lines.size(), clauses.size() + 1);
  for (size_t i = 0; i < clauses.size(); ++i)
    EXPECT_TRUE(lines[i].starts_with(clauses[i].name + ": holds (")) << lines[i];
  const std::string count = std::to_string(clauses.size());
  EXPECT_TRUE(clause_line(result, "options in effect").ends_with("holds (1 check)"))
      << "nothing is 1 checks";
  EXPECT_EQ(lines.back(), "nystrom[num_landmarks=5]: " + count + " of " + count +
                              " clauses hold on up to 64 positions (padding, other "
                              "samples: 300)");
}

TEST(CheckTest, ADeclaredExceptionFailsWithItsNumber) {
  const ProgramResult result = check("nystrom[init=global,num_landmarks=5]");
  EXPECT_EQ(result.status, 1);
  EXPECT_TRUE(
      clause_line(result, "batch invariance").starts_with("batch invariance: FAILS, wrong ("));
  EXPECT_NE(clause_line(result, "batch invariance").find("(at most 1e-10)"), std::string::npos);
  EXPECT_EQ(result.err,
            "lra: nystrom[init=global,num_landmarks=5] does not keep the contract: batch "
            "invariance\n");
}

TEST(CheckTest, AsJson) {
  const ProgramResult result = check(fixture("softmax"), {"--json"});
  EXPECT_EQ(result.status, 0) << result.text();
  const json record = json::parse(result.out);
  EXPECT_EQ(record["holds"], true);
  EXPECT_EQ(record["sizes"], (json{{"heads", 2}, {"head_dim", 32}, {"width", 64}}));
  for (const char* grade : {"wrong", "fragile", "style"})
    EXPECT_EQ(record[grade], json::array()) << grade;
  EXPECT_EQ(record["attention"]["options"]["sha256"].get<std::string>().size(), 64u);
  const auto clauses = contract::contract_clauses();
  ASSERT_EQ(record["clauses"].size(), clauses.size());
  for (size_t i = 0; i < clauses.size(); ++i) {
    EXPECT_EQ(record["clauses"][i]["clause"], clauses[i].name);
    EXPECT_EQ(record["clauses"][i]["promise"], clauses[i].promise);
    EXPECT_EQ(record["clauses"][i]["holds"], true) << record["clauses"][i];
    EXPECT_NE(record["clauses"][i]["measured"], "");
  }
}

TEST(CheckTest, ScriptsOfTheRightKindKeepTheContract) {
  for (const char* name : {"linear", "mixer"}) {
    const ProgramResult result = check(fixture(name));
    EXPECT_EQ(result.status, 0) << name << "\n" << result.text();
  }
}

class BrokenFile : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(BrokenFile, IsCaughtByTheClauseOfItsName) {
  const auto& [name, clause] = GetParam();
  const bool fragile = name == std::string("nan");
  const ProgramResult result = check(fixture(name), {"--strict"});
  EXPECT_EQ(result.status, 1);
  const std::string line = clause_line(result, clause);
  EXPECT_TRUE(
      line.starts_with(std::string(clause) + (fragile ? ": FAILS, fragile (" : ": FAILS, wrong (")))
      << line;
  EXPECT_NE(result.err.find(clause), std::string::npos) << result.err;
  EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
}

// What people write: right results, and a word on what is missing.
TEST(CheckTest, OrdinaryModulesAreNotWrong) {
  for (const char* name : {"sdpa", "multihead", "elu", "buffered"}) {
    const ProgramResult result = check(fixture(name));
    EXPECT_EQ(result.status, 0) << name << "\n" << result.text();
    const std::string last = text_lines(result.out).back();
    EXPECT_EQ(last.find("wrong: "), std::string::npos) << last;
    EXPECT_NE(last.find("fragile: "), std::string::npos) << last;
    EXPECT_NE(last.find("style: padded rows"), std::string::npos) << last;
    EXPECT_NE(result.out.find("  hint: return out * mask"), std::string::npos) << result.out;
  }
}

TEST(CheckTest, StopsAtAWrongShapeAndNamesTheSizes) {
  const ProgramResult result = check(fixture("multihead"), {"--heads", "3", "--head-dim", "5"});
  EXPECT_EQ(result.status, 1);
  EXPECT_TRUE(clause_line(result, "shape and type").starts_with("shape and type: FAILS, wrong ("));
  EXPECT_NE(result.out.find("tried with 3 heads of 5, model width 15; for other sizes: --heads, "
                            "--head-dim, --width\n"),
            std::string::npos)
      << result.out;
  EXPECT_EQ(text_lines(result.out).size(), 4u) << result.out;
  EXPECT_NE(result.out.find("18 not tried"), std::string::npos) << result.out;
}

TEST(CheckTest, TriesWhatTheProtocolMeans) {
  const ProgramResult local = check("local", {"--protocol", "tay2020", "--task", "listops"});
  EXPECT_EQ(local.status, 1) << local.text();
  EXPECT_TRUE(clause_line(local, "padding invariance").find("FAILS") != std::string::npos);
  EXPECT_NE(local.out.find("local (local_tay2020 under tay2020): "), std::string::npos)
      << local.out;
  const ProgramResult record =
      check("reformer", {"--protocol", "nystromformer2021", "--task", "listops", "--json"});
  EXPECT_EQ(json::parse(record.out)["attention"]["options"]["redraw"], "forward") << record.text();
  const ProgramResult without = check("linear", {"--protocol", "recall"});
  EXPECT_EQ(without.status, 2);
  EXPECT_NE(without.err.find("differ by task: give its task too (--task)"), std::string::npos)
      << without.err;
  EXPECT_NE(check("linear", {"--protocol", "recal"}).err.find("unknown protocol 'recal'"),
            std::string::npos);
}

TEST(CheckTest, ExplainsAClause) {
  for (const size_t i : {0, 6}) {
    const contract::ContractClause clause = contract::contract_clauses().at(i);
    const ProgramResult result = run_program({"check", "--explain", clause.name});
    EXPECT_EQ(result.status, 0) << result.text();
    EXPECT_NE(result.out.find(clause.promise), std::string::npos) << result.out;
    EXPECT_NE(result.out.find(clause.hint), std::string::npos) << result.out;
  }
  EXPECT_NE(run_program({"check", "--explain", "padding invariance"}).out.find("; fragile where"),
            std::string::npos);
  const ProgramResult unknown = run_program({"check", "--explain", "padding"});
  EXPECT_EQ(unknown.status, 2) << unknown.text();
  EXPECT_NE(unknown.err.find("unknown clause 'padding'"), std::string::npos) << unknown.err;
  EXPECT_EQ(run_program({"check"}).status, 2);
}

std::string broken_name(const testing::TestParamInfo<BrokenFile::ParamType>& given) {
  return given.param.first;
}

INSTANTIATE_TEST_SUITE_P(Files, BrokenFile,
                         testing::Values(std::pair{"wrong_shape", "shape and type"},
                                         std::pair{"wrong_type", "shape and type"},
                                         std::pair{"ignores_mask", "padding invariance"},
                                         std::pair{"leaks", "batch invariance"},
                                         std::pair{"nan", "all-padding samples"},
                                         std::pair{"noise", "deterministic"}),
                         broken_name);

TEST(CheckTest, RefusesWhatItCannotTry) {
  const auto refusal = [](const std::string& attention, int status,
                          const std::vector<std::string>& more = {}) {
    const ProgramResult result = check(attention, more);
    EXPECT_EQ(result.status, status) << result.text();
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
    EXPECT_EQ(result.out, "");
    return result.err;
  };
  EXPECT_NE(refusal("nystrom", 2, {"--causal"}).find("has no causal form here"), std::string::npos);
  EXPECT_NE(refusal("sparse[cls=open]", 2, {"--causal"}).find("cannot be causal"),
            std::string::npos);
  EXPECT_NE(refusal("nystrm", 2).find("did you mean 'nystrom'?"), std::string::npos);
  EXPECT_NE(refusal("torchscript", 2).find("needs a file"), std::string::npos);
  EXPECT_NE(refusal(fixture("signature"), 1).find("should take the tensors (q, k, v, mask)"),
            std::string::npos);
}

TEST(CheckAttention, TakesTheKernelsOfTheProtocol) {
  const Scratch scratch;
  Protocol protocol =
      with_settings(load_protocol("lra-strict"), "listops", "standard", {"kernels=reference"});
  protocol.name = "mine";
  const std::string path = (scratch.path() / "p.json").string();
  write_json(path, protocol_json(protocol));
  struct Enough {};
  std::optional<ops::Kernels> kernels;
  const SeenVerdict first = [&](const auto&, const auto&, const auto& subject) {
    kernels = subject.context.kernels;
    throw Enough();
  };
  EXPECT_THROW(
      check_attention(
          {.attention = parse_attention("standard"), .protocol = path, .task = "listops"}, first),
      Enough);
  EXPECT_EQ(kernels, ops::Kernels::reference);
}

}  // namespace
}  // namespace lra
