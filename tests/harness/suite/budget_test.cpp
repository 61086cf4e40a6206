// What a budget sets for the cells of a suite, and what stands against it: the protocol's entries
// for attentions, and data that it would cut.
#include "harness/suite/suite.h"
#include "tests/harness/suite/fixture.h"

namespace lra::suite {
namespace {

namespace fs = std::filesystem;

class SuiteBudgetTest : public SuiteTest {
 protected:
  // lra-strict with these settings of linear in ListOps.
  std::string protocol(const json& settings) const {
    const fs::path path = scratch_.path() / "mine.json";
    write_json(
        path, {{"schema", "lra.protocol/1"},
               {"name", "mine"},
               {"extends", "lra-strict"},
               {"tasks", {{"listops", {{"attentions", {{"linear", {{"settings", settings}}}}}}}}}});
    return path.string();
  }
  Suite planned(const std::string& protocol_path, const std::vector<std::string>& sets = {}) const {
    return plan_suite({.tasks = {"listops"},
                       .attentions = {{.name = "linear"}, {.name = "standard"}},
                       .seeds = {0},
                       .protocol = protocol_path,
                       .budget = load_budget(budget_.string()),
                       .sets = sets,
                       .out = out("s")});
  }
  // Of 100 tokens or more, which the budget's 64 cut.
  fs::path longer() const {
    const fs::path data = out("longer");
    if (!fs::exists(data)) {
      task("listops").prepare(
          {.out = data, .train = 24, .dev = 16, .test = 16, .min_length = 100, .max_length = 160});
    }
    return data;
  }
};

TEST_F(SuiteBudgetTest, LeavesWhatAProtocolChoseForAnAttention) {
  const json own = {{"optimizer", {{"lr", 0.02}}}, {"model", {{"dropout", 0}}}};
  const Suite suite = planned(protocol(own));
  const Config &linear = suite.cells[0].config, &standard = suite.cells[1].config;
  EXPECT_EQ(linear.settings.optimizer.lr, 0.02);
  EXPECT_EQ(linear.settings.training.steps, 12) << "the budget's, as all else";
  EXPECT_EQ(standard.settings.optimizer.lr, 0.001);
  EXPECT_EQ(std::ranges::count(linear.overridden, "optimizer.lr"), 0);
  EXPECT_EQ(std::ranges::count(standard.overridden, "optimizer.lr"), 1);
  EXPECT_EQ(left_notes(suite),
            std::vector<std::string>{
                "listops: optimizer.lr as protocol mine has it for linear, not as budget tiny"});
  const Suite asked = planned(protocol(own), {"optimizer.lr=0.5"});
  for (const SuiteCell& cell : asked.cells) EXPECT_EQ(cell.config.settings.optimizer.lr, 0.5);
  EXPECT_EQ(left_notes(asked), std::vector<std::string>{}) << "it does not stand";

  // A group is set but for what was chosen.
  json budget = read_json(budget_);
  budget["tasks"]["listops"]["set"].erase("optimizer.lr");
  budget["tasks"]["listops"]["set"]["optimizer"] = {{"lr", 0.001}, {"beta2", 0.9}};
  write_json(budget_, budget);
  const Suite grouped = planned(protocol(own));
  EXPECT_EQ(grouped.cells[0].config.settings.optimizer.lr, 0.02);
  EXPECT_EQ(grouped.cells[1].config.settings.optimizer.lr, 0.001);
  for (const SuiteCell& cell : grouped.cells) EXPECT_EQ(cell.config.settings.optimizer.beta2, 0.9);
}

// What a file sets for all and the protocol that it extends has for an attention alone.
TEST_F(SuiteBudgetTest, APlanSaysWhatAnExtendedProtocolKeeps) {
  const std::string path = out("child.json").string();
  write_json(path, {{"schema", "lra.protocol/1"},
                    {"name", "child"},
                    {"extends", "lra-2026"},
                    {"settings", {{"optimizer", {{"lr", 5e-4}, {"beta2", 0.9}}}}}});
  json budget = read_json(budget_);
  budget["tasks"]["listops"]["set"].erase("optimizer.lr");
  write_json(budget_, budget);
  const Suite suite = planned(path);
  EXPECT_EQ(left_notes(suite),
            (std::vector<std::string>{"listops: optimizer.lr as lra-2026 has it for linear, not as "
                                      "child"}));
  const ProgramResult result = run_program(with(words("s", "linear"), {"--protocol", path}));
  EXPECT_NE(result.err.find(left_notes(suite).front() + "\n"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("not as child; an entry for linear in tasks.listops.attentions gives "
                            "it, or --set"),
            std::string::npos)
      << "its run says it too: " << result.err;
}

TEST_F(SuiteBudgetTest, AnErrorNamesWhatTheProtocolHasBesideIt) {
  const std::string error = error_text([&] {
    planned(protocol({{"schedule", {{"warmup", 100}}}}));
  });
  EXPECT_NE(error.find(": tasks.listops.set, beside what protocol mine has for linear itself "
                       "(schedule.warmup): schedule.warmup (100) should be less"),
            std::string::npos)
      << error;
}

TEST_F(SuiteBudgetTest, APlanAndASuiteSayWhatIsLeft) {
  const std::string path = protocol({{"optimizer", {{"lr", 0.02}}}}),
                    note =
                        "listops: optimizer.lr as protocol mine has it for linear, not as "
                        "budget tiny";
  std::vector<std::string> plan = with(words("s", "linear,standard"), {"--protocol", path});
  plan.insert(plan.begin() + 1, "plan");
  const ProgramResult shown = run_program(with(plan, {"--records", scratch_.path().string()}));
  ASSERT_EQ(shown.status, 0) << shown.err;
  EXPECT_NE(shown.out.find(note), std::string::npos) << shown.out;
  const ProgramResult result =
      run_program(with(words("s", "linear,standard"), {"--protocol", path, "--only", "0"}));
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.err.find(note + "\n"), std::string::npos) << result.err;
  EXPECT_EQ(read_json(run("s", "linear") / kResultFile)["config"]["optimizer"]["lr"], 0.02);
}

// Records of suites under these were made so.
TEST(SuiteBudgets, GoOverWhatBuiltInProtocolsSayByAttention) {
  for (const std::string& name : protocol_names()) {
    const Protocol protocol = load_protocol(name);
    for (const char* budget_name : {"smoke", "quick"}) {
      const Budget budget = load_budget(budget_name);
      for (const auto& [task_name, entry] : budget.tasks.items()) {
        if (!protocol.tasks.contains(task_name)) continue;
        // What shortens the run before goes in front of these.
        if (!task_settings(protocol, task_name).pretraining.empty()) continue;
        SCOPED_TRACE(name + " " + budget_name + " " + task_name);
        SuiteRequest request{
            .tasks = {task_name}, .seeds = {0}, .protocol = name, .budget = budget, .out = "s"};
        std::vector<std::string> sets;
        const TaskBudget of_task = budget.task(task_name);
        for (const auto& [key, value] : of_task.set.items())
          sets.push_back(key + "=" + value.dump());
        std::vector<json> expected;
        for (const AttentionEntry* attention : attention_entries()) {
          const AttentionSpec spec{.name = attention->info.name};
          const auto config = [&] {
            return make_config(protocol, task_name, spec, sets, 0, "float32").to_json();
          };
          if (error_text(config) != "(no error)") continue;
          request.attentions.push_back(spec);
          expected.push_back(config());
        }
        ASSERT_GT(expected.size(), 10u);
        const Suite suite = plan_suite(request);
        ASSERT_EQ(suite.cells.size(), expected.size());
        for (size_t i = 0; i < expected.size(); ++i)
          EXPECT_EQ(suite.cells[i].config.to_json(), expected[i]);
        EXPECT_TRUE(left_notes(suite).empty());
      }
    }
  }
}

TEST_F(SuiteBudgetTest, RefusesDataThatItWouldCut) {
  const std::vector<std::string> given =
      with(words("r", "standard"), {"--data", longer().string()});
  const std::string message =
      "budget tiny sets input.length 64, which would keep the first 64 tokens of samples of "
      "listops in " +
      longer().string() + ", of which the longest has ";
  expect_refusal(given, 2, message);
  expect_refusal(given, 2,
                 ": an expression without its end has no value; leave --data out, so that the "
                 "suite makes its own, give other data, or give --set input.length=");
  EXPECT_FALSE(fs::exists(out("r"))) << "nothing half-written";
  std::vector<std::string> plan = given;
  plan.insert(plan.begin() + 1, "plan");
  expect_refusal(plan, 2, message);

  json budget = read_json(budget_);
  budget["tasks"]["listops"]["min_length"] = 100;
  budget["tasks"]["listops"]["max_length"] = 160;
  write_json(budget_, budget);
  const ProgramResult own = run_program(words("own", "standard"));
  EXPECT_EQ(own.status, 2) << own.err;
  EXPECT_NE(own.err.find("let the budget make shorter ones (max_length), or give --set"),
            std::string::npos)
      << own.err;
  EXPECT_FALSE(fs::exists(out("own") / "runs"));
}

// LRA's own release comes as text, and its expressions mean nothing but whole as well.
TEST_F(SuiteBudgetTest, RefusesImportedDataThatItWouldCut) {
  const std::string tsv = out("tsv").string(), back = out("back").string();
  ASSERT_EQ(run_program({"data", "export", longer().string(), "--out", tsv}).status, 0);
  ASSERT_EQ(run_program({"data", "prepare", "listops", "--source", tsv + "/listops", "--out", back})
                .status,
            0);
  expect_refusal(with(words("r", "standard"), {"--data", back}), 2,
                 "budget tiny sets input.length 64, which would keep the first 64 tokens");
  EXPECT_FALSE(fs::exists(out("r")));

  // As a source they have lengths of their own.
  const std::vector<std::string> sourced =
      with(words("s", "standard"), {"--source", "listops=" + tsv + "/listops"});
  std::vector<std::string> plan = sourced;
  plan.insert(plan.begin() + 1, "plan");
  for (const auto& call : {plan, sourced}) {
    expect_refusal(call, 2,
                   "--source listops: budget tiny makes shorter samples (min_length, max_length)");
    EXPECT_FALSE(fs::exists(out("s"))) << "nothing half-written";
  }
  json budget = read_json(budget_);
  for (const char* key : {"train", "dev", "test", "min_length", "max_length"})
    budget["tasks"]["listops"].erase(key);
  budget["tasks"]["listops"]["set"]["input.length"] = 160;
  write_json(budget_, budget);
  ASSERT_EQ(run_program(with(sourced, {"--only", "0"})).status, 0);
  fs::remove_all(tsv);
  const ProgramResult resumed = run_program(with(sourced, {"--only", "0"}));
  EXPECT_EQ(resumed.status, 0) << "what was made stands: " << resumed.err;
}

TEST_F(SuiteBudgetTest, SaysHowManySamplesAreCutWhereTheUserAsksForIt) {
  const auto with_length = [&](const char* name, const std::string& length) {
    const ProgramResult result = run_program(
        with(words(name, "standard,linear"),
             {"--data", longer().string(), "--set", "input.length=" + length, "--only", "0-1"}));
    EXPECT_EQ(result.status, 0) << result.err;
    return result.err;
  };
  const std::string cut = with_length("cut", "64"),
                    line =
                        "WARNING: 24 of 24 training samples of listops are longer than "
                        "input.length (64)";
  const size_t at = cut.find(line);
  ASSERT_NE(at, std::string::npos) << cut;
  EXPECT_EQ(cut.find(line, at + 1), std::string::npos) << "once, whatever the cells:\n" << cut;
  EXPECT_EQ(with_length("whole", "160").find("WARNING"), std::string::npos);
}

}  // namespace
}  // namespace lra::suite
