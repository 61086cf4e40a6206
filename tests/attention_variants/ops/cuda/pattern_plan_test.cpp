// Patterns as lists of tiles: the lists of queries and those of keys say the same pairs as the
// pattern.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>

#include "attention_variants/ops/cuda/pattern_plan.h"

#include "attention_variants/ops/dropout.h"

namespace lra::ops::cuda {
namespace {

using Pairs = std::map<std::pair<int64_t, int64_t>, int>;  // how often a query sees a key

bool within(const SparsityPattern& pattern, int64_t query, int64_t key) {
  return key >= query - pattern.before && key <= query + pattern.after;
}

Pairs pairs_of(const SparsityPattern& pattern) {
  Pairs pairs;
  for (const SparsityTile& tile : pattern.tiles) {
    for (int64_t i = tile.queries.begin; i < tile.queries.end; ++i) {
      for (size_t range = 0; range < tile.keys.size(); ++range) {
        for (int64_t j = tile.keys[range].begin; j < tile.keys[range].end; ++j)
          if (static_cast<int64_t>(range) < tile.unbounded || within(pattern, i, j))
            ++pairs[{i, j}];
      }
    }
  }
  return pairs;
}

Pairs pairs_of_queries(const PatternLists& lists, const SparsityPattern& pattern) {
  Pairs pairs;
  for (const QueryTile& tile : lists.query_tiles) {
    EXPECT_LE(tile.end - tile.begin, 64);
    for (int32_t i = tile.begin; i < tile.end; ++i) {
      for (int32_t j = 0; j < tile.count; ++j) {
        const int32_t key = lists.keys[static_cast<size_t>(tile.first + j)];
        if (j < tile.unbounded || within(pattern, i, key)) ++pairs[{i, key}];
      }
    }
  }
  return pairs;
}

Pairs pairs_of_keys(const PatternLists& lists, const SparsityPattern& pattern) {
  Pairs pairs;
  for (const KeyTile& tile : lists.key_tiles) {
    EXPECT_LE(tile.count, 64);
    for (int32_t n = 0; n < tile.parts; ++n) {
      const QueryPart part = lists.parts[static_cast<size_t>(tile.first_part + n)];
      EXPECT_LE(part.end - part.begin, 32);
      for (int32_t j = 0; j < tile.count; ++j) {
        const int32_t key = lists.positions[static_cast<size_t>(tile.first + j)];
        for (int32_t i = part.begin; i < part.end; ++i)
          if (part.bounded == 0 || within(pattern, i, key)) ++pairs[{i, key}];
      }
    }
  }
  return pairs;
}

// Bands, blocks and single keys, some of them twice; no query sees the last keys.
SparsityPattern mixed_pattern() {
  SparsityPattern pattern{.tiles = {}, .before = 9, .after = 4};
  pattern.tiles.push_back({.queries = {0, 3}, .keys = {{0, 190}}, .unbounded = 1});
  pattern.tiles.push_back(
      {.queries = {3, 150}, .keys = {{0, 3}, {7, 8}, {7, 8}, {3, 180}}, .unbounded = 3});
  pattern.tiles.push_back({.queries = {150, 200}, .keys = {{20, 90}, {100, 110}}, .unbounded = 2});
  return pattern;
}

TEST(PatternPlan, SaysThePairsOfThePattern) {
  const SparsityPattern pattern = mixed_pattern();
  const PatternLists lists = pattern_lists({pattern}, 200);
  const Pairs pairs = pairs_of(pattern);
  EXPECT_EQ(pairs_of_queries(lists, pattern), pairs);
  EXPECT_EQ(pairs_of_keys(lists, pattern), pairs);
  EXPECT_GT(std::ranges::max_element(pairs, {}, [](const auto& p) { return p.second; })->second, 1);
}

TEST(PatternPlan, HasEveryPositionOnceAmongItsKeys) {
  const PatternLists lists = pattern_lists({mixed_pattern()}, 200);
  std::vector<int32_t> positions = lists.positions;
  std::ranges::sort(positions);
  ASSERT_EQ(positions.size(), 200u);
  for (int32_t i = 0; i < 200; ++i) EXPECT_EQ(positions[static_cast<size_t>(i)], i);
}

TEST(PatternPlan, IsKeptForTheNextCall) {
  const Patterns patterns = {mixed_pattern()};
  const DevicePlan first = device_plan(patterns, 200, torch::kCPU),
                   again = device_plan(patterns, 200, torch::kCPU);
  EXPECT_TRUE(first.lists.is_same(again.lists));
  Patterns other = patterns;
  other[0].after = 5;
  EXPECT_FALSE(device_plan(other, 200, torch::kCPU).lists.is_same(first.lists));
}

// A recorded step reads it by its address, long after others have taken its place among those kept.
TEST(PatternPlan, ARecordingKeepsWhatItReads) {
  const Patterns patterns = {mixed_pattern()};
  const DevicePlan plan = device_plan(patterns, 200, torch::kCPU);
  const auto owners = plan.lists.use_count();
  {
    SeedTape tape(torch::kCPU);
    {
      const SeedTape::Recording recording(tape);
      device_plan(patterns, 200, torch::kCPU);
    }
    EXPECT_EQ(plan.lists.use_count(), owners + 1);
  }
  EXPECT_EQ(plan.lists.use_count(), owners);
}

}  // namespace
}  // namespace lra::ops::cuda
