// lra fidelity: what theory says of the approximations, and how the file is written.
#include "harness/fidelity/fidelity.h"

#include "harness/fidelity/fidelity_file.h"
#include "harness/fidelity/fidelity_inputs.h"
#include "harness/fidelity/measures.h"
#include "harness/host/memory.h"
#include "harness/host/runtime.h"
#include "results/store/store.h"
#include "tests/harness/program.h"

namespace lra {
namespace {

// Where the paper's budgets are more work than softmax attention, nothing is to be measured.
TEST(FidelityBudgets, ThatAreTooMuchWorkAreLeftOut) {
  const Scratch scratch;
  const ProgramResult small =
      run_program({"fidelity", "--experiment", "4", "--length", "64", "--head-dim", "8", "--trials",
                   "2", "--attentions", "nystrom", "--seconds", "0.01", "--threads", "1", "--out",
                   (scratch.path() / "f.jsonl").string()});
  EXPECT_EQ(small.status, 0) << small.err;
}

TEST(RawScores, OneLandmarkReproducesTheFirstRowAndColumn) {
  const torch::Tensor q = torch::tensor({{1., 2.}, {3., -1.}, {0., 2.}, {-2., 1.}, {1., 1.}}),
                      k = torch::tensor({{2., 1.}, {1., 0.}, {-1., 3.}, {0., 1.}, {2., -2.}});
  const torch::Tensor a = q.matmul(k.mT()), close = fidelity::raw_score_approximation(q, k, 1);
  EXPECT_LT((close[0] - a[0]).abs().max().item<double>(), 1e-6);
  EXPECT_LT((close.select(1, 0) - a.select(1, 0)).abs().max().item<double>(), 1e-6);
  EXPECT_GT((close - a).abs().max().item<double>(), 1) << "and not the rest";
}

TEST(RelativeErrors, AreOfEachSample) {
  const torch::Tensor exact = torch::tensor({{3., 4.}, {1., 0.}}),
                      x = torch::tensor({{3., 4.}, {1., 2.}});
  EXPECT_EQ(fidelity::relative_errors(x, exact), (std::vector<double>{0, 2}));
}

TEST(SweptBudgets, ArePowersOfTwoAndEverything) {
  using Values = std::vector<int64_t>;
  EXPECT_EQ(fidelity::swept_budgets(64, 64), (Values{8, 16, 32, 64}));
  EXPECT_EQ(fidelity::swept_budgets(2, 10), (Values{1, 2, 4, 8, 10}));
  EXPECT_EQ(fidelity::swept_budgets(32, 10), (Values{4, 8, 10}));
  EXPECT_EQ(fidelity::swept_budgets(64, 5), (Values{5}));
}

class FidelityTest : public testing::Test {
 protected:
  void SetUp() override { host::install_counting_allocator(); }
  std::vector<Fidelity> measure(fidelity::FidelityRequest request) {
    request.seconds = 0.001;
    request.out = out_;
    fidelity::run_fidelity(request);
    return cells();
  }
  std::vector<Fidelity> cells() const {
    const Records records = find_records({out_});
    EXPECT_TRUE(records.bad.empty()) << records.bad.at(0).reason;
    return records.fidelity;
  }

  Scratch scratch_;
  const std::filesystem::path out_ = scratch_.path() / "f.jsonl";
};

double mean_of(const Fidelity& cell, const char* measure) {
  const TrialEstimate* estimate = cell.find(measure);
  EXPECT_NE(estimate, nullptr) << cell.attention.label << ": " << to_string(cell.status) << " "
                               << cell.reason;
  return estimate == nullptr ? -1 : estimate->mean;
}

// Q Kᵀ has rank d, so d landmarks say all of it.
TEST_F(FidelityTest, RawScoresFallToRoundingAtTheHeadWidth) {
  const auto all = measure({.experiments = {1}, .lengths = {20}, .head_dim = 6, .trials = 20});
  ASSERT_EQ(all.size(), 20u);
  for (const Fidelity& cell : all) {
    EXPECT_EQ(cell.trials, 20);
    EXPECT_EQ(cell.find("scores")->samples.size(), 20u);
    if (cell.budget_value >= 6) {
      EXPECT_LT(mean_of(cell, "scores"), 1e-6) << cell.budget_value;
    } else {
      EXPECT_GT(mean_of(cell, "scores"), 1) << cell.budget_value;
    }
  }
}

TEST_F(FidelityTest, SoftmaxIsExactWithAllLandmarksAndTheExactInverse) {
  const int64_t n = 12;
  const auto all = measure({.experiments = {2}, .lengths = {n}, .head_dim = 4, .trials = 2});
  ASSERT_EQ(all.size(), 4u * 2 * n);
  int64_t exact = 0;
  for (const Fidelity& cell : all) {
    EXPECT_EQ(cell.status, Status::ok);
    EXPECT_EQ(cell.attention.options["num_landmarks"], cell.budget_value);
    if (cell.budget_value < n) {
      EXPECT_GT(mean_of(cell, "matrix"), 1e-4);
    } else if (cell.attention.options["pinv"] == "exact") {
      ++exact;
      EXPECT_LT(mean_of(cell, "matrix"), 1e-8) << cell.attention.label;
      EXPECT_LT(mean_of(cell, "output"), 1e-8) << cell.attention.label;
    }
  }
  EXPECT_EQ(exact, 4);
}

// A is ill-conditioned long before it is large enough.
TEST_F(FidelityTest, TheExactInverseGetsWorseBeforeItGetsRight) {
  const auto all = measure({.experiments = {2}, .lengths = {64}, .trials = 1});
  double first = 0, worst = 0, last = 0;
  for (const Fidelity& cell : all) {
    if (cell.attention.options["pinv"] != "exact" ||
        cell.attention.options["landmarks"] != "segment_means")
      continue;
    const double error = mean_of(cell, "output");
    if (cell.budget_value == 4) first = error;
    worst = std::max(worst, error);
    last = error;
  }
  EXPECT_GT(worst, 5 * first);
  EXPECT_LT(last, 1e-8);
}

TEST_F(FidelityTest, IterationsConvergeAndBfloat16LosesThem) {
  const auto all = measure({.experiments = {3}, .lengths = {64}, .trials = 2});
  ASSERT_EQ(all.size(), 2u * (1 + 3 * 20));
  const auto inverse = [&](const std::string& label, const char* dtype, int64_t steps) {
    for (const Fidelity& cell : all) {
      if (cell.attention.label == label && cell.dtype == dtype &&
          cell.budget == "pinv_iterations" && cell.budget_value == steps)
        return mean_of(cell, "inverse");
    }
    ADD_FAILURE() << label << " " << dtype << " " << steps;
    return 0.0;
  };
  const std::string plain = "nystrom[num_landmarks=32]";
  for (int64_t steps = 2; steps <= 6; ++steps)
    EXPECT_LT(inverse(plain, "float32", steps), inverse(plain, "float32", steps - 1));
  EXPECT_LT(inverse(plain, "float32", 20), 0.1);
  EXPECT_LT(inverse(plain, "bfloat16", 20), 0.1) << "as the variant runs";
  EXPECT_GT(inverse(plain + " iterated in bfloat16", "bfloat16", 20), 0.1);
  int64_t conditions = 0;
  for (const Fidelity& cell : all) {
    if (cell.budget != "num_landmarks") continue;
    ++conditions;
    EXPECT_EQ(cell.find("condition")->samples.size(), 2u);
    EXPECT_GT(cell.find("condition")->median, 1);
  }
  EXPECT_EQ(conditions, 2);
}

TEST_F(FidelityTest, EveryApproximationStandsOnOneScale) {
  const int64_t n = 64;
  const auto all = measure({.experiments = {4}, .lengths = {n}, .head_dim = 16, .trials = 2});
  std::map<std::string, std::vector<const Fidelity*>> rows;
  for (const Fidelity& cell : all) {
    rows[cell.attention.name].push_back(&cell);
    EXPECT_TRUE(cell.status == Status::ok || cell.status == Status::unsupported)
        << cell.attention.label << ": " << cell.reason;
    EXPECT_EQ(cell.status == Status::ok, cell.reason.empty());
    if (cell.status != Status::ok) continue;
    EXPECT_GT(cell.time->median, 0);
    EXPECT_GT(cell.memory->peak, 0);
  }
  for (const AttentionEntry* entry : attention_entries()) {
    const bool wanted = entry->info.softmax != Softmax::different || !entry->info.budget.empty();
    EXPECT_EQ(rows.contains(entry->info.name), wanted) << entry->info.name;
  }
  EXPECT_LT(mean_of(*rows["standard"].at(0), "output"), 1e-5);
  // Those for which a budget of everything is softmax itself, and that see more with more.
  for (const char* name : {"nystrom", "local"}) {
    ASSERT_EQ(rows[name].size(), 4u) << name;
    double last = 1e9;
    for (const Fidelity* cell : rows[name]) {
      EXPECT_LT(mean_of(*cell, "output"), last) << name << " " << cell->budget_value;
      last = mean_of(*cell, "output");
    }
    EXPECT_LT(last, 1e-5) << name;
  }
}

TEST_F(FidelityTest, WhatCannotRunIsACellWithItsReason) {
  const auto all = measure(
      {.experiments = {4}, .lengths = {16}, .trials = 1, .attentions = parse_attentions("fnet")});
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].status, Status::unsupported);
  EXPECT_FALSE(all[0].reason.empty());
}

TEST_F(FidelityTest, WhereEveryBudgetIsTooMuchWorkACellSaysSo) {
  const fidelity::FidelityRequest request{.experiments = {4},
                                          .lengths = {16},
                                          .trials = 1,
                                          .attentions = parse_attentions("skyformer,standard")};
  const auto all = measure(request);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].status, Status::unsupported);
  EXPECT_EQ(all[0].reason, "takes over 8 times the operations of softmax attention");
  EXPECT_EQ(all[0].budget, "");
  EXPECT_EQ(all[1].status, Status::ok) << all[1].reason;
  EXPECT_EQ(measure(request).size(), 2u) << "a second call adds none";
}

TEST_F(FidelityTest, WhereInputsTakeTooMuchMemoryACellAnAttentionSaysSo) {
  fidelity::FidelityRequest request{.experiments = {1, 2, 3, 4},
                                    .lengths = {256},
                                    .head_dim = 4,
                                    .trials = 2,
                                    .attentions = parse_attentions("standard,local")};
  request.memory_limit = host::live_bytes(torch::kCPU) + 10'000;  // inputs take 48 KiB and more
  const auto all = measure(request);
  std::map<int64_t, int64_t> cells_of;
  for (const Fidelity& cell : all) {
    ++cells_of[cell.experiment];
    EXPECT_EQ(cell.status, Status::oom) << cell.reason;
    EXPECT_NE(cell.reason.find("pass the limit"), std::string::npos) << cell.reason;
    EXPECT_EQ(cell.budget, "");
    EXPECT_EQ(cell.length, 256);
    EXPECT_EQ(cell.head_dim, 4);
  }
  EXPECT_EQ(cells_of, (std::map<int64_t, int64_t>{{1, 1}, {2, 1}, {3, 1}, {4, 2}}));
  EXPECT_EQ(measure(request).size(), all.size()) << "a second call adds none";
  EXPECT_NO_THROW(torch::zeros({100'000})) << "the limit is of the experiments";
}

// What is made of the inputs before the first cell counts too: here scores of a MiB.
TEST_F(FidelityTest, WhatIsMadeOfTheInputsIsWithinTheLimit) {
  const auto all = measure({.experiments = {1, 2},
                            .lengths = {256},
                            .head_dim = 4,
                            .trials = 2,
                            .memory_limit = host::live_bytes(torch::kCPU) + 500'000});
  ASSERT_EQ(all.size(), 2u);
  for (const Fidelity& cell : all) EXPECT_EQ(cell.status, Status::oom) << cell.reason;
}

TEST_F(FidelityTest, AGivenBudgetIsTheOnlyOne) {
  const auto all = measure({.experiments = {4},
                            .lengths = {32},
                            .trials = 1,
                            .attentions = parse_attentions("nystrom[num_landmarks=5]")});
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].budget_value, 5);
  EXPECT_EQ(all[0].attention.options["conv_kernel_size"], 0)
      << "a convolution of the values is no part of the approximation";
}

TEST_F(FidelityTest, ASecondCallAddsOnlyWhatIsMissing) {
  const fidelity::FidelityRequest request{.experiments = {1}, .lengths = {6}, .trials = 2};
  measure(request);
  const std::string whole = read_file(out_);
  measure(request);
  EXPECT_EQ(read_file(out_), whole);
  // A killed call leaves half a line.
  write_file(out_, whole.substr(0, whole.size() - 40));
  measure(request);
  EXPECT_EQ(read_file(out_), whole);
  write_file(out_, "{\"sch");
  measure(request);
  EXPECT_EQ(read_file(out_), whole) << "also where it is the first";
}

TEST_F(FidelityTest, WhatOtherKernelsMeasuredDoesNotGoOn) {
  const fidelity::FidelityRequest request{.experiments = {1}, .lengths = {6}, .trials = 2};
  measure(request);
  std::string text = read_file(out_);
  const std::string now = host::software_json()["kernels"], key = "\"kernels\":\"";
  const size_t at = text.find(key + now);
  ASSERT_NE(at, std::string::npos) << text;
  text.replace(at, key.size() + now.size(), key + "others");
  write_file(out_, text);
  const std::string error = error_text([&] { measure(request); });
  EXPECT_NE(error.find("has cells measured with kernels others, which is " + now +
                       " here; give another --out"),
            std::string::npos)
      << error;
  EXPECT_EQ(read_file(out_), text);
}

TEST_F(FidelityTest, OtherFilesAreLeftAlone) {
  for (const char* text : {"notes", "notes\n", "{\"schema\": \"lra.profile/1\"}\n", "{}"}) {
    write_file(out_, text);
    const std::string error = error_text([&] { const fidelity::FidelityFile file(out_); });
    EXPECT_TRUE(contains(error, "is not a fidelity file of this program")) << text << ": " << error;
    EXPECT_EQ(read_file(out_), text);
  }
}

class TrainedFidelityTest : public FidelityTest {
 protected:
  void SetUp() override {
    FidelityTest::SetUp();
    prepare_tiny_listops(data_);
    std::vector<std::string> words = tiny_train(data_, run_, "standard", 8);
    for (const std::string& set : sets()) words.insert(words.end(), {"--set", set});
    const ProgramResult trained = run_program(words);
    ASSERT_EQ(trained.status, 0) << trained.err;
  }
  virtual std::vector<std::string> sets() const { return {}; }
  void expect_what_layers_see() const;
  const std::filesystem::path data_ = scratch_.path() / "data", run_ = scratch_.path() / "run";
};

class CausalFidelityTest : public TrainedFidelityTest {
 protected:
  std::vector<std::string> sets() const override { return {"model.causal=true"}; }
};

TEST_F(CausalFidelityTest, IsRefused) {
  const std::string text = error_text([&] { fidelity::TrainedInputs(run_, {}, torch::kCPU); });
  EXPECT_NE(text.find("model.causal is true"), std::string::npos) << text;
}

void TrainedFidelityTest::expect_what_layers_see() const {
  const torch::NoGradGuard no_grad;
  const auto layers = fidelity::TrainedInputs(run_, {}, torch::kCPU).layers(3, 20);
  const OpenedRun run = open_run(run_, {}, CheckpointKind::best, torch::kCPU);
  run.model->eval();
  ASSERT_EQ(layers.size(), 2u);
  // The first dev samples of at least 20 tokens.
  const Split& dev = run.data.split("dev");
  std::vector<torch::Tensor> rows;
  for (int64_t i = 0; i < dev.size() && rows.size() < 3; ++i) {
    if (dev.length(i) < 20) continue;
    rows.push_back(torch::zeros({1, 1, 20}, torch::kInt64));
    dev.copy(i, 0, 20, rows.back().data_ptr<int64_t>());
  }
  const torch::Tensor tokens = torch::cat(rows), mask = torch::ones({3, 20}, torch::kBool);
  const auto seen = run.model->attention_inputs(tokens, mask.unsqueeze(1));
  for (size_t layer = 0; layer < 2; ++layer) {
    const fidelity::FidelityInputs& in = layers[layer];
    Attention& attention = *run.model->attentions()[layer];
    EXPECT_EQ(in.q.sizes(), (std::vector<int64_t>{3, 2, 20, 32}));
    EXPECT_EQ(in.layer, static_cast<int64_t>(layer));
    EXPECT_TRUE(in.mask.all().item<bool>());
    // The layer's own output, from these q, k and v.
    const auto state = attention.named_parameters();
    const torch::Tensor joined =
        attention.attend(in.q, in.k, in.v, in.mask).transpose(1, 2).flatten(2);
    const torch::Tensor out = torch::linear(joined, state["output.weight"], state["output.bias"]);
    EXPECT_LT((out - attention.forward(seen[layer], mask)).abs().max().item<double>(), 1e-5);
  }
}

class CutFidelityTest : public TrainedFidelityTest {
 protected:
  std::vector<std::string> sets() const override { return {"input.cut=24"}; }
};

TEST_F(CutFidelityTest, TakesNoMoreThanTheModelReads) {
  const fidelity::TrainedInputs inputs(run_, {}, torch::kCPU);
  EXPECT_EQ(inputs.layers(2, 24).size(), 2u);
  EXPECT_EQ(error_text([&] { inputs.layers(2, 25); }), "the run's model reads 24 tokens, not 25");
}

TEST_F(TrainedFidelityTest, SeesWhatTheModelsLayersSee) { expect_what_layers_see(); }

class RotaryFidelityTest : public TrainedFidelityTest {
  // Of a base at which few positions already turn far.
  std::vector<std::string> sets() const override {
    return {"model.positions=rotary", "model.rotary_base=4"};
  }
};

TEST_F(RotaryFidelityTest, SeesWhatTheModelsLayersTurn) { expect_what_layers_see(); }

TEST_F(TrainedFidelityTest, RecordsLayersAndTheRun) {
  const auto all = measure({.experiments = {3, 4},
                            .lengths = {32, 128},
                            .trials = 2,
                            .attentions = parse_attentions("standard,nystrom[num_landmarks=8]"),
                            .run = run_});
  int64_t trained = 0, refused = 0;
  for (const Fidelity& cell : all) {
    if (cell.data.source != "run") continue;
    EXPECT_EQ(cell.data.task, "listops");
    EXPECT_EQ(cell.data.attention, "standard");
    EXPECT_TRUE(cell.data.step == 4 || cell.data.step == 8) << cell.data.step;
    EXPECT_FALSE(cell.data.synthetic);
    EXPECT_EQ(cell.data.fingerprint.size(), 64u);
    EXPECT_EQ(cell.heads, 2);
    if (cell.length == 128) {  // the model reads 64
      EXPECT_EQ(cell.status, Status::unsupported);
      EXPECT_EQ(cell.reason, "the run's model reads 64 tokens, not 128");
      ++refused;
    } else {
      // Trained attention is so ill-conditioned that bfloat16 may end in infinity.
      const bool may_diverge = cell.attention.options.contains("iterated_in");
      EXPECT_TRUE(cell.status == Status::ok || (may_diverge && cell.status == Status::diverged))
          << cell.attention.label << ": " << cell.reason;
      EXPECT_TRUE(cell.layer == 0 || cell.layer == 1);
      ++trained;
    }
  }
  EXPECT_EQ(trained, 2 * (1 + 3 * 20) + 2 * 2);
  EXPECT_EQ(refused, 1 + 2);
}

class FidelityCommand : public testing::Test {
 protected:
  ProgramResult fidelity(std::vector<std::string> words) const {
    words.insert(words.begin(), "fidelity");
    words.insert(words.end(), {"--out", out_, "--threads", "1"});
    return run_program(words);
  }
  void expect_refusal(const std::vector<std::string>& words, const std::string& reason) const {
    const ProgramResult result = fidelity(words);
    EXPECT_EQ(result.status, 2) << result.err;
    EXPECT_NE(result.err.find(reason), std::string::npos) << result.err;
    EXPECT_FALSE(std::filesystem::exists(out_)) << "nothing half-written";
  }

  Scratch scratch_;
  const std::string out_ = (scratch_.path() / "f.jsonl").string();
};

TEST_F(FidelityCommand, WritesWhatReportTabulatesAndPlots) {
  const ProgramResult result =
      fidelity({"--experiment", "1", "--length", "5", "--head-dim", "2", "--trials", "3"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.err.find("5 cells in " + out_), std::string::npos) << result.err;
  const std::filesystem::path folder = scratch_.path() / "report";
  const ProgramResult report = run_program({"report", out_, "--out", folder.string()});
  ASSERT_EQ(report.status, 0) << report.err;
  EXPECT_NE(report.out.find("Landmarks on raw scores, random gaussian: error of the raw scores"),
            std::string::npos)
      << report.out;
  for (const char* name : {"report.md", "fidelity.csv", "fidelity.tex", "fidelity-1-1-scores.gp"})
    EXPECT_TRUE(std::filesystem::exists(folder / name)) << name;
  const bool told = report.err.find("no plots: gnuplot is not installed") != std::string::npos;
  for (const char* name : {"fidelity-1-1-scores.svg", "fidelity-1-1-scores.pdf"}) {
    EXPECT_NE(std::filesystem::exists(folder / name), told) << name << ": " << report.err;
    if (!told) {
      EXPECT_GT(std::filesystem::file_size(folder / name), 1000u);
    }
  }
}

TEST_F(FidelityCommand, RefusesWithOneLineThatHelps) {
  expect_refusal({"--experiment", "5"}, "--experiment");
  expect_refusal({"--experiment", "1", "--run", "x"}, "--run applies to experiments 3 and 4");
  expect_refusal({"--experiment", "2", "--attentions", "standard"},
                 "--attentions applies to experiment 4");
  expect_refusal({"--attentions", "standrad"}, "did you mean 'standard'?");
  expect_refusal({"--data", "x"}, "name a run");
  expect_refusal({"--length", "0"}, "--length");
  expect_refusal({"--experiment", "3", "--length", "32,10"},
                 "--length 10: experiment 3 has 32, 64, 128 landmarks, so that lengths should be "
                 "32 or more");
  EXPECT_NE(run_program({"fidelity", "--out", "x.txt"}).err.find("--out should name a .jsonl file"),
            std::string::npos);
}

TEST_F(FidelityCommand, ACellThatCrashedIsToldAndTriedAgain) {
  const std::vector<std::string> words = {
      "--experiment", "4",
      "--length",     "16",
      "--trials",     "1",
      "--attentions", "torchscript:" LRA_SOURCE_DIR "/tests/fixtures/torchscript-wrong_shape.pt"};
  for (int call = 0; call < 2; ++call) {
    const ProgramResult result = fidelity(words);
    EXPECT_EQ(result.status, 1) << result.err;
    EXPECT_NE(result.err.find("1 cell(s) were not measured, and the same command tries them again"),
              std::string::npos)
        << result.err;
    const std::string text = read_file(out_);
    EXPECT_EQ(std::ranges::count(text, '\n'), 1) << "the later in place of the earlier";
  }
}

TEST_F(FidelityCommand, AProfileIsNotWrittenOverIt) {
  ASSERT_EQ(fidelity({"--experiment", "1", "--length", "2", "--trials", "2"}).status, 0);
  const std::string text = read_file(out_);
  const ProgramResult result =
      run_program({"profile", "--lengths", "16", "--attentions", "standard", "--out", out_});
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.err.find("is not a profile of this program"), std::string::npos) << result.err;
  EXPECT_EQ(read_file(out_), text);
}

}  // namespace
}  // namespace lra
