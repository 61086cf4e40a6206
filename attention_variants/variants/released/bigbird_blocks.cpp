#include "attention_variants/variants/released/bigbird_blocks.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

namespace lra::released {
namespace {

using Blocks = std::vector<int64_t>;

// numpy.random.permutation() of `values`.
Blocks permuted(Blocks values, std::mt19937& generator) {
  for (auto last = static_cast<uint32_t>(values.size()); last-- > 1;) {
    const uint32_t mask = std::bit_ceil(last + 1) - 1;
    uint32_t at = generator() & mask;
    while (at > last) at = generator() & mask;
    std::swap(values[last], values[at]);
  }
  return values;
}

// Blocks 1 to count - 2 that block i draws from, as Python's slices choose them.
Blocks candidates(BigbirdRelease release, int64_t i, int64_t count, int64_t last) {
  const int64_t inner = count - 2;
  const bool all = release == BigbirdRelease::skyformer;  // those that are seen anyway, too
  Blocks chosen;
  const auto slice = [&](int64_t begin, int64_t end) {  // of [1, .., count - 2]
    if (end < 0) end = std::max<int64_t>(0, inner + end);
    for (int64_t j = begin; j < std::min(end, inner); ++j) chosen.push_back(j + 1);
  };
  if (i == 1) {
    slice(2, last);
  } else if (i == 2) {
    slice(3, last);
  } else if (i == count - 3) {
    slice(0, all ? last : last - 4);
  } else if (i == count - 2) {
    slice(0, all ? last : last - 3);
  } else if (i - 2 > last) {
    slice(0, last);
  } else if (i + 1 == last) {
    slice(0, i - 2);
  } else {
    slice(0, i - 2);
    slice(i + 1, last);
  }
  return chosen;
}

// Blocks below `range` that block i does not see anyway, in an order of chance.
Blocks planned(int64_t i, int64_t range, std::mt19937& generator) {
  Blocks all(static_cast<size_t>(range));
  std::iota(all.begin(), all.end(), int64_t{0});
  Blocks order = permuted(std::move(all), generator);
  std::erase_if(order, [&](int64_t j) {
    const bool beside_an_end = (i == 1 && j == range - 2) || (i == range - 2 && j == 1);
    return std::abs(i - j) <= 1 || j == 0 || j == range - 1 || beside_an_end;
  });
  return order;
}

}  // namespace

torch::Tensor bigbird_blocks(const BigbirdDraw& draw) {
  const int64_t count = draw.blocks;
  const int64_t range = std::min(draw.range, count);
  const int64_t last = (range > 2 ? range : count) - 1;
  torch::Tensor table = torch::full({draw.heads, count, draw.random}, -1, torch::kLong);
  auto chosen = table.accessor<int64_t, 3>();
  std::mt19937 generator(draw.seed);
  const auto take = [&](int64_t h, int64_t i, const Blocks& order) {
    for (int64_t j = 0; j < std::min<int64_t>(draw.random, std::ssize(order)); ++j)
      chosen[h][i][j] = order[static_cast<size_t>(j)];
  };
  if (range == 2 * draw.random + 5 && range < count) {
    for (int64_t i = 1; i < count - 1; ++i) {
      for (int64_t h = 0; h < draw.heads; ++h) take(h, i, planned(i, range, generator));
    }
    return table;
  }
  for (int64_t h = 0; h < draw.heads; ++h) {
    for (int64_t i = 1; i < count - 1; ++i)
      take(h, i, permuted(candidates(draw.release, i, count, last), generator));
  }
  return table;
}

}  // namespace lra::released
