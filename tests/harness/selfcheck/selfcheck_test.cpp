// lra selfcheck: green for what is right, and each kind of check seen to fail on a planted fault.
// The faults are those of an attention that this program has beside its own (main.cpp).
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <set>
#include <thread>

#include "attention_variants/ops/dropout.h"
#include "attention_variants/projected_attention.h"
#include "attention_variants/registry.h"
#include "harness/host/gpu.h"
#include "harness/selfcheck/checks.h"
#include "harness/selfcheck/selfcheck.h"
#include "tests/harness/program.h"

namespace lra {
namespace {

namespace fs = std::filesystem;
using selfcheck::CheckReport;
using selfcheck::CheckSubject;

TEST(SelfcheckDropouts, AreSkippedWithoutOwnKernels) {
  EXPECT_NO_THROW(selfcheck::skip_without_own_kernels(torch::kCPU));
  if (host::has_own_gpu_kernels()) GTEST_SKIP() << "this machine's GPU runs our kernels";
  EXPECT_THROW(selfcheck::skip_without_own_kernels(torch::kCUDA), selfcheck::CheckEnd);
}

// What is wrong with it.
enum class Fault {
  none,
  ignores_mask,  // padding is averaged too
  forward,       // own kernels give another output than the reference
  gradient,      // and another gradient of the same output
  type,          // in bfloat16 something is lost
  dropout,       // own kernels draw a number more than the reference, before the model's dropouts
  forgets,       // what it has seen decides, and no checkpoint holds it
  keeps,         // every call leaves memory behind
  account,       // hardly any memory, it says
  arithmetic,    // more operations than any machine does
  crash,
  memory,
  endless,
  refuses,
};
constexpr auto names(Fault) {
  return std::array{"none",    "ignores_mask", "forward", "gradient", "type",
                    "dropout", "forgets",      "keeps",   "account",  "arithmetic",
                    "crash",   "memory",       "endless", "refuses"};
}

struct FaultyOptions {
  Fault fault = Fault::none;
  template <class Fields>
  void fields(Fields& f) {
    f("fault", fault);
  }
};

// A value and the mean of all: of any type, and quick.
class FaultyMean : public ProjectedAttention {
 public:
  FaultyMean(const AttentionContext& context, const FaultyOptions& options)
      : ProjectedAttention(context, Projections::value_only), options_(options) {}

  torch::Tensor attend(const torch::Tensor&, const torch::Tensor&, const torch::Tensor& v,
                       const torch::Tensor& mask) override {
    end_by_fault();
    const torch::Tensor real = mask.unsqueeze(1).unsqueeze(-1);  // [B,1,N,1]
    if (is(Fault::ignores_mask)) return v + v.mean(2, /*keepdim=*/true);
    const torch::Tensor values = v.masked_fill(real.logical_not(), 0),
                        count = real.sum(2, /*keepdim=*/true).clamp_min(1),
                        mean = values.sum(2, /*keepdim=*/true) / count;
    return with_fault((values + mean).masked_fill(real.logical_not(), 0));
  }

  json options() const override { return write_fields(options_); }
  int64_t flops(int64_t, int64_t) const override {
    return is(Fault::arithmetic) ? int64_t{1} << 50 : -1;
  }
  int64_t analytic_bytes(int64_t, int64_t, int64_t, bool) const override {
    return is(Fault::account) ? 1000 : -1;
  }

 private:
  bool is(Fault fault) const { return options_.fault == fault; }

  void end_by_fault() const {
    if (is(Fault::crash)) std::abort();
    if (is(Fault::memory)) torch::empty({int64_t{1} << 50});
    if (is(Fault::endless)) std::this_thread::sleep_for(std::chrono::hours(1));
    if (is(Fault::refuses)) throw Error("this attention refuses");
  }

  torch::Tensor with_fault(const torch::Tensor& y) {
    static std::vector<torch::Tensor> kept;
    if (is(Fault::keeps)) kept.push_back(torch::ones({1000}));
    if (is(Fault::forgets)) return y * (1 + 0.5 * static_cast<double>(calls_++ % 3));
    const bool own = context_.kernels == Kernels::fused;
    if (is(Fault::forward) && own) return y * 1.01;
    if (is(Fault::gradient) && own) return y * 1.05 - (y * 0.05).detach();
    if (is(Fault::type) && y.scalar_type() == torch::kBFloat16) return y * 1.2;
    if (is(Fault::dropout) && own && is_training()) torch::rand({1});
    return y;
  }

  FaultyOptions options_;
  int64_t calls_ = 0;
};

// Not in every process: other tests hold that all attentions are the program's. The children of
// these tests find the variable.
constexpr const char* kPlanted = "LRA_TEST_FAULTY_MEAN";

bool register_faulty() {
  return register_attention<FaultyMean, FaultyOptions>({.name = "faulty_mean", .title = "Faulty"});
}
[[maybe_unused]] const bool kInChild = std::getenv(kPlanted) != nullptr && register_faulty();

std::string faulty(Fault fault) { return "faulty_mean[fault=" + to_string(fault) + "]"; }

class SelfcheckTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { [[maybe_unused]] static const bool once = register_faulty(); }

  // The records by their check, of one attention.
  std::map<std::string, json> records(const std::string& attention, const std::string& checks,
                                      int status, const std::string& minutes = "5") {
    std::vector<std::string> words = {"selfcheck", "--attentions", attention, "--threads",  "1",
                                      "--minutes", minutes,        "--out",   out_.string()};
    if (!checks.empty()) words.insert(words.end(), {"--checks", checks});
    // In a fork: lra itself has no faulty attention.
    const ProgramResult result = Program::forked(words).wait();
    EXPECT_EQ(result.status, status) << result.text();
    text_ = result.text();
    std::map<std::string, json> found;
    for (const std::string& line : text_lines(read_file(out_))) {
      const json record = json::parse(line);
      found[record["check"]] = record;
    }
    fs::remove(out_);
    return found;
  }

  const ScopedVariable planted_{kPlanted, "1"};
  Scratch scratch_;
  fs::path out_ = scratch_.path() / "selfcheck.jsonl";
  std::string text_;
};

TEST_F(SelfcheckTest, IsGreenWhereNothingIsWrong) {
  const auto found = records(faulty(Fault::none), "", 0);
  EXPECT_EQ(found.size(), selfcheck::check_names().size());
  for (const auto& [check, record] : found)
    EXPECT_EQ(record["status"], check == "graph" ? "skipped" : "ok") << record;
  EXPECT_EQ(found.at("graph")["reason"], "no graph on a CPU");
  EXPECT_GT(found.at("roofline")["measures"]["gflops"], 0);
  EXPECT_FALSE(found.at("roofline").contains("attention"));
  EXPECT_GT(found.at("speed")["measures"]["step_ms"], 0);
  EXPECT_NE(text_.find("faulty_mean"), std::string::npos) << text_;
}

struct Planted {
  Fault fault;
  const char* check;
};
class SelfcheckFault : public SelfcheckTest, public testing::WithParamInterface<Planted> {};

TEST_P(SelfcheckFault, IsFoundByItsCheckAlone) {
  const auto [fault, check] = GetParam();
  const std::string parity = "parity-float64";
  const auto found = records(faulty(fault),
                             std::string(fault == Fault::arithmetic ? "roofline," : "") +
                                 (check == parity ? "" : parity + ",") + check,
                             1);
  EXPECT_EQ(found.at(check)["status"], "failed") << found.at(check);
  EXPECT_NE(found.at(check)["reason"], "");
  EXPECT_NE(text_.find(check), std::string::npos) << text_;
  // One that looks elsewhere stays green.
  const bool everywhere = fault == Fault::forward || fault == Fault::gradient ||
                          fault == Fault::refuses || fault == Fault::forgets;
  if (!everywhere) {
    EXPECT_EQ(found.at("parity-float64")["status"], "ok");
  }
}

INSTANTIATE_TEST_SUITE_P(
    Planted, SelfcheckFault,
    testing::Values(Planted{Fault::ignores_mask, "contract"},
                    Planted{Fault::forward, "parity-float32"},
                    Planted{Fault::gradient, "parity-float64"},
                    Planted{Fault::type, "parity-bfloat16"}, Planted{Fault::dropout, "dropout"},
                    Planted{Fault::gradient, "step"}, Planted{Fault::forgets, "resume"},
                    Planted{Fault::keeps, "memory"}, Planted{Fault::account, "memory"},
                    Planted{Fault::arithmetic, "speed"}, Planted{Fault::refuses, "step"}),
    [](const auto& given) {
      std::string check = given.param.check;
      std::erase(check, '-');
      return to_string(given.param.fault) + "_" + check;
    });

TEST_F(SelfcheckTest, HowAChildEndsIsARecordAndTheOthersGoOn) {
  auto found = records(faulty(Fault::crash), "parity-float64,roofline,step", 1);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found.at("roofline")["status"], "ok");
  for (const char* check : {"parity-float64", "step"}) {
    EXPECT_EQ(found.at(check)["status"], "crash");
    EXPECT_NE(found.at(check)["reason"].get<std::string>().find("ended by signal 6"),
              std::string::npos);
  }
#ifndef __SANITIZE_ADDRESS__  // which ends a process that asks for too much
  found = records(faulty(Fault::memory), "step", 1);
  EXPECT_EQ(found.at("step")["status"], "oom") << found.at("step");
#endif
  found = records(faulty(Fault::endless), "step,memory", 1, "0.05");
  EXPECT_EQ(found.at("step")["status"], "timeout");
  EXPECT_EQ(found.at("memory")["reason"], "the time was over before it began");
}

TEST_F(SelfcheckTest, SpeedTakesTheRooflineAlong) {
  const ProgramResult result =
      run_program({"selfcheck", "--attentions", "linear", "--checks", "speed", "--minutes", "0.5",
                   "--threads", "1", "--out", out_.string()});
  EXPECT_EQ(result.status, 0) << result.text();
  std::istringstream lines(read_file(out_));
  std::vector<std::string> checks;
  for (std::string line; std::getline(lines, line);)
    checks.push_back(json::parse(line).at("check"));
  EXPECT_EQ(checks, (std::vector<std::string>{"roofline", "speed"}));
}

TEST_F(SelfcheckTest, StopsAtCtrlC) {
  Program program =
      Program::forked({"selfcheck", "--attentions", faulty(Fault::endless), "--checks",
                       "step,roofline", "--threads", "1", "--out", out_.string()});
  while (!program.ended() && (!fs::exists(out_) || fs::file_size(out_) == 0))
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  program.send(SIGINT);
  const ProgramResult result = program.wait();
  EXPECT_EQ(result.status, 130) << result.text();
  EXPECT_NE(result.err.find("a self-check begins afresh, so remove it"), std::string::npos);
  EXPECT_EQ(result.err.find("--resume"), std::string::npos) << result.err;
  EXPECT_NE(read_file(out_).find("\"roofline\""), std::string::npos);
}

TEST_F(SelfcheckTest, RefusesBeforeAnyWork) {
  const std::string out = out_.string();
  expect_refusal({"selfcheck"}, 2, "--out is required");
  expect_refusal({"selfcheck", "--out", "a.txt"}, 2, "should name a .jsonl file");
  expect_refusal({"selfcheck", "--checks", "parity", "--out", out}, 2, "unknown check 'parity'");
  expect_refusal({"selfcheck", "--attentions", "nystrm", "--out", out}, 2, "nystrm");
  expect_refusal({"selfcheck", "--minutes", "0", "--out", out}, 2, "--minutes");
  expect_refusal({"selfcheck", "--device", "gpu", "--out", out}, 2, "--device");
  EXPECT_FALSE(fs::exists(out_));
  write_file(out_, "");
  expect_refusal({"selfcheck", "--out", out}, 1, "is there already");
}

// ---- What no attention can have wrong -----------------------------------------------------------

TEST(SelfcheckChecks, ADropoutOfOtherBitsIsFound) {
  CheckReport right, other, shifted;
  const auto philox = [](const torch::Tensor& x, double p) {
    return ops::philox_dropout(x, p, /*training=*/true);
  };
  selfcheck::check_dropout_bits(torch::kCPU, philox, right);
  EXPECT_TRUE(right.holds());
  const auto torchs = [](const torch::Tensor& x, double p) { return torch::dropout(x, p, true); };
  selfcheck::check_dropout_bits(torch::kCPU, torchs, other);
  EXPECT_FALSE(other.holds());
  const auto moved = [&](const torch::Tensor& x, double p) { return philox(x, p).roll(1); };
  selfcheck::check_dropout_bits(torch::kCPU, moved, shifted);
  EXPECT_FALSE(shifted.holds());
}

TEST_F(SelfcheckTest, AGraphThatLeadsElsewhereIsFound) {
  const CheckSubject subject{.attention = parse_attention(faulty(Fault::none)),
                             .folder = scratch_.path()};
  CheckReport same, other;
  selfcheck::check_graph(subject, {}, {}, same);
  EXPECT_TRUE(same.holds());
  selfcheck::check_graph(subject, {"optimizer.lr=0.002"}, {}, other);
  EXPECT_FALSE(other.holds());
}

TEST(SelfcheckChecks, WhatIsNotFiniteHoldsNoLimit) {
  CheckReport report;
  report.at_most("a", 0.5, 1);
  EXPECT_TRUE(report.holds());
  EXPECT_EQ(report.worst()->what, "a");
  report.at_most("b", std::nan(""), 1);
  report.at_most("c", 0.1, 1);
  EXPECT_FALSE(report.holds());
  EXPECT_EQ(report.worst()->what, "b");
}

// ---- The program's own attentions ---------------------------------------------------------------

void expect_green(const std::string& attentions, const std::string& minutes) {
  Scratch scratch;
  const fs::path out = scratch.path() / "selfcheck.jsonl";
  std::vector<std::string> words = {"selfcheck", "--device", "cpu",   "--threads", "1",
                                    "--minutes", minutes,    "--out", out.string()};
  if (!attentions.empty()) words.insert(words.end(), {"--attentions", attentions});
  const ProgramResult result = run_program(words);
  EXPECT_EQ(result.status, 0) << result.text() << read_file(out);
  std::map<std::string, int> checks;
  for (const std::string& line : text_lines(read_file(out))) ++checks[json::parse(line)["check"]];
  EXPECT_EQ(checks.size(), selfcheck::check_names().size());
}

TEST(SelfcheckProgram, IsGreenWithACoreAndWithout) { expect_green("linear,fnet", "5"); }

TEST(SlowSelfcheck, IsGreenForEveryAttention) { expect_green("", "20"); }

}  // namespace
}  // namespace lra
