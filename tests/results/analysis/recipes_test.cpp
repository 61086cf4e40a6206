// Which results share a table where a protocol has settings by variant.
#include "results/analysis/recipes.h"

#include <gtest/gtest.h>

#include "tests/results/examples.h"

namespace lra {
namespace {

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
  EXPECT_EQ(recipe_title(groups[1 - later]).find("regime"), std::string::npos);
  EXPECT_NE(recipe_notes(groups[later], tasks).front().find("ranked with results of regime 2021"),
            std::string::npos);
}

}  // namespace
}  // namespace lra
