// What of a suite's settings is its budget's, and what was set over it.
#include <gtest/gtest.h>

#include <algorithm>

#include "results/analysis/changed_settings.h"
#include "results/analysis/compare_runs.h"
#include "results/analysis/recipes.h"
#include "results/report/latex_tables.h"
#include "results/store/store.h"
#include "results/tables/accuracy_table.h"
#include "tests/results/examples.h"

namespace lra {
namespace {

using Texts = std::vector<std::string>;

// Of two tasks, which a suite's cells have the keys of unless something was set over it.
const json kTiny = {
    {"listops", {{"train", 10}, {"set", {{"training.steps", 400}, {"optimizer.lr", 0.001}}}}},
    {"text", {{"set", {{"training.steps", 200}, {"model.embedding_sd", 1}}}}}};

// The cells of a suite of budget tiny, of one attention, as `lra suite` leaves them: `steps` by
// task; more settings in `changed`, which differ from the protocol's too.
void write_suite(const Folder& folder, const std::string& name,
                 const std::map<std::string, int64_t>& steps, const json& over = json::object(),
                 const json& changed = json::object()) {
  json suite = {{"schema", "lra.suite/1"}, {"budget", {{"name", "tiny"}, {"tasks", kTiny}}}};
  suite.update(over);
  for (const auto& [task, count] : steps) {
    Result r = example_result("linear");
    r.task = task;
    r.data.fingerprint = std::string(64, task[0]);
    r.config = {{"training", {{"steps", count}, {"batch", 32}}},
                {"optimizer", {{"lr", 0.001}}},
                {"model", {{"embedding_sd", task == "text" ? 1.0 : 0.02}}},
                {"overridden", {"training.steps"}}};
    r.config["overridden"].push_back(task == "text" ? "model.embedding_sd" : "optimizer.lr");
    r.config.merge_patch(changed);
    for (const auto& [group, keys] : changed.items()) {
      for (const auto& [key, value] : keys.items())
        r.config["overridden"].push_back(group + "." + key);
    }
    const std::string run = "runs/" + task + "/linear/seed0";
    folder.write(name + "/" + run + "/result.json", make_result(r).dump());
    suite["runs"].push_back(run);
  }
  folder.write(name + "/suite.json", suite.dump());
}

std::vector<RecipeGroup> groups_of(const Records& records) {
  return group_by_recipe(records.results);
}

TEST(BudgetRecipes, ItsOwnValuesAreNoneThatWereSetOverIt) {
  const Folder folder;
  write_suite(folder, "s", {{"listops", 400}, {"text", 200}});
  const Records records = find_records({folder.path()});
  const auto groups = groups_of(records);
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].overridden, Texts{});
  EXPECT_EQ(groups[0].of_budget, (Texts{"model.embedding_sd=1.0 (text)",
                                        "optimizer.lr=0.001 "
                                        "(listops)",
                                        "training.steps=200 (text), 400 (listops)"}));
  EXPECT_EQ(recipe_title(groups[0]), "protocol lra-strict, budget tiny");
}

TEST(BudgetRecipes, ValuesOfSetAreShownApartInTitleNotesAndCaption) {
  const Folder folder;
  write_suite(folder, "s", {{"listops", 20}, {"text", 20}},
              {{"sets", {"training.steps=20", "training.batch=8"}}},
              {{"training", {{"batch", 8}}}});
  const Records records = find_records({folder.path()});
  const auto groups = groups_of(records);
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].overridden, (Texts{"training.batch=8", "training.steps=20"}));
  EXPECT_EQ(groups[0].of_budget,
            (Texts{"model.embedding_sd=1.0 (text)", "optimizer.lr=0.001 (listops)"}));
  const std::string title = "protocol lra-strict, budget tiny, 2 settings overridden";
  EXPECT_EQ(recipe_title(groups[0]), title);
  const Texts notes = recipe_notes(groups[0], {"listops", "text"});
  EXPECT_EQ(notes[0],
            "overridden, not the settings of budget tiny: training.batch=8; training.steps=20");
  EXPECT_TRUE(contains(notes[1], "settings of budget tiny, not the recipe of lra-strict: model."));
  EXPECT_FALSE(contains(notes[1], "training.steps"));
  const std::string latex = accuracy_latex(records.results);
  EXPECT_TRUE(contains(latex.substr(latex.find("\\caption")), "; " + title)) << latex;
  EXPECT_TRUE(contains(latex, "% overridden, not the settings of budget tiny")) << latex;
}

// One value for all tasks is that which the budget has for one of them.
TEST(BudgetRecipes, TheTasksOfASuiteStayTogetherWhereOneAloneIsChanged) {
  const Folder folder;
  write_suite(folder, "s", {{"listops", 200}, {"text", 200}}, {{"sets", {"training.steps=200"}}});
  const Records records = find_records({folder.path()});
  const auto groups = groups_of(records);
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].overridden, Texts{"training.steps=200 (listops)"});
  EXPECT_TRUE(std::ranges::count(groups[0].of_budget, "training.steps=200 (text)") == 1);
}

TEST(BudgetRecipes, AValueThatWasSetBackToTheProtocolsIsNotTheBudgets) {
  const Folder folder;
  write_suite(folder, "s", {{"listops", 5000}}, {{"sets", {"training.steps=5000"}}});
  Records records = find_records({folder.path()});
  records.results[0].config["overridden"] = {"optimizer.lr"};  // what differs from the protocol
  const auto groups = groups_of(records);
  EXPECT_EQ(groups[0].overridden, Texts{"training.steps=5000"});
  EXPECT_EQ(groups[0].of_budget, Texts{"optimizer.lr=0.001"});
}

// 100 and 50 steps beside 200 and 100: as texts they sort the other way round.
TEST(BudgetRecipes, ACutOfMaxHoursIsOverriddenAndEachSuiteIsATableOfItsOwn) {
  const Folder folder;
  write_suite(folder, "a", {{"listops", 100}, {"text", 50}}, {{"cut", {{"fraction", 0.25}}}});
  write_suite(folder, "b", {{"listops", 200}, {"text", 100}}, {{"cut", {{"fraction", 0.5}}}});
  write_suite(folder, "whole", {{"listops", 400}, {"text", 200}}, {{"cut", nullptr}});
  const Records records = find_records({folder.path()});
  std::vector<Texts> overridden;
  for (const RecipeGroup& group : groups_of(records)) {
    EXPECT_EQ(group.results.size(), 2u);
    EXPECT_EQ(group.settings, Texts{});
    overridden.push_back(group.overridden);
  }
  std::ranges::sort(overridden);
  EXPECT_EQ(overridden, (std::vector<Texts>{{},
                                            {"training.steps=100 (listops), 50 (text)"},
                                            {"training.steps=100 (text), 200 (listops)"}}));
}

TEST(BudgetRecipes, WhatWasSetOverItToNoEffectMakesNoOtherRecipe) {
  const Folder folder;
  write_suite(folder, "a", {{"listops", 400}, {"text", 200}});
  write_suite(folder, "b", {{"listops", 400}, {"text", 200}},
              {{"sets", {"optimizer={\"lr\": 0.001}", "training.log_every=3"}}});
  write_suite(folder, "c", {{"listops", 20}, {"text", 20}},
              {{"sets", {"training.steps=30", "training.steps=20"}}});
  write_suite(folder, "d", {{"listops", 20}, {"text", 20}},
              {{"sets", {"training.steps=20", "training.log_every=3"}}});
  const Records records = find_records({folder.path()});
  const auto groups = groups_of(records);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].results.size(), 4u);
  EXPECT_EQ(groups[1].results.size(), 4u);
}

TEST(BudgetRecipes, ARunByHandJoinsTheSuiteWithItsSettings) {
  const Folder folder;
  write_suite(folder, "s", {{"listops", 20}, {"text", 20}}, {{"sets", {"training.steps=20"}}});
  Records records = find_records({folder.path()});
  records.results.push_back(records.results[0]);
  records.results.back().budget = {};
  records.results.back().attention.label = "own";
  EXPECT_EQ(groups_of(records).size(), 1u);
}

// A budget that sets a rate for all beside a protocol that has one for one attention.
TEST(BudgetRecipes, TheProtocolsValueForOneAttentionStandsBesideTheBudgets) {
  std::vector<Result> results{example_result("standard"), example_result("linear")};
  for (Result& r : results) {
    r.config = {{"optimizer", {{"lr", 0.001}}},
                {"overridden", {"optimizer.lr=0.001"}},
                {"by_attention", {"optimizer.lr"}}};
    r.budget = {.name = "tiny", .tasks = "{}", .set = {{"listops", {{"optimizer.lr", 0.001}}}}};
  }
  results[1].config["optimizer"]["lr"] = 0.5;
  results[1].config["overridden"] = json::array();
  const auto groups = group_by_recipe(results);
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].overridden, Texts{});
  EXPECT_EQ(recipe_title(groups[0]), "protocol lra-strict, budget tiny");
  const auto noted = [](const std::vector<std::string>& notes, const std::string& note) {
    return std::ranges::count(notes, note) == 1;
  };
  EXPECT_TRUE(noted(recipe_notes(groups[0], {"listops"}),
                    "values of lra-strict for attentions, in place of the budget's: "
                    "optimizer.lr=0.5 (linear)"));
  const Table rows = accuracy_long(results, {});
  const auto column = [&](const char* name) {
    return static_cast<size_t>(std::ranges::find(rows.columns, std::string(name), &Column::header) -
                               rows.columns.begin());
  };
  for (const auto& row : rows.rows) {
    const bool own = row[column("attention")] == "linear";
    EXPECT_EQ(row[column("overridden")], own ? "" : "optimizer.lr=0.001");
    EXPECT_EQ(row[column("settings")], own ? "optimizer.lr=0.5" : "");
  }
  const RunComparison c = compare_runs(std::span(results).first(1), std::span(results).last(1));
  EXPECT_EQ(c.a.name + " " + c.b.name, "standard linear");
  EXPECT_TRUE(noted(c.notes,
                    "the protocol has values for attentions: optimizer.lr is 0.001 for standard "
                    "and 0.5 for linear"));
  // What the user set is no budget's.
  results[0].config["overridden"] = {"optimizer.lr=0.002"};
  results[0].config["optimizer"]["lr"] = 0.002;
  EXPECT_EQ(group_by_recipe(results).size(), 2u);
  EXPECT_THROW(compare_runs(std::span(results).first(1), std::span(results).last(1)),
               std::runtime_error);
}

// Before, a key alone said that it is the budget's.
TEST(BudgetRecipes, WhereTheTaskOrTheValueIsUnknownTheKeyDecides) {
  const RunBudget budget{
      .name = "tiny", .tasks = "{}", .set = {{"text", {{"training.steps", 200}}}}};
  Result r = example_result();
  r.config = {{"overridden", {"training.steps", "optimizer.lr"}}};
  const auto of_budget = [&] {
    std::map<std::string, bool> found;
    for (const ChangedSetting& changed : changed_settings(r, budget))
      found[changed.key] = changed.of_budget;
    return found;
  };
  using Found = std::map<std::string, bool>;
  EXPECT_EQ(of_budget(), (Found{{"training.steps", true}, {"optimizer.lr", false}}));
  r.task = "text";
  EXPECT_EQ(of_budget(), (Found{{"training.steps", true}, {"optimizer.lr", false}}));
  r.config["overridden"] = {"training.steps=200"};
  EXPECT_EQ(of_budget(), (Found{{"training.steps", true}}));
  r.config["overridden"] = {"training.steps=20"};
  EXPECT_EQ(of_budget(), (Found{{"training.steps", false}}));
}

// `lra suite` shortens the run before by the budget's own keys.
TEST(BudgetRecipes, TheSameValuesOfTheRunBeforeAreTheBudgets) {
  const Folder folder;
  write_suite(folder, "s", {{"text", 200}});
  Records records = find_records({folder.path()});
  Result& r = records.results[0];
  r.config["overridden"] = {"pretraining.training.steps"};
  for (const auto& [steps, own] : {std::pair{200, true}, {20, false}}) {
    r.config["pretraining"]["training"]["steps"] = steps;
    const auto groups = groups_of(records);
    EXPECT_EQ(std::ranges::count(groups[0].of_budget,
                                 fmt::format("pretraining.training.steps={}", steps)) == 1,
              own);
  }
}

}  // namespace
}  // namespace lra
