// Run against run: what is computed, and what is refused.
#include "results/analysis/compare_runs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "results/tables/comparison_table.h"
#include "tests/results/examples.h"

namespace lra {
namespace {

Result compared_run(const std::string& attention, int64_t correct, uint64_t seed = 0) {
  Result r = with_predictions(example_result(attention, seed), 1000,
                              [=](int64_t i) { return i < correct; });
  r.path = fmt::format("runs/{}/seed{}/result.json", attention, seed);
  return r;
}

std::string text_of(const RunComparison& comparison) {
  std::string text;
  for (const Table& table : comparison_tables(comparison)) text += to_text(table);
  return text;
}

// What the budget set is the cell's own where the protocol has values by attention; a run that was
// given the very value by hand is of the same comparison, and its seed of the same side.
TEST(CompareRuns, ARunByHandComparesWithASuitesCell) {
  Result cell = compared_run("nystrom", 400);
  cell.config["overridden"] = {"training.steps"};
  cell.config["by_attention"] = {"training.steps"};
  Result by_hand = compared_run("standard", 360), second = compared_run("nystrom", 404, 1);
  for (Result* r : {&by_hand, &second}) {
    r->config["overridden"] = cell.config["overridden"];
    r->config["by_attention"] = cell.config["by_attention"];
  }
  cell.budget = {.name = "quick",
                 .tasks = "{}",
                 .set = {{"listops", {{"training.steps", *cell.setting("training.steps")}}}}};
  const std::vector<Result> cells{cell, second}, hand{by_hand};
  for (const bool turned : {false, true}) {
    const RunComparison c = turned ? compare_runs(hand, cells) : compare_runs(cells, hand);
    const ComparedSide& side = turned ? c.b : c.a;
    ASSERT_EQ(side.runs.size(), 2u);
    EXPECT_EQ(side.runs[1], &cells[1]);
    EXPECT_NEAR(std::abs(c.difference), 0.042, 1e-12);
    EXPECT_EQ(comparison_json(c)["overridden"], json::array());
  }
}

TEST(CompareRuns, OneRunASide) {
  Result a = compared_run("nystrom", 400), b = compared_run("standard", 360);
  b.training.steps_per_second = 5.0;
  b.training.peak_memory_mib = 601.0;
  const std::vector<Result> as{a};
  std::vector<Result> bs{b};
  const RunComparison c = compare_runs(as, bs);
  EXPECT_EQ(c.a.name, "nystrom");
  EXPECT_EQ(c.b.name, "standard");
  EXPECT_NEAR(c.difference, 0.04, 1e-12);
  EXPECT_EQ(c.counts->both, 360);
  EXPECT_EQ(c.counts->only_a, 40);
  EXPECT_EQ(c.counts->only_b, 0);
  EXPECT_EQ(c.counts->neither, 600);
  EXPECT_DOUBLE_EQ(*c.mcnemar, stats::mcnemar_p(40, 0));
  EXPECT_GT(c.bootstrap->low, 0.02);
  EXPECT_LT(c.bootstrap->high, 0.06);
  EXPECT_FALSE(c.welch);
  EXPECT_DOUBLE_EQ(*c.time_ratio, 0.5);
  EXPECT_DOUBLE_EQ(*c.memory_ratio, 0.5);

  bs[0].machine.processor_model = "family 26";
  EXPECT_TRUE(contains(text_of(compare_runs(as, bs)),
                       "family 26, 1 thread (older records do not say the processor's model)"));
  bs[0].machine.processor_model.clear();
  bs[0].training.evaluation_peak_memory_mib = 700;
  const RunComparison other_peaks = compare_runs(as, bs);
  EXPECT_FALSE(other_peaks.memory_ratio);
  EXPECT_TRUE(contains(text_of(other_peaks), "memory is not compared: the peaks of some runs"));

  const std::string text = text_of(c);
  EXPECT_TRUE(contains(text, "listops: protocol lra-strict, float32, data listops aaaaaaaa"))
      << text;
  EXPECT_TRUE(contains(text, "40.00 [37.01, 43.07]")) << text;
  EXPECT_TRUE(contains(text, "+4.00")) << text;
  EXPECT_TRUE(contains(text, "p = 1.819e-12")) << text;  // 2 / 2^40
  EXPECT_TRUE(contains(text, "0.5 × the time")) << text;
  EXPECT_TRUE(contains(text, "0.5 × the memory")) << text;
  EXPECT_TRUE(contains(text, "another seed may differ by more")) << text;
  const auto tables = comparison_tables(c);
  ASSERT_EQ(tables.size(), 2u);
  EXPECT_EQ(tables[1].title, "Test examples by who predicted them rightly");
  EXPECT_EQ(tables[1].rows, (std::vector<std::vector<std::string>>{{"both", "360", "36.00"},
                                                                   {"nystrom alone", "40", "4.00"},
                                                                   {"standard alone", "0", "0.00"},
                                                                   {"neither", "600", "60.00"}}));
  for (const auto& row : tables[0].rows) EXPECT_FALSE(contains(row[0], "right of")) << row[0];

  const json value = comparison_json(c);
  EXPECT_EQ(value["schema"], "lra.compare/1");
  EXPECT_NEAR(value["difference"].get<double>(), 0.04, 1e-12);
  EXPECT_EQ(value["mcnemar"]["only_a"], 40);
  EXPECT_EQ(value["a"]["runs"][0]["path"], "runs/nystrom/seed0/result.json");
  EXPECT_FALSE(value.contains("welch"));
}

TEST(CompareRuns, SeedsASide) {
  const std::vector<Result> a{compared_run("nystrom", 400, 0), compared_run("nystrom", 404, 1)},
      b{compared_run("standard", 300, 0), compared_run("standard", 304, 1),
        compared_run("standard", 308, 2)};
  const RunComparison c = compare_runs(a, b);
  EXPECT_NEAR(c.a.accuracy, 0.402, 1e-12);
  EXPECT_NEAR(*c.b.sd, 0.004, 1e-12);
  EXPECT_FALSE(c.counts);
  ASSERT_TRUE(c.welch && c.bootstrap);
  EXPECT_LT(c.welch->p, 0.001);
  EXPECT_LT(c.bootstrap->low, 0.098);
  EXPECT_GT(c.bootstrap->high, 0.098);
  const std::string text = text_of(c);
  EXPECT_TRUE(contains(text, "0, 1, 2")) << text;
  EXPECT_TRUE(contains(text, "sd over seeds")) << text;
  EXPECT_TRUE(comparison_json(c).contains("welch"));
}

TEST(CompareRuns, SeedsThatAgreeKeepTheSamplingOfTheTestSetAndAreNotTested) {
  const std::vector<Result> a{compared_run("nystrom", 140, 0), compared_run("nystrom", 140, 1)},
      b{compared_run("standard", 150, 0), compared_run("standard", 150, 1)};
  const RunComparison c = compare_runs(a, b);
  const stats::Interval wilson = stats::wilson_interval(140, 1000);
  EXPECT_DOUBLE_EQ(c.a.ci95.low, wilson.low);
  EXPECT_DOUBLE_EQ(c.a.ci95.high, wilson.high);
  EXPECT_FALSE(c.welch);
  EXPECT_TRUE(contains(text_of(c), "no Welch test: the seeds of neither side differ"));
}

TEST(CompareRuns, RunsOfOneAttentionCompareToo) {
  const std::vector<Result> a{compared_run("nystrom", 400, 0)}, b{compared_run("nystrom", 404, 1)};
  EXPECT_NEAR(compare_runs(a, b).difference, -0.004, 1e-12);
}

TEST(CompareRuns, GoesOnWithoutAPairedTestWhereTheExamplesAreOthers) {
  const auto shorter = [](const std::string& attention, uint64_t seed) {
    Result r =
        with_predictions(example_result(attention, seed), 900, [](int64_t i) { return i < 300; });
    r.path = fmt::format("runs/{}/seed{}/result.json", attention, seed);
    return r;
  };
  const auto note = [](const std::string& one, const std::string& two) {
    return fmt::format(
        "no paired test: the predictions of runs/{}/result.json (1000) and of "
        "runs/{}/result.json (900) are of other examples",
        one, two);
  };
  const std::vector<Result> a{compared_run("nystrom", 400)}, b{shorter("standard", 0)};
  const RunComparison one = compare_runs(a, b);
  EXPECT_FALSE(one.bootstrap || one.counts || one.mcnemar);
  EXPECT_NEAR(one.difference, 0.4 - 300.0 / 900, 1e-12);
  EXPECT_TRUE(one.time_ratio);
  EXPECT_EQ(std::ranges::count(one.notes, note("nystrom/seed0", "standard/seed0")), 1)
      << fmt::format("{}", fmt::join(one.notes, "\n"));
  EXPECT_FALSE(comparison_json(one).contains("bootstrap_ci95"));
  // Of several seeds a side the other tests stay.
  const std::vector<Result> seeds_a{compared_run("nystrom", 400, 0), shorter("nystrom", 1)},
      seeds_b{compared_run("standard", 360, 0), compared_run("standard", 364, 1)};
  const RunComparison seeds = compare_runs(seeds_a, seeds_b);
  EXPECT_FALSE(seeds.bootstrap);
  EXPECT_TRUE(seeds.welch);
  EXPECT_EQ(std::ranges::count(seeds.notes, note("nystrom/seed0", "nystrom/seed1")), 1);
}

std::string refusal(const std::vector<Result>& a, const std::vector<Result>& b) {
  return error_text<std::exception>([&] { compare_runs(a, b); });
}

TEST(CompareRuns, RefusesWhatIsNotComparable) {
  const Result a = compared_run("nystrom", 400);
  const auto against = [&](void (*change)(Result&)) {
    Result b = compared_run("standard", 360);
    change(b);
    return refusal({a}, {b});
  };
  const std::string in_a = " in runs/nystrom/seed0/result.json, ",
                    in_b = " in runs/standard/seed0/result.json";
  EXPECT_EQ(against([](Result& r) { r.task = "text"; }),
            "cannot compare runs of different tasks: listops" + in_a + "text" + in_b);
  EXPECT_EQ(against([](Result& r) { r.protocol = "tay2020"; }),
            "cannot compare runs of different protocols: lra-strict" + in_a + "tay2020" + in_b);
  const std::string kinds = "cannot compare runs of different kinds of data: real" + in_a;
  EXPECT_EQ(against([](Result& r) { r.data.synthetic = true; }),
            kinds + "synthetic stand-in data" + in_b);
  EXPECT_EQ(against([](Result& r) { r.data.source = "CIFAR-10 (JPEG), from x.tar"; }),
            kinds + "CIFAR-10 (JPEG)" + in_b);
  EXPECT_EQ(against([](Result& r) { r.data.fingerprint = "b"; }),
            "cannot compare runs of different data: " + std::string(64, 'a') + in_a + "b" + in_b);
  EXPECT_EQ(against([](Result& r) { r.config["dtype"] = "bfloat16"; }),
            "cannot compare runs of different number types: float32" + in_a + "bfloat16" + in_b);
  EXPECT_EQ(against([](Result& r) { r.config["overridden"] = {"training.steps"}; }),
            "cannot compare runs of different overridden settings: none" + in_a +
                "training.steps=5000" + in_b);
  // What decides no number is no difference, and what both have is not named.
  const auto override_both = [](Result& r, int64_t steps, int64_t checkpoint_every) {
    r.config["training"] = {{"steps", steps}, {"batch", 8}, {"checkpoint_every", checkpoint_every}};
    r.config["overridden"] = {"training.steps", "training.batch", "training.checkpoint_every"};
  };
  Result one = compared_run("nystrom", 400), two = compared_run("standard", 360);
  override_both(one, 10, 5);
  override_both(two, 10, 2);
  EXPECT_EQ(refusal({one}, {two}), "(no error)");
  override_both(two, 20, 2);
  EXPECT_EQ(refusal({one}, {two}),
            "cannot compare runs of different overridden settings: training.steps=10" + in_a +
                "training.steps=20" + in_b);
  EXPECT_EQ(against([](Result& r) { r.task = "\x1b[2J"; }),
            "cannot compare runs of different tasks: listops" + in_a + "\\x1b[2J" + in_b);
  EXPECT_EQ(against([](Result& r) { r.config["training"]["steps"] = 7; }),
            "cannot compare runs of different settings: training.steps=5000" + in_a +
                "training.steps=7" + in_b);
  EXPECT_EQ(against([](Result& r) { r.data.fingerprint = ""; }),
            "runs/standard/seed0/result.json does not say which data it is of (data.fingerprint): "
            "it compares with nothing");
}

TEST(CompareRuns, RefusesSidesThatAreNotOneAttentionsFinishedRuns) {
  Result failed = compared_run("standard", 360);
  failed.status = Status::oom;
  failed.test.reset();
  EXPECT_EQ(refusal({compared_run("nystrom", 400)}, {failed}),
            "the second side holds no finished run: runs/standard/seed0/result.json is oom");
  EXPECT_EQ(refusal({}, {failed}), "the first side holds no run");
  Result elsewhere = compared_run("nystrom", 500);
  elsewhere.task = "text";
  EXPECT_TRUE(refusal({compared_run("nystrom", 400), elsewhere}, {compared_run("linear", 400)})
                  .starts_with("cannot compare runs of different tasks: "))
      << "no repeat of a seed";
  EXPECT_EQ(refusal({compared_run("nystrom", 400), compared_run("linear", 400, 1)},
                    {compared_run("standard", 360)}),
            "the first side holds runs of 2 attentions (linear, nystrom); name the runs of one");
  EXPECT_EQ(refusal({compared_run("nystrom", 400), compared_run("linear", 400)},
                    {compared_run("standard", 360)}),
            "the first side holds runs of 2 attentions (linear, nystrom); name the runs of one")
      << "of one seed too";
}

TEST(CompareRuns, SeedsThatDidNotAllLearnAreComparedByCountsAlone) {
  std::vector<Result> a, b;
  for (uint64_t seed = 0; seed < 5; ++seed) {
    a.push_back(compared_run("nystrom", 300 + static_cast<int64_t>(seed), seed));
    b.push_back(compared_run("standard", seed < 2 ? 310 : 80, seed));
  }
  const RunComparison five = compare_runs(a, b);
  EXPECT_FALSE(five.welch);
  EXPECT_DOUBLE_EQ(five.fisher.value_or(-1), stats::fisher_p(5, 5, 2, 5));
  // 310, 310 lie above and 80 three times below 300 to 304: no order of the sides.
  EXPECT_DOUBLE_EQ(
      five.rank_sum.value_or(-1),
      stats::rank_sum_p(std::vector<double>{3, 4, 5, 6, 7}, std::vector<double>{8, 8, 1, 1, 1}));
  EXPECT_GT(*five.rank_sum, 0.5);
  EXPECT_EQ(comparison_json(five)["b"]["learned"], 2);
  EXPECT_EQ(comparison_json(five)["rank_sum"]["p"], *five.rank_sum);
  EXPECT_DOUBLE_EQ(comparison_json(five)["rank_sum"]["above"], 0.6);
  const RunComparison two = compare_runs({a.data(), 2}, {b.data() + 2, 2});
  EXPECT_FALSE(two.welch || two.fisher || two.rank_sum);
  std::string notes;
  for (const std::string& note : two.notes) notes += note + "\n";
  EXPECT_TRUE(contains(notes,
                       "WARNING: learned by 2/2 seeds against 0/2: fewer than 5 a side show no "
                       "difference of the attentions"))
      << notes;
}

// Without predictions, and so without a bootstrap that takes its time.
Result plain_run(const std::string& attention, int64_t correct, uint64_t seed = 0) {
  Result r = compared_run(attention, correct, seed);
  r.predictions = nullptr;
  return r;
}

std::string notes_text(const RunComparison& c) {
  return fmt::format("{}\n", fmt::join(c.notes, "\n"));
}

TEST(CompareRuns, MediansAreOfOneMachine) {
  std::vector<Result> a{plain_run("nystrom", 300, 0), plain_run("nystrom", 304, 1)};
  const std::vector<Result> b{plain_run("standard", 310, 0), plain_run("standard", 311, 1)};
  a[1].machine.gpu = "NVIDIA H200";
  const RunComparison c = compare_runs(a, b);
  EXPECT_FALSE(c.a.median_cost(&TrainingCost::steps_per_second));
  EXPECT_EQ(c.b.median_cost(&TrainingCost::steps_per_second), 10.0);
  EXPECT_FALSE(c.time_ratio);
}

TEST(CompareRuns, SeedsThatDivergedCountAsNotLearned) {
  std::vector<Result> a, b;
  const auto diverged = [](Result r) {
    r.status = Status::diverged;
    r.test.reset();
    return r;
  };
  for (uint64_t seed = 0; seed < 5; ++seed) {
    a.push_back(plain_run("nystrom", 300 + static_cast<int64_t>(seed), seed));
    b.push_back(plain_run("standard", 310 + static_cast<int64_t>(seed), seed));
    if (seed >= 2) b.back() = diverged(b.back());
  }
  b.push_back(diverged(plain_run("other", 300, 7)));  // of another attention
  // And of another number type, other data, and another setting.
  for (const auto& change : std::vector<std::function<void(Result&)>>{
           [](Result& r) { r.config["dtype"] = "bfloat16"; },
           [](Result& r) { r.data.fingerprint = "another"; },
           [](Result& r) { r.config["training"]["batch"] = 7; }}) {
    b.push_back(diverged(plain_run("standard", 300, 8)));
    change(b.back());
  }
  const RunComparison c = compare_runs(a, b);
  EXPECT_EQ(c.a.learned.text() + " " + c.b.learned.text(), "5/5 2/5");
  EXPECT_FALSE(c.welch);
  EXPECT_DOUBLE_EQ(c.fisher.value_or(-1), stats::fisher_p(5, 5, 2, 5));
  EXPECT_DOUBLE_EQ(c.rank_sum.value_or(-1), stats::rank_sum_p(std::vector<double>{3, 4, 5, 6, 7},
                                                              std::vector<double>{8, 9, 1, 1, 1}));
  EXPECT_TRUE(contains(notes_text(c),
                       "WARNING: 3 of 5 seeds of standard diverged: they did not learn listops, "
                       "and the mean is that of the others alone\n"))
      << notes_text(c);
  EXPECT_FALSE(contains(notes_text(c), "was not learned by")) << notes_text(c);
  EXPECT_EQ(comparison_json(c)["b"]["diverged"], 3);
  EXPECT_FALSE(comparison_json(c)["a"].contains("diverged"));
  EXPECT_TRUE(contains(text_of(c), "2/5")) << text_of(c);
}

TEST(CompareRuns, SaysWhichSideBreaksTheContract) {
  const std::vector<Result> ours{plain_run("nystrom", 400)};
  std::vector<Result> own{plain_run("torchscript", 300)};
  EXPECT_FALSE(contains(notes_text(compare_runs(ours, own)), "contract"));
  own[0].contract = ContractRecord{.passed = 19, .of = 19, .failed = {}};
  EXPECT_FALSE(contains(notes_text(compare_runs(ours, own)), "contract"));
  own[0].contract =
      ContractRecord{.passed = 18, .of = 19, .failed = {{"padding invariance", "wrong"}}};
  const std::string note =
      "WARNING: torchscript: 18 of 19 clauses of the contract hold; wrong: padding invariance\n";
  EXPECT_TRUE(contains(notes_text(compare_runs(ours, own)), note));
  const RunComparison c = compare_runs(own, ours);
  EXPECT_TRUE(contains(notes_text(c), note));
  EXPECT_TRUE(contains(text_of(c), "18 of 19 clauses of the contract hold"));
  EXPECT_TRUE(contains(comparison_json(c)["notes"].dump(), "clauses of the contract"));
}

TEST(CompareRuns, SaysWhereOthersTookTime) {
  const std::vector<Result> a{plain_run("nystrom", 400)};
  std::vector<Result> b{plain_run("standard", 300)};
  b[0].training.others = 0.04;
  EXPECT_FALSE(contains(notes_text(compare_runs(a, b)), "others took"));
  b[0].training.others = 0.3;
  EXPECT_TRUE(contains(notes_text(compare_runs(a, b)), "others took up to 30 % of the processors"));
}

TEST(CompareRuns, ComparesNoCostsOfThreadsThatAreNotKnown) {
  Result a = compared_run("nystrom", 400), b = compared_run("standard", 360);
  for (Result* r : {&a, &b}) r->training.threads.reset();
  const RunComparison unknown = compare_runs(std::vector{a}, std::vector{b});
  EXPECT_FALSE(unknown.time_ratio || unknown.memory_ratio);
  EXPECT_TRUE(contains(notes_text(unknown), "does not say how many threads it had"));
  for (Result* r : {&a, &b}) r->training.threads = 1;
  EXPECT_TRUE(contains(notes_text(compare_runs(std::vector{a}, std::vector{b})),
                       "what else ran while these trained is not known"));
  for (Result* r : {&a, &b}) r->training.others = 0;
  EXPECT_FALSE(contains(notes_text(compare_runs(std::vector{a}, std::vector{b})), "not known"));
}

TEST(CompareRuns, HasNoBootstrapOfAFewExamplesThatDiffer) {
  const std::vector<Result> a{compared_run("nystrom", 400)}, near{compared_run("standard", 391)},
      far{compared_run("standard", 390)};
  const RunComparison few = compare_runs(a, near);
  EXPECT_FALSE(few.bootstrap);
  EXPECT_EQ(few.counts->only_a, 9);
  EXPECT_TRUE(few.mcnemar);
  EXPECT_TRUE(contains(notes_text(few), "no bootstrap: the runs differ on 9 examples, fewer than"));
  EXPECT_TRUE(compare_runs(a, far).bootstrap);
  // Of several seeds by the two that differ most.
  const std::vector<Result> seeds{compared_run("nystrom", 400), compared_run("nystrom", 399, 1)},
      like{compared_run("standard", 400), compared_run("standard", 398, 1)},
      apart{compared_run("standard", 400), compared_run("standard", 390, 1)};
  const RunComparison close = compare_runs(seeds, like);
  EXPECT_FALSE(close.bootstrap);
  EXPECT_TRUE(contains(notes_text(close), "no bootstrap: the runs differ on 2 examples"));
  EXPECT_TRUE(compare_runs(seeds, apart).bootstrap);
}

TEST(CompareRuns, SaysWhereCheckpointsWereChosenOnTest) {
  Result a = compared_run("nystrom", 400), b = compared_run("standard", 360);
  EXPECT_FALSE(contains(notes_text(compare_runs(std::vector{a}, std::vector{b})), "chosen on"));
  for (Result* r : {&a, &b}) r->config["evaluation"] = {{"dev", "test"}};
  EXPECT_TRUE(contains(notes_text(compare_runs(std::vector{a}, std::vector{b})), "chosen on test"));
}

TEST(CompareRuns, JsonHasTheOverridesThatBothHave) {
  Result a = compared_run("nystrom", 400), b = compared_run("standard", 360);
  a.config["overridden"] = {"training.steps", "training.checkpoint_every"};
  b.config["overridden"] = {"training.steps"};
  for (Result* r : {&a, &b}) r->config["training"]["checkpoint_every"] = 250;
  const std::vector<Result> as{a}, bs{b};
  EXPECT_EQ(comparison_json(compare_runs(as, bs))["overridden"], json{"training.steps=5000"});
}

TEST(CompareRuns, NameAVariantOfTheData) {
  Result a = compared_run("nystrom", 400), b = compared_run("standard", 360);
  const std::vector<Result> plain_a{a}, plain_b{b};
  EXPECT_FALSE(comparison_json(compare_runs(plain_a, plain_b)).contains("data_variant"));
  for (Result* r : {&a, &b}) r->data.source = "CIFAR-10 (JPEG), from cifar10_jpeg.tar.xz";
  const std::vector<Result> as{a}, bs{b};
  const RunComparison c = compare_runs(as, bs);
  EXPECT_EQ(comparison_json(c)["data_variant"], "CIFAR-10 (JPEG)");
  EXPECT_TRUE(contains(comparison_tables(c)[0].title, ", CIFAR-10 (JPEG), data listops"));
  EXPECT_EQ(
      std::ranges::count(c.notes, "listops: CIFAR-10 (JPEG), not the data of published numbers"),
      1);
}

// Nothing says what a model of tokens has learned.
TEST(CompareRuns, OfTokensSayWhatTheyCount) {
  Result a = compared_run("nystrom", 400), b = compared_run("standard", 360);
  const auto shown = [&] {
    const std::vector<Result> as{a}, bs{b};
    const RunComparison c = compare_runs(as, bs);
    return comparison_json(c).dump() + to_text(comparison_tables(c)[0]);
  };
  EXPECT_TRUE(contains(shown(), R"("learned":1)"));
  EXPECT_TRUE(contains(shown(), "test accuracy %"));
  for (Result* r : {&a, &b}) r->metric = "masked_token_accuracy";
  EXPECT_FALSE(contains(shown(), "learned"));
  EXPECT_TRUE(contains(shown(), R"("metric":"masked_token_accuracy")"));
  EXPECT_TRUE(contains(shown(), "test masked_token_accuracy %"));
  EXPECT_TRUE(contains(shown(), "of tokens of the inputs, and not of the task"));
}

TEST(CompareRuns, SaysWhatIsLeftOutAndWhatIsNotThere) {
  Result failed = compared_run("standard", 360, 1), again = compared_run("standard", 350),
         bare = compared_run("nystrom", 400);
  failed.status = Status::diverged;
  failed.test.reset();
  bare.predictions = nullptr;
  bare.machine.cores = 64;
  const std::vector<Result> a{bare}, b{compared_run("standard", 100), failed, again};
  const RunComparison c = compare_runs(a, b);
  EXPECT_FALSE(c.bootstrap || c.counts || c.time_ratio || c.memory_ratio);
  std::string notes;
  for (const std::string& note : c.notes) notes += note + "\n";
  EXPECT_TRUE(contains(notes, "left out: runs/standard/seed1/result.json is diverged\n")) << notes;
  EXPECT_TRUE(contains(notes, "WARNING: seed 0 ran more than once and came to 10.00 % (")) << notes;
  const std::vector<Result> same{compared_run("standard", 100), compared_run("standard", 100)};
  EXPECT_TRUE(contains(notes_text(compare_runs(a, same)),
                       "left out: runs/standard/seed0/result.json repeats seed 0"));
  // As many right of others is another result.
  Result fewer = compared_run("standard", 100);
  fewer.test->count /= 2;
  fewer.test->accuracy *= 2;
  const std::vector<Result> differ{compared_run("standard", 100), fewer};
  EXPECT_TRUE(contains(notes_text(compare_runs(a, differ)),
                       "WARNING: seed 0 ran more than once and came to 10.00 %"));
  fewer.test->correct /= 2;
  fewer.test->accuracy /= 2;  // the same share of them
  const std::vector<Result> shares{compared_run("standard", 100), fewer};
  EXPECT_TRUE(contains(notes_text(compare_runs(a, shares)), "WARNING: seed 0 ran more than once"));
  EXPECT_TRUE(contains(notes, "no paired test: runs/nystrom/seed0/result.json has no predictions"))
      << notes;
  EXPECT_TRUE(contains(notes, "time and memory are not compared across machines or settings: "))
      << notes;
  EXPECT_TRUE(contains(notes, "WARNING: listops was not learned by standard in 1 of 1 runs"))
      << notes;
}

}  // namespace
}  // namespace lra
