// Which rows of a tile operators over rows compute, and how they write the others.
#include "attention_variants/ops/cpu/row_tiles.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <mutex>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "attention_variants/ops/autocast.h"
#include "attention_variants/ops/linear.h"
#include "tests/attention_variants/testing.h"

namespace lra {
namespace {

using ops::cpu::kRowTile;
using Ranges = std::set<std::pair<int64_t, int64_t>>;  // (begin, rows)

struct Calls {
  Ranges body, blank;
};

Calls calls_for(const std::vector<uint8_t>& mask, int64_t rows) {
  Calls calls;
  std::mutex guard;
  ops::cpu::parallel_for_row_tiles(
      rows, mask.empty() ? nullptr : reinterpret_cast<const bool*>(mask.data()),
      [&](int64_t, int64_t begin, int64_t count) {
        const std::lock_guard lock(guard);
        calls.body.emplace(begin, count);
      },
      [&](int64_t begin, int64_t count) {
        const std::lock_guard lock(guard);
        calls.blank.emplace(begin, count);
      });
  return calls;
}

TEST(RowTiles, EndAtTheirLastToken) {
  std::vector<uint8_t> mask(static_cast<size_t>(3 * kRowTile + 10), 0);
  std::fill(mask.begin(), mask.begin() + kRowTile, 1);  // a whole tile
  mask[static_cast<size_t>(kRowTile + 4)] = 1;          // padding before and behind it
  const Calls calls = calls_for(mask, static_cast<int64_t>(mask.size()));
  EXPECT_EQ(calls.body, (Ranges{{0, kRowTile}, {kRowTile, 5}}));
  EXPECT_EQ(calls.blank,
            (Ranges{{kRowTile + 5, kRowTile - 5}, {2 * kRowTile, kRowTile}, {3 * kRowTile, 10}}));
}

TEST(RowTiles, WithoutAMaskAreAllComputed) {
  const Calls calls = calls_for({}, kRowTile + 1);
  EXPECT_EQ(calls.body, (Ranges{{0, kRowTile}, {kRowTile, 1}}));
  EXPECT_TRUE(calls.blank.empty());
}

// The tokens of each worker's tiles, with two threads.
std::vector<int64_t> tokens_of_workers(const std::vector<uint8_t>& mask) {
  const RestoredThreads restored;
  at::set_num_threads(2);
  std::vector<int64_t> tokens(2, 0);
  ops::cpu::parallel_for_row_tiles(
      static_cast<int64_t>(mask.size()), reinterpret_cast<const bool*>(mask.data()),
      [&](int64_t worker, int64_t, int64_t count) { tokens[static_cast<size_t>(worker)] += count; },
      [](int64_t, int64_t) {});
  return tokens;
}

TEST(RowTiles, AreSharedOutByTheirTokens) {
  std::vector<uint8_t> mask(static_cast<size_t>(80 * kRowTile), 0);
  std::fill(mask.begin(), mask.begin() + 20 * kRowTile, 1);
  // A quarter of the rows; padding is a little work, too.
  const std::vector<int64_t> tokens = tokens_of_workers(mask);
  EXPECT_EQ(tokens[0] + tokens[1], 20 * kRowTile);
  EXPECT_NEAR(static_cast<double>(tokens[0]), 13 * kRowTile, kRowTile);

  std::fill(mask.begin(), mask.end(), 1);
  EXPECT_EQ(tokens_of_workers(mask), (std::vector<int64_t>{40 * kRowTile, 40 * kRowTile}));
  std::fill(mask.begin(), mask.end(), 0);
  EXPECT_EQ(tokens_of_workers(mask), (std::vector<int64_t>{0, 0}));
}

// Width and stride of rows, and how far their first is from the begin of a cache line.
class BlankRows : public testing::TestWithParam<std::tuple<int64_t, int64_t, int64_t>> {};

TEST_P(BlankRows, AreZeroAndNoOthers) {
  const auto [width, stride, past] = GetParam();
  for (const int64_t rows : {0, 1, 3, 700}) {
    constexpr int64_t kBefore = 2, kBehind = 2;
    const torch::Tensor all = torch::ones({past + (kBefore + rows + kBehind) * stride}),
                        kept = all.clone();
    const ops::cpu::Matrix x{all.mutable_data_ptr<float>() + past, stride};
    ops::cpu::blank_rows(x, kBefore, kBefore + rows, width);
    for (int64_t r = 0; r < rows; ++r) kept.narrow(0, past + (kBefore + r) * stride, width).zero_();
    EXPECT_TRUE(torch::equal(all, kept)) << rows << " rows";
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, BlankRows,
                         testing::Values(std::tuple{64, 64, 0}, std::tuple{32, 64, 0},
                                         std::tuple{32, 64, 32}, std::tuple{10, 10, 3},
                                         std::tuple{33, 50, 5}, std::tuple{7, 9, 15},
                                         std::tuple{1, 1, 1}));

// Operators leave zeros behind the last token of a tile, whatever stands in their input there; of
// any width, and in bfloat16 too.
TEST(RowTiles, OfOperatorsHaveZerosBehindTheLastToken) {
  const int64_t tokens = kRowTile / 2 + 3, width = 16;
  const torch::Tensor mask = torch::arange(2 * kRowTile).unsqueeze(0) < tokens,
                      x = torch::randn({1, 2 * kRowTile, width});
  x.narrow(1, tokens, x.size(1) - tokens).fill_(std::numeric_limits<float>::quiet_NaN());
  for (const ops::Dtype type : {ops::Dtype::float32, ops::Dtype::bfloat16}) {
    const ops::AutocastScope autocast(torch::kCPU, type);
    for (const int64_t out : {16, 7}) {
      const torch::Tensor weight = torch::randn({out, width}), bias = torch::ones({out});
      const torch::Tensor y =
          ops::linear(Kernels::fused, x, nullptr, {{.weight = weight, .bias = bias}}, mask).y.at(0);
      EXPECT_EQ(y.scalar_type() == torch::kBFloat16, type == ops::Dtype::bfloat16);
      EXPECT_TRUE(y.narrow(1, 0, tokens).isfinite().all().item<bool>());
      EXPECT_TRUE(y.narrow(1, tokens, y.size(1) - tokens).eq(0).all().item<bool>());
    }
  }
}

}  // namespace
}  // namespace lra
