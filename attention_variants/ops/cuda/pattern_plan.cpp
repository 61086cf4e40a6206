#include "attention_variants/ops/cuda/pattern_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <mutex>
#include <utility>

#include "attention_variants/base/error.h"
#include "attention_variants/ops/dropout.h"

namespace lra::ops::cuda {
namespace {

constexpr int64_t kRows = kTileRows, kColumns = kTileColumns;

// The lists of one head.
class HeadLists {
 public:
  HeadLists(const SparsityPattern& pattern, int64_t length, PatternLists& lists)
      : pattern_(pattern),
        length_(length),
        before_(std::min(pattern.before, length)),
        after_(std::min(pattern.after, length)),
        lists_(lists) {}

  void add() {
    const auto size = [](const auto& list) { return static_cast<int32_t>(list.size()); };
    PatternHead head{.before = static_cast<int32_t>(before_),
                     .after = static_cast<int32_t>(after_),
                     .first_query_tile = size(lists_.query_tiles),
                     .query_tiles = 0,
                     .first_key_tile = size(lists_.key_tiles),
                     .key_tiles = 0};
    add_query_tiles();
    add_key_tiles();
    head.query_tiles = size(lists_.query_tiles) - head.first_query_tile;
    head.key_tiles = size(lists_.key_tiles) - head.first_key_tile;
    lists_.heads.push_back(head);
  }

 private:
  // What queries see of a range: all, or what lies within the bounds of any of them.
  KeyRange seen_by(const KeyRange& queries, const KeyRange& keys, bool bounded) const {
    if (!bounded) return keys;
    return {std::max(keys.begin, queries.begin - before_),
            std::min(keys.end, queries.end + after_)};
  }

  void add_query_tiles() {
    for (const SparsityTile& tile : pattern_.tiles) {
      for (int64_t begin = tile.queries.begin; begin < tile.queries.end; begin += kRows) {
        const KeyRange queries{begin, std::min(begin + kRows, tile.queries.end)};
        const size_t first = lists_.keys.size();
        size_t unbounded = 0;
        for (size_t i = 0; i < tile.keys.size(); ++i) {
          const bool bounded = static_cast<int64_t>(i) >= tile.unbounded;
          const KeyRange keys = seen_by(queries, tile.keys[i], bounded);
          for (int64_t j = keys.begin; j < keys.end; ++j)
            lists_.keys.push_back(static_cast<int32_t>(j));
          if (!bounded) unbounded = lists_.keys.size() - first;
        }
        if (lists_.keys.size() > INT32_MAX)
          throw Error(
              fmt::format("a pattern of {} positions has too many keys for a GPU's kernels; "
                          "--set kernels=reference does without them",
                          length_));
        lists_.query_tiles.push_back(
            {static_cast<int32_t>(queries.begin), static_cast<int32_t>(queries.end),
             static_cast<int32_t>(first), static_cast<int32_t>(lists_.keys.size() - first),
             static_cast<int32_t>(unbounded)});
      }
    }
  }

  // A tile of the pattern, and whether within the bounds.
  struct Viewer {
    size_t tile;
    bool bounded;
    auto operator<=>(const Viewer&) const = default;
  };

  // Keys by who sees them: the keys of one tile must be seen by the same queries.
  std::map<std::vector<Viewer>, std::vector<int32_t>> keys_by_viewers() const {
    std::vector<int64_t> cuts = {0, length_};
    for (const SparsityTile& tile : pattern_.tiles) {
      for (const KeyRange& keys : tile.keys) {
        cuts.push_back(keys.begin);
        cuts.push_back(keys.end);
      }
    }
    std::ranges::sort(cuts);
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    std::vector<std::vector<Viewer>> viewers(cuts.size());  // of keys from this cut to the next
    for (size_t t = 0; t < pattern_.tiles.size(); ++t) {
      const SparsityTile& tile = pattern_.tiles[t];
      for (size_t i = 0; i < tile.keys.size(); ++i) {
        const Viewer viewer{t, static_cast<int64_t>(i) >= tile.unbounded};
        auto cut = std::ranges::lower_bound(cuts, tile.keys[i].begin);
        for (; cut != cuts.end() && *cut < tile.keys[i].end; ++cut)
          viewers[static_cast<size_t>(cut - cuts.begin())].push_back(viewer);
      }
    }
    std::map<std::vector<Viewer>, std::vector<int32_t>> keys;
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
      std::vector<int32_t>& same = keys[viewers[i]];
      for (int64_t j = cuts[i]; j < cuts[i + 1]; ++j) same.push_back(static_cast<int32_t>(j));
    }
    return keys;
  }

  void add_key_tiles() {
    for (const auto& [viewers, keys] : keys_by_viewers()) {
      for (size_t begin = 0; begin < keys.size(); begin += kRows) {
        const size_t end = std::min(begin + kRows, keys.size());
        KeyTile tile{.first = static_cast<int32_t>(lists_.positions.size()),
                     .count = static_cast<int32_t>(end - begin),
                     .first_part = static_cast<int32_t>(lists_.parts.size()),
                     .parts = 0};
        lists_.positions.insert(lists_.positions.end(), keys.begin() + static_cast<int64_t>(begin),
                                keys.begin() + static_cast<int64_t>(end));
        for (const Viewer& viewer : viewers)
          add_parts(viewer, {keys[begin], int64_t{keys[end - 1]} + 1});
        tile.parts = static_cast<int32_t>(lists_.parts.size()) - tile.first_part;
        lists_.key_tiles.push_back(tile);
      }
    }
  }

  // The queries of a tile that may see keys of a range.
  void add_parts(const Viewer& viewer, const KeyRange& keys) {
    KeyRange queries = pattern_.tiles[viewer.tile].queries;
    if (viewer.bounded) {
      queries = {std::max(queries.begin, keys.begin - after_),
                 std::min(queries.end, keys.end + before_)};
    }
    for (int64_t begin = queries.begin; begin < queries.end; begin += kColumns) {
      lists_.parts.push_back({static_cast<int32_t>(begin),
                              static_cast<int32_t>(std::min(begin + kColumns, queries.end)),
                              viewer.bounded ? 1 : 0});
    }
  }

  const SparsityPattern& pattern_;
  const int64_t length_, before_, after_;
  PatternLists& lists_;
};

// All that patterns say, to compare them.
std::vector<int64_t> contents(const Patterns& patterns) {
  std::vector<int64_t> all;
  for (const SparsityPattern& pattern : patterns) {
    all.insert(all.end(), {pattern.before, pattern.after, std::ssize(pattern.tiles)});
    for (const SparsityTile& tile : pattern.tiles) {
      all.insert(all.end(),
                 {tile.queries.begin, tile.queries.end, tile.unbounded, std::ssize(tile.keys)});
      for (const KeyRange& keys : tile.keys) all.insert(all.end(), {keys.begin, keys.end});
    }
  }
  return all;
}

DevicePlan upload(const PatternLists& lists, torch::Device device) {
  std::vector<int32_t> all;
  const auto append = [&all](const auto& list) {
    const size_t begin = all.size();
    const auto* from = reinterpret_cast<const int32_t*>(list.data());
    all.insert(all.end(), from, from + list.size() * sizeof(list[0]) / sizeof(int32_t));
    return begin;
  };
  const size_t heads = append(lists.heads), query_tiles = append(lists.query_tiles),
               keys = append(lists.keys), key_tiles = append(lists.key_tiles),
               positions = append(lists.positions), parts = append(lists.parts);
  DevicePlan plan;
  plan.lists = torch::tensor(all, torch::kInt32).to(device);
  const int32_t* const data = plan.lists.const_data_ptr<int32_t>();
  plan.plan = {.heads = reinterpret_cast<const PatternHead*>(data + heads),
               .query_tiles = reinterpret_cast<const QueryTile*>(data + query_tiles),
               .keys = data + keys,
               .key_tiles = reinterpret_cast<const KeyTile*>(data + key_tiles),
               .positions = data + positions,
               .parts = reinterpret_cast<const QueryPart*>(data + parts),
               .patterns = static_cast<int>(lists.heads.size()),
               .most_query_tiles = 0,
               .most_key_tiles = 0};
  for (const PatternHead& head : lists.heads) {
    plan.plan.most_query_tiles = std::max(plan.plan.most_query_tiles, head.query_tiles);
    plan.plan.most_key_tiles = std::max(plan.plan.most_key_tiles, head.key_tiles);
  }
  return plan;
}

}  // namespace

PatternLists pattern_lists(const Patterns& patterns, int64_t length) {
  PatternLists lists;
  for (const SparsityPattern& pattern : patterns) HeadLists(pattern, length, lists).add();
  return lists;
}

DevicePlan device_plan(const Patterns& patterns, int64_t length, torch::Device device) {
  struct Kept {
    std::vector<int64_t> contents;
    int64_t length;
    torch::Device device;
    DevicePlan plan;
  };
  constexpr size_t kMostBytes = size_t{256} << 20;
  static std::mutex mutex;
  static std::deque<Kept> kept;  // the last used last
  std::vector<int64_t> asked = contents(patterns);
  const std::scoped_lock lock(mutex);
  const auto found = std::ranges::find_if(kept, [&](const Kept& one) {
    return one.length == length && one.device == device && one.contents == asked;
  });
  if (found != kept.end()) {
    std::rotate(found, found + 1, kept.end());
  } else {
    kept.push_back(
        {std::move(asked), length, device, upload(pattern_lists(patterns, length), device)});
    size_t bytes = 0;
    for (const Kept& one : kept) bytes += one.plan.lists.nbytes();
    for (; bytes > kMostBytes && kept.size() > 1; kept.pop_front())
      bytes -= kept.front().plan.lists.nbytes();
  }
  // A recorded step reads it each time that it runs.
  if (SeedTape* tape = SeedTape::current()) tape->keep(kept.back().plan.lists);
  return kept.back().plan;
}

}  // namespace lra::ops::cuda
