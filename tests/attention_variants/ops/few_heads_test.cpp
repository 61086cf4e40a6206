// Heads that several threads share, as there are fewer of them: against LibTorch's operators in
// float64, as kernel_parity_test.cpp has heads of one thread each.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <thread>
#include <vector>

#include "attention_variants/ops/cpu/heads.h"
#include "attention_variants/ops/cpu/kernels/heads/softmax_attention.h"
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

  void expect_as_reference(Given& given) {
    const Case& c = GetParam();
    const auto plain = given.results(c, Kernels::reference, torch::kFloat),
               exact = given.results(c, Kernels::reference, torch::kDouble);
    expect_as_exact(on(kThreads, given), plain, exact, 2e-6);
  }

 private:
  const RestoredThreads restored_;
};

TEST_P(FewHeads, OfResultAndGradients) {
  Given given(GetParam());
  expect_as_reference(given);
}

// A range of the positions in which there is no token.
TEST_P(FewHeads, WithPaddingAllAlongARange) {
  const Case& c = GetParam();
  Given given(c);
  given.mask.slice(1, c.length / 4, c.length - c.length / 4).fill_(false);
  expect_as_reference(given);
}

// Products round their operands, but for the iteration of the inverse, on all threads.
TEST_P(FewHeads, UnderAutocast) {
  const Case& c = GetParam();
  Given given(c);
  at::set_num_threads(kThreads);
  const auto shared = given.results(c, Kernels::fused, torch::kFloat, ops::Dtype::bfloat16),
             plain = given.results(c, Kernels::reference, torch::kFloat, ops::Dtype::bfloat16),
             exact = given.results(c, Kernels::reference, torch::kDouble);
  for (size_t i = 0; i < exact.size(); ++i)
    expect_near_in_bfloat16(shared[i], plain[i], exact[i], i);
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
                    Case{"nystrom[init=global,padding=zeroed]", 3, 1, 700, 8, Padding::scattered},
                    Case{"standard", 1, 1, 1300, 32, Padding::none},
                    Case{"standard", 2, 1, 1000, 8, Padding::end},
                    Case{"standard", 3, 1, 1000, 8, Padding::scattered},
                    Case{"standard", 1, 2, 1000, 8, Padding::end},  // rows of heads lie apart
                    Case{"standard", 3, 2, 700, 16, Padding::scattered},
                    Case{"standard[dropout=0.2]", 1, 2, 1100, 8, Padding::none},
                    Case{"linformer", 1, 1, 700, 32, Padding::none},
                    Case{"linformer[sharing=none]", 3, 1, 600, 8, Padding::scattered},
                    Case{"linear", 1, 1, 1300, 32, Padding::none},
                    Case{"linear[normalise=false]", 3, 1, 1000, 8, Padding::scattered},
                    Case{"performer", 1, 1, 1300, 32, Padding::none},
                    Case{"performer", 2, 1, 900, 8, Padding::end},
                    Case{"performer[kernel=relu]", 3, 1, 700, 8, Padding::scattered},
                    Case{"performer[key_max=batch]", 3, 1, 700, 8, Padding::scattered},
                    Case{"performer[key_max=batch,prescale=true]", 1, 2, 1300, 8, Padding::none},
                    Case{"cosformer", 1, 2, 1000, 16, Padding::none},
                    Case{"local", 1, 1, 1300, 32, Padding::none},
                    Case{"local[block=600]", 3, 1, 700, 8, Padding::scattered},  // of two tiles
                    Case{"longformer[window=64]", 2, 1, 1100, 16, Padding::end},
                    Case{"longformer[window=32,global_tokens=5]", 3, 1, 700, 8, Padding::scattered},
                    Case{"bigbird[block=16]", 1, 3, 700, 8, Padding::none},
                    Case{"sparse[block=32,summary=8]", 1, 2, 500, 8, Padding::none},
                    Case{"reformer", 1, 1, 1300, 32, Padding::none},
                    Case{"reformer[chunk_length=16,num_hashes=3]", 1, 3, 500, 8, Padding::none},
                    Case{"reformer[chunk_length=16]", 3, 1, 700, 8, Padding::scattered},
                    Case{"reformer[chunk_length=16,chunks_before=2,chunks_after=1]", 2, 1, 300, 16,
                         Padding::end},
                    // Chunks are seen from both sides, and a range is a chunk.
                    Case{"reformer[chunk_length=32,chunks_before=3,chunks_after=3]", 1, 1, 90, 8,
                         Padding::none},
                    Case{"reformer[chunk_length=600]", 1, 1, 1300, 8, Padding::none}));

// Else the tests above would try what one thread does.
TEST(FewHeads, AreShared) {
  const RestoredThreads restored;
  for (const char* spec :
       {"nystrom[num_landmarks=16]", "linear", "performer", "standard", "reformer"}) {
    const Case c{spec, 1, 1, 1300, 32, Padding::none};
    Given given(c);
    at::set_num_threads(1);
    const auto one = given.results(c, Kernels::fused, torch::kFloat);
    at::set_num_threads(kThreads);
    const auto many = given.results(c, Kernels::fused, torch::kFloat);
    EXPECT_FALSE(torch::equal(one[1], many[1])) << spec;  // the gradient of q
  }
}

// The largest scores of two ranges differ by so much that one's sum vanishes beside the other's.
TEST(FewHeads, TakeHugeLogits) {
  const RestoredThreads restored;
  for (const char* spec : {"nystrom[num_landmarks=16]", "standard"}) {
    const Case c{spec, 1, 1, 1300, 8, Padding::none};
    Given given(c);
    given.inputs[0] = given.inputs[0] * 30;
    given.inputs[1] = given.inputs[1] * 30;
    const auto plain = given.results(c, Kernels::reference, torch::kFloat),
               exact = given.results(c, Kernels::reference, torch::kDouble);
    at::set_num_threads(kThreads);
    const auto shared = given.results(c, Kernels::fused, torch::kFloat);
    EXPECT_LT(difference(shared[0], exact[0]), std::max(1e-4, 4 * difference(plain[0], exact[0])))
        << spec;
    for (const torch::Tensor& t : shared) EXPECT_TRUE(finite(t)) << spec;
  }
}

TEST(FewHeads, MayBeNone) {
  const RestoredThreads restored;
  at::set_num_threads(kThreads);
  for (const char* spec :
       {"nystrom[num_landmarks=16]", "linear", "linformer", "standard", "longformer", "reformer"}) {
    const Case c{spec, 0, 1, 600, 8, Padding::none};
    Given given(c);
    EXPECT_EQ(given.results(c, Kernels::fused, torch::kFloat)[0].numel(), 0) << spec;
  }
}

// Tiles of queries go through the keys in the same order whatever the ranges are, or add what they
// give to keys in that of the tiles.
TEST(FewHeads, OfTilesInTurnAreThoseOfOneThreadToTheBit) {
  const RestoredThreads restored;
  for (const char* spec : {"standard", "standard[dropout=0.2]", "local", "longformer[window=64]",
                           "longformer[window=32,global_tokens=5]", "bigbird[block=16]"}) {
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

// A round at a time, in which a token is in one chunk.
TEST(FewHeads, OfReformerGiveTheResultOfOneThreadToTheBit) {
  const RestoredThreads restored;
  const Case c{
      "reformer[chunk_length=16,num_hashes=3,chunks_after=1]", 3, 1, 700, 8, Padding::scattered};
  Given given(c);
  at::set_num_threads(1);
  const auto one = given.results(c, Kernels::fused, torch::kFloat);
  for (const int threads : {6, 7}) {
    at::set_num_threads(threads);
    EXPECT_TRUE(torch::equal(one[0], given.results(c, Kernels::fused, torch::kFloat)[0]))
        << threads;
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
        EXPECT_GE(range.length(), 0);
        if (range.length() == 0) continue;
        EXPECT_EQ(range.begin, end);
        end = range.end;
      }
      EXPECT_EQ(end, length) << parts;
    }
  }
}

// Of what a kernel takes: with the red zones of a sanitizer.
template <int64_t kFloats>
struct SomeFloats {
  explicit SomeFloats(ops::cpu::Arena& arena) : at(arena.take(kFloats)) {}
  float* at;
};

// Items of a head have an arena each, which is empty again for the next; there may be more of them
// than parts.
TEST(Teams, TakeEveryItemOnce) {
  const RestoredThreads restored;
  at::set_num_threads(8);
  std::vector<std::atomic<int>> taken(2 * 9);
  ops::cpu::parallel_for_heads(
      2, 3,
      {.head = ops::cpu::bytes_of<SomeFloats<16>>(), .part = ops::cpu::bytes_of<SomeFloats<32>>()},
      [&](int64_t head, ops::cpu::Arena& arena, const ops::cpu::Team& team) {
        float* const of_head = SomeFloats<16>(arena).at;
        std::iota(of_head, of_head + 16, 0.0F);
        team.for_each(9, [&](int64_t item, ops::cpu::Arena& own) {
          float* const of_item = SomeFloats<32>(own).at;
          std::fill(of_item, of_item + 32, -1.0F);
          ++taken[static_cast<size_t>(9 * head + item)];
        });
        EXPECT_EQ(std::accumulate(of_head, of_head + 16, 0.0F), 120);
      });
  for (const auto& times : taken) EXPECT_EQ(times, 1);
}

// With threads of the test's own, which ThreadSanitizer follows, as it does not those of OpenMP.
TEST(Teams, OfAnyThreadsGiveTheGradientsOfOne) {
  using namespace ops::cpu;
  const SoftmaxShape shape{.queries = 700, .keys = 1200, .depth = 8, .values = 8, .scale = 0.35F};
  torch::manual_seed(1);
  const torch::Tensor q = torch::randn({1, 1, 700, 8}), k = torch::randn({1, 1, 1200, 8}),
                      v = torch::randn({1, 1, 1200, 8}), grad = torch::randn({1, 1, 700, 8}),
                      out = torch::empty_like(q), kept = torch::empty({1, 2, 700});
  const SoftmaxInputs in{.q = head_rows(q, 0, 0), .k = head_rows(k, 0, 0), .v = head_rows(v, 0, 0)};
  parallel_for_items(1, bytes_of<SoftmaxPartScratch>(shape, Pass::forward),
                     [&](int64_t, Arena& arena) {
                       for (int64_t begin = 0; begin < 700; begin += kQueryTile)
                         softmax_forward(shape, in, begin, mutable_head_rows(out, 0, 0).from(begin),
                                         softmax_stats(kept, 0), arena);
                     });
  const int64_t part = bytes_of<SoftmaxPartScratch>(shape, Pass::backward);
  const Team::Run on_threads = [](void* bytes, int64_t items, Team::Call call, const void* body) {
    std::vector<std::thread> threads;
    for (int64_t item = 0; item < items; ++item) {
      threads.emplace_back([=] {
        parallel_for_items(1, *static_cast<int64_t*>(bytes),
                           [&](int64_t, Arena& arena) { call(body, item, arena); });
      });
    }
    for (std::thread& thread : threads) thread.join();
  };
  const auto gradients = [&](int64_t parts) {
    std::vector<torch::Tensor> to = {torch::empty_like(q), torch::empty_like(k),
                                     torch::empty_like(v)};
    const auto rows = [&](size_t i) { return mutable_head_rows(to[i], 0, 0); };
    parallel_for_items(1, bytes_of<SoftmaxBackwardScratch>(shape, KeyCopies::no, parts) + part,
                       [&](int64_t, Arena& arena) {
                         int64_t bytes = part;
                         softmax_backward(
                             shape, in, mutable_head_rows(out, 0, 0), softmax_stats(kept, 0),
                             head_rows(grad, 0, 0), {.q = rows(0), .k = rows(1), .v = rows(2)},
                             KeyCopies::no, arena,
                             parts == 1 ? Team(arena) : Team(parts, on_threads, &bytes));
                       });
    return to;
  };
  const auto one = gradients(1), many = gradients(4);
  for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(torch::equal(one[i], many[i])) << i;
}

}  // namespace
}  // namespace lra
