// Which results share a table where a protocol has settings by variant.
#include "results/analysis/recipes.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "results/analysis/accuracy_cells.h"
#include "results/statistics/statistics.h"
#include "results/tables/accuracy_table.h"
#include "results/tables/summary_table.h"
#include "tests/results/examples.h"

namespace lra {
namespace {

size_t column_of(const Table& table, const std::string& header) {
  const auto at = std::ranges::find(table.columns, header, &Column::header);
  if (at == table.columns.end()) throw std::runtime_error("no column " + header);
  return static_cast<size_t>(at - table.columns.begin());
}

Result with_layers(const std::string& attention, int64_t layers) {
  Result r = example_result(attention);
  r.config["model"] = {{"layers", layers}, {"dropout", 0.1}};
  r.config["by_attention"] = {"model.layers"};
  return r;
}

TEST(Recipes, WhatTheProtocolSetsByVariantSplitsNoTable) {
  const std::vector<Result> results{with_layers("standard", 1), with_layers("reformer", 4)};
  EXPECT_EQ(group_by_recipe(results).size(), 1u);
}

// "listops linear", and what tells it from others of the label.
std::vector<std::string> rows_of(const std::vector<Result>& results) {
  std::vector<std::string> rows;
  for (const RecipeGroup& group : group_by_recipe(results)) {
    for (const auto& [r, name] : row_names(group)) rows.push_back(r->task + " " + name);
  }
  std::ranges::sort(rows);
  return rows;
}

TEST(Recipes, WhatTheProtocolGaveAnAttentionBeforeItChangedTellsRowsApart) {
  std::vector<Result> results{with_layers("linear", 1), with_layers("linear", 4),
                              with_layers("linear", 4), with_layers("standard", 2)};
  results[1].seed = 1;
  results[2].seed = 2;
  EXPECT_EQ(rows_of(results),
            (std::vector<std::string>{"listops linear {model.layers=1}",
                                      "listops linear {model.layers=4}",
                                      "listops linear {model.layers=4}", "listops standard"}));
  // What was set over it is the recipe's.
  for (Result& r : results) r.config["overridden"] = {"model.layers"};
  EXPECT_EQ(group_by_recipe(results).size(), 3u);
  // A task has its own.
  std::vector<Result> tasks{with_layers("linear", 1), with_layers("linear", 4)};
  tasks[1].task = "text";
  EXPECT_EQ(rows_of(tasks), (std::vector<std::string>{"listops linear", "text linear"}));
}

TEST(Recipes, AnAttentionsFileIsOneForAllTasks) {
  std::vector<Result> results{example_result("python:a.py:A"), example_result("python:a.py:A")};
  results[1].task = "text";
  for (Result& r : results) r.attention.options = {{"file", "a.py"}, {"sha256", "1234"}};
  const std::vector<std::string> one = {"listops python:a.py:A", "text python:a.py:A"};
  EXPECT_EQ(rows_of(results), one);
  results[0].attention.options["k"] = 3;  // as N differs
  EXPECT_EQ(rows_of(results), one);
  results[1].attention.options["sha256"] = "5678";
  const auto apart = rows_of(results);
  EXPECT_TRUE(contains(apart[0], "{sha256=1234, k=3}")) << apart[0];
  EXPECT_TRUE(contains(apart[1], "{sha256=5678}")) << apart[1];
}

Result run_of(const std::string& task, const std::string& fingerprint, const std::string& folder,
              double rate = 0) {
  Result r = example_result("standard");
  r.task = task;
  r.data.fingerprint = fingerprint;
  r.path = folder + "/runs/" + task + "/standard/result.json";
  if (rate > 0) {
    r.config["optimizer"] = {{"lr", rate}};
    r.config["overridden"] = {"optimizer.lr"};
  }
  return r;
}

// "listops a, text b": the tasks of each group, and what tells their runs apart.
std::vector<std::string> tasks_together(const std::vector<Result>& results) {
  std::vector<std::string> texts;
  for (const RecipeGroup& group : group_by_recipe(results)) {
    std::vector<std::string> tasks;
    for (const Result* r : group.results) {
      const json* rate = r->setting("optimizer.lr");
      tasks.push_back(r->task + " " + (rate == nullptr ? r->data.fingerprint : rate->dump()));
    }
    std::ranges::sort(tasks);
    texts.push_back(fmt::format("{}", fmt::join(tasks, ", ")));
  }
  std::ranges::sort(texts);
  return texts;
}

TEST(Recipes, TasksOfOneExperimentStandTogether) {
  // Of equal values, though the rates of the tasks are not as many.
  EXPECT_EQ(
      tasks_together({run_of("listops", "l", "x", 0.1), run_of("listops", "l", "x", 0.3),
                      run_of("listops", "l", "x", 1), run_of("text", "t", "x", 0.3),
                      run_of("text", "t", "x", 1)}),
      (std::vector<std::string>{"listops 0.1", "listops 0.3, text 0.3", "listops 1.0, text 1.0"}));
  // Of one folder, where the values are the same and the data are not.
  EXPECT_EQ(tasks_together({run_of("listops", "b", "one"), run_of("text", "a", "one"),
                            run_of("listops", "a", "two"), run_of("text", "b", "two")}),
            (std::vector<std::string>{"listops a, text b", "listops b, text a"}));
  // Nothing tells: no average is of both.
  EXPECT_EQ(tasks_together({run_of("listops", "b", "one"), run_of("text", "a", "one"),
                            run_of("listops", "a", "one"), run_of("text", "b", "one")}),
            (std::vector<std::string>{"listops a", "listops b", "text a", "text b"}));
  // Each task's own value is one experiment.
  EXPECT_EQ(tasks_together({run_of("listops", "l", "one", 0.1), run_of("text", "t", "two", 0.3)}),
            (std::vector<std::string>{"listops 0.1, text 0.3"}));
}

TEST(Recipes, WhatItDoesNotSetByVariantDoes) {
  std::vector<Result> results{with_layers("standard", 1), with_layers("reformer", 4)};
  for (Result& r : results) r.config["by_attention"] = json::array();
  const auto groups = group_by_recipe(results);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].settings, std::vector<std::string>{"model.layers=1"});
}

TEST(Recipes, WhatTheUserSetsOverItDoesToo) {
  std::vector<Result> results{with_layers("standard", 1), with_layers("reformer", 4)};
  for (Result& r : results) r.config["overridden"] = {"model.layers"};
  EXPECT_EQ(group_by_recipe(results).size(), 2u);
}

TEST(Recipes, ALaterRegimeIsNamedAndRankedApart) {
  std::vector<Result> results{with_layers("standard", 1), with_layers("standard", 1)};
  results[1].protocol = "s5-2023";
  results[1].regime = "later";
  const auto groups = group_by_recipe(results);
  ASSERT_EQ(groups.size(), 2u);
  const std::vector<std::string> tasks{results[0].task};
  const size_t later = groups[1].protocol == "s5-2023" ? 1 : 0;
  EXPECT_NE(recipe_title(groups[later]).find("protocol s5-2023 (regime later)"), std::string::npos);
  EXPECT_NE(recipe_title(groups[1 - later]).find("protocol lra-strict (regime 2021)"),
            std::string::npos)
      << "beside another";
  const std::vector<Result> alone{results[0]};
  EXPECT_EQ(recipe_title(group_by_recipe(alone)[0]).find("regime"), std::string::npos);
  EXPECT_NE(recipe_notes(groups[later], tasks).front().find("ranked with results of regime 2021"),
            std::string::npos);
}

// A user's protocol may have had one regime and then another: its name alone holds nothing apart.
std::vector<Result> planted_mixture() {
  std::vector<Result> results{example_result("standard", 0, 700), example_result("nystrom", 0, 741),
                              example_result("s4d", 0, 1200)};
  results[2].regime = "later";
  return results;
}

TEST(Recipes, RegimesShareNoTableRankOrPublishedRow) {
  const std::vector<Result> results = planted_mixture();
  const auto groups = group_by_recipe(results);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].regime, "2021");
  EXPECT_EQ(groups[1].regime, "later");
  EXPECT_NE(nearest(groups[0], published()), nullptr);
  EXPECT_EQ(nearest(groups[1], published()), nullptr);
  const std::vector<Table> tables = accuracy_tables(results);
  ASSERT_EQ(tables.size(), 2u);
  EXPECT_EQ(tables[1].rows.front().front(), "s4d");
  EXPECT_TRUE(tables[1].bold.empty()) << "alone it is no best";
  ASSERT_EQ(tables[0].bold.size(), 1u);
  EXPECT_EQ(tables[0].rows[tables[0].bold.begin()->first][0], "nystrom");
  for (const Table& table : difference_tables(results)) {
    for (const auto& row : table.rows) EXPECT_NE(row[1], "s4d") << table.title;
  }
  for (const auto& [table, why] : {std::pair(tables[0], "regime 2021: shallow encoders"),
                                   {tables[1], "regime later: deeper models"}}) {
    const auto says = [begin = std::string(why)](const std::string& note) {
      return note.starts_with(begin);
    };
    EXPECT_EQ(std::ranges::count_if(table.notes, says), 1) << why;
  }
}

TEST(Recipes, LongFormsHaveAColumnOfRegimes) {
  const std::vector<Result> results = planted_mixture();
  for (const Table& table : {accuracy_long(results), results_long(results)}) {
    const size_t regime = column_of(table, "regime");
    std::multiset<std::string> found;
    for (const auto& row : table.rows) found.insert(row[regime]);
    EXPECT_EQ(found, (std::multiset<std::string>{"2021", "2021", "later"})) << table.title;
  }
}

// Two files of one name, say: nothing else in the row would tell them apart.
TEST(Recipes, LongFormsHaveTheSettingsThatTellRecipesApart) {
  std::vector<Result> results{example_result("standard", 0, 700),
                              example_result("standard", 0, 741)};
  results[0].config["optimizer"] = {{"lr", 0.001}};
  results[1].config["optimizer"] = {{"lr", 0.1}};
  for (const Table& table : {accuracy_long(results), results_long(results)}) {
    const size_t settings = column_of(table, "settings");
    ASSERT_EQ(table.rows.size(), 2u);
    EXPECT_NE(table.rows[0][settings], table.rows[1][settings]) << table.title;
    EXPECT_TRUE(table.rows[0][settings].starts_with("optimizer.lr=")) << table.rows[0][settings];
  }
}

TEST(Recipes, TheSummarySaysWhyRegimesStandApart) {
  const auto said = [](const std::vector<Result>& results) {
    Records records;
    records.results = results;
    std::string text;
    for (const auto& row : summary_table(records).rows) {
      if (row[0] == "regimes") text += row[1];
    }
    return text;
  };
  EXPECT_EQ(said(planted_mixture()).substr(0, 26), "2021, later: other models,");
  EXPECT_EQ(said({example_result()}), "");
}

TEST(Recipes, RecallIsNoRegimeOfThatTable) {
  Result r = example_result("standard");
  r.protocol = "recall";
  r.regime = "2021";  // as its records had it once
  const std::vector<Result> results{parse_result(make_result(r))};
  const auto groups = group_by_recipe(results);
  EXPECT_EQ(groups[0].regime, "recall");
  EXPECT_NE(recipe_title(groups[0]).find("protocol recall (regime recall)"), std::string::npos);
  EXPECT_NE(recipe_notes(groups[0], {"listops"}).front().find("in no table of LRA's"),
            std::string::npos);
}

// Rows of labels at positions say what a position may read, and intervals are those of samples.
TEST(Recipes, SayWhetherPositionsReadLaterOnes) {
  const auto title = [](bool at_positions, const json& causal) {
    std::vector<Result> results{example_result()};
    if (at_positions) {
      results[0].test->samples = 100;
      results[0].test->ci95 = {0.3, 0.5};
    }
    if (!causal.is_null()) results[0].config["model"]["causal"] = causal;
    const auto groups = group_by_recipe(results);
    return recipe_title(groups[0]) + "; " + recipe_text(groups[0], {"listops"});
  };
  const auto holds = [](const std::string& text, const std::string& word) {
    return contains(text, ", " + word);
  };
  for (const json& causal : {json(), json(false)}) {
    EXPECT_FALSE(holds(title(false, causal), "causal"));
    EXPECT_FALSE(holds(title(false, causal), "bidirectional"));
    EXPECT_TRUE(holds(title(true, causal), "bidirectional"));
  }
  for (const bool at_positions : {false, true}) {
    EXPECT_TRUE(holds(title(at_positions, true), "causal"));
    EXPECT_FALSE(holds(title(at_positions, true), "bidirectional"));
  }
}

// What a run started from is another recipe; which run it was is not.
TEST(Recipes, RunsThatStartFromWeightsAreApartFromOthers) {
  std::vector<Result> results;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    results.push_back(example_result("nystrom", seed));
    if (seed == 0) continue;
    results.back().pretrained = PretrainingRecord{.path = "runs/" + std::to_string(seed),
                                                  .sha256 = std::string(64, 'b'),
                                                  .objective = seed == 3 ? "causal" : "masked",
                                                  .step = 100 * static_cast<int64_t>(seed),
                                                  .steps = 500,
                                                  .samples = 16000,
                                                  .seconds = 80.0 * static_cast<double>(seed)};
  }
  const auto groups = group_by_recipe(results);
  ASSERT_EQ(groups.size(), 3u);
  std::map<std::string, size_t> sizes;
  for (const RecipeGroup& group : groups) {
    const std::string title = recipe_title(group);
    const size_t at = title.find("pretrained");
    const std::string stage = at == std::string::npos ? "" : title.substr(at, 19);
    sizes[stage] = group.results.size();
    const std::vector<std::string> notes = recipe_notes(group, {"listops"});
    EXPECT_EQ(notes.front().starts_with("pretrained: "), !stage.empty()) << notes.front();
    if (stage == "pretrained (masked)") {
      EXPECT_TRUE(contains(notes.front(), "500 steps, 16000 samples and 120 s")) << notes.front();
    }
  }
  EXPECT_EQ(sizes, (std::map<std::string, size_t>{
                       {"", 1}, {"pretrained (masked)", 2}, {"pretrained (causal)", 1}}));
}

TEST(Recipes, AccuraciesOfTokensAreNamed) {
  std::vector<Result> results{example_result(), example_result()};
  results[1].metric = "masked_token_accuracy";
  results[1].config["training"]["objective"] = "masked";
  const auto groups = group_by_recipe(results);
  ASSERT_EQ(groups.size(), 2u);
  size_t named = 0;
  for (const RecipeGroup& group : groups) {
    const bool tokens = !group.results.front()->metric.empty();
    EXPECT_EQ(contains(recipe_title(group), ", objective masked"), tokens);
    const std::vector<std::string> notes = recipe_notes(group, {"listops"});
    named += contains(notes.front(), "masked_token_accuracy") ? 1 : 0;
  }
  EXPECT_EQ(named, 1u);
  results[1].config["training"]["objective"] = 7;  // a record that others wrote
  EXPECT_FALSE(
      contains(recipe_title(group_by_recipe(std::span(&results[1], 1)).front()), "objective"));
}

TEST(Recipes, CellsOfPositionsHaveTheIntervalOfSamples) {
  std::vector<Result> results{example_result("nystrom", 0), example_result("nystrom", 1)};
  for (Result& r : results) {
    r.test->samples = 20;
    r.test->ci95 = {0.2, 0.6};
  }
  AccuracyCell cell{.ok = {&results[0]}};
  EXPECT_DOUBLE_EQ(cell.interval().low, 20);
  EXPECT_DOUBLE_EQ(cell.interval().high, 60);
  cell.ok.push_back(&results[1]);
  const stats::Interval of_20 =
      stats::wilson_of_fraction(results[0].test->accuracy, results[0].test->independent());
  EXPECT_NEAR(cell.interval().low, 100 * of_20.low, 1e-9) << "seeds that agree";
  // A record of positions without its interval is none.
  json record = make_result(results[0]);
  EXPECT_EQ(parse_result(record).test->samples, 20);
  record["test"].erase("ci95");
  EXPECT_THROW(parse_result(record), std::runtime_error);
}

}  // namespace
}  // namespace lra
