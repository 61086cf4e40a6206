// Heads that several threads share, as there are fewer of them: against LibTorch's operators in
// float64, as kernel_parity_test.cpp has heads of one thread each.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <atomic>
#include <numeric>

#include "attention_variants/ops/cpu/heads.h"
#include "tests/attention_variants/parity.h"
#include "tests/attention_variants/testing.h"

namespace lra {
namespace {

using Case = ParityCase;
using Padding = ParityPadding;
using Given = ParityInputs;

// More than all heads of a case; no divisor of their tiles.
constexpr int kThreads = 7;

class FewHeads : public testing::TestWithParam<Case> {
 protected:
  std::vector<torch::Tensor> on(int threads, Given& given) {
    at::set_num_threads(threads);
    return given.results(GetParam(), Kernels::fused, torch::kFloat);
  }

 private:
  const RestoredThreads restored_;
};

TEST_P(FewHeads, OfResultAndGradients) {
  const Case& c = GetParam();
  Given given(c);
  const auto plain = given.results(c, Kernels::reference, torch::kFloat),
             exact = given.results(c, Kernels::reference, torch::kDouble),
             shared = on(kThreads, given);
  expect_as_exact(shared, plain, exact, 2e-6);
}

// A range of the positions in which there is no token.
TEST_P(FewHeads, WithPaddingAllAlongARange) {
  const Case& c = GetParam();
  Given given(c);
  given.mask.slice(1, c.length / 4, c.length - c.length / 4).fill_(false);
  const auto plain = given.results(c, Kernels::reference, torch::kFloat),
             exact = given.results(c, Kernels::reference, torch::kDouble),
             shared = on(kThreads, given);
  expect_as_exact(shared, plain, exact, 2e-6);
}

TEST_P(FewHeads, AreTheSameEveryTime) {
  const Case& c = GetParam();
  Given given(c);
  const auto first = on(kThreads, given);
  for (int round = 0; round < 5; ++round) {
    const auto again = on(kThreads, given);
    for (size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(torch::equal(first[i], again[i])) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Every, FewHeads,
    testing::Values(Case{"nystrom[num_landmarks=16]", 1, 1, 1300, 32, Padding::none},
                    Case{"nystrom", 1, 3, 2048, 8, Padding::none},
                    Case{"nystrom[num_landmarks=7,conv_kernel_size=4]", 2, 1, 1301, 16,
                         Padding::end},
                    Case{"nystrom[conv_kernel_size=601]", 3, 1, 700, 8, Padding::scattered},
                    Case{"nystrom[num_landmarks=8]", 1, 1, 200, 8, Padding::none},  // of one tile
                    Case{"standard", 1, 1, 1300, 32, Padding::none},
                    Case{"standard", 2, 1, 1000, 8, Padding::end},
                    Case{"standard", 3, 1, 1000, 8, Padding::scattered},
                    Case{"standard[dropout=0.2]", 1, 2, 1100, 8, Padding::none},
                    Case{"linformer", 1, 1, 700, 32, Padding::none},
                    Case{"linformer[sharing=none]", 3, 1, 600, 8, Padding::scattered},
                    Case{"linear", 1, 1, 1300, 32, Padding::none},
                    Case{"linear[normalise=false]", 3, 1, 1000, 8, Padding::scattered},
                    Case{"performer", 1, 1, 1300, 32, Padding::none},
                    Case{"performer", 2, 1, 900, 8, Padding::end},
                    Case{"performer[kernel=relu]", 3, 1, 700, 8, Padding::scattered},
                    Case{"cosformer", 1, 2, 1000, 16, Padding::none}));

// Tiles of queries go through the keys in the same order whatever the ranges are.
TEST(FewHeads, OfStandardAreThoseOfOneThreadToTheBit) {
  const RestoredThreads restored;
  for (const char* spec : {"standard", "standard[dropout=0.2]"}) {
    const Case c{spec, 3, 1, 2000, 8, Padding::scattered};
    Given given(c);
    at::set_num_threads(1);
    const auto one = given.results(c, Kernels::fused, torch::kFloat);
    for (const int threads : {6, 7}) {
      at::set_num_threads(threads);
      const auto many = given.results(c, Kernels::fused, torch::kFloat);
      for (size_t i = 0; i < one.size(); ++i)
        EXPECT_TRUE(torch::equal(one[i], many[i])) << spec << " " << threads << " " << i;
    }
  }
}

TEST(Teams, AreOfHeadsThatHaveTwoThreadsOrMore) {
  const RestoredThreads restored;
  at::set_num_threads(8);
  EXPECT_EQ(ops::cpu::parts_for(1, 100), 8);
  EXPECT_EQ(ops::cpu::parts_for(4, 100), 8);
  EXPECT_EQ(ops::cpu::parts_for(4, 3), 3);
  EXPECT_EQ(ops::cpu::parts_for(4, 0), 1);
  EXPECT_EQ(ops::cpu::parts_for(5, 100), 1);
  at::set_num_threads(1);
  EXPECT_EQ(ops::cpu::parts_for(1, 100), 1);
}

TEST(Teams, CutPositionsAtTiles) {
  for (const int64_t parts : {1, 2, 3, 8}) {
    const ops::cpu::Team team(parts, nullptr, nullptr);
    for (const int64_t length : {0, 1, 16, 17, 100, 128}) {
      int64_t end = 0;
      for (int64_t part = 0; part < parts; ++part) {
        const ops::cpu::PositionRange range = team.range(part, length, 16);
        EXPECT_EQ(range.begin % 16, 0);
        EXPECT_LE(range.begin, std::max(range.end, end));
        if (range.length() <= 0) continue;
        EXPECT_EQ(range.begin, end);
        end = range.end;
      }
      EXPECT_EQ(end, length) << parts;
    }
  }
}

// Items of a head have an arena each, which is empty again for the next.
TEST(Teams, TakeEveryItemOnce) {
  const RestoredThreads restored;
  at::set_num_threads(3);
  std::vector<std::atomic<int>> taken(2 * 9);
  ops::cpu::parallel_for_heads(
      2, 3, {.head = 64, .part = 128},
      [&](int64_t head, ops::cpu::Arena& arena, const ops::cpu::Team& team) {
        float* const of_head = arena.take(16);
        std::iota(of_head, of_head + 16, 0.0F);
        team.for_each(9, [&](int64_t item, ops::cpu::Arena& own) {
          float* const of_item = own.take(32);
          std::fill(of_item, of_item + 32, -1.0F);
          ++taken[static_cast<size_t>(9 * head + item)];
        });
        EXPECT_EQ(std::accumulate(of_head, of_head + 16, 0.0F), 120);
      });
  for (const auto& times : taken) EXPECT_EQ(times, 1);
}

}  // namespace
}  // namespace lra
