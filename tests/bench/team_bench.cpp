// One head that threads share, on any number of them, simulated: a team whose items run one after
// the other, each timed alone, and whose loops take as long as items of these times that so many
// threads take in turn; of softmax, whose items wait for one another, as the longest and the steps
// that the last waits before it begins. What threads take from each other (caches, memory,
// frequency) and what it takes to start them is not in it. `speedup` is over one thread, in the
// same run.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <numeric>
#include <vector>

#include "attention_variants/ops/cpu/heads.h"
#include "attention_variants/ops/cpu/kernels/heads/landmark_attention.h"
#include "attention_variants/ops/cpu/kernels/heads/linear_attention.h"
#include "attention_variants/ops/cpu/kernels/heads/softmax_attention.h"
#include "attention_variants/ops/cpu/parallel.h"
#include "tests/bench/bench.h"

namespace lra::ops::cpu {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kDepth = 32, kLandmarks = 64, kTaps = 35, kIterations = 6;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

class Memory {
 public:
  explicit Memory(int64_t bytes)
      : memory_(torch::empty({bytes}, torch::kByte)),
        arena_(reinterpret_cast<std::byte*>(memory_.mutable_data_ptr()), bytes) {}
  Arena& arena() { return arena_; }

 private:
  torch::Tensor memory_;
  Arena arena_;
};

// Items of a loop wait for those before them, in so many steps each; 0: they do not.
class SimulatedThreads {
 public:
  SimulatedThreads(int64_t threads, int64_t bytes, int64_t steps)
      : threads_(threads), steps_(steps), memory_(bytes) {}

  Team team(int64_t parts) { return Team(parts, &run_items, this); }

  /// Seconds that the call would take.
  double time(const std::function<void()>& call) {
    saved_ = 0;
    const auto begin = Clock::now();
    call();
    return seconds_since(begin) - saved_;
  }

 private:
  static void run_items(void* of, int64_t count, Team::Call call, const void* body) {
    auto& self = *static_cast<SimulatedThreads*>(of);
    std::vector<double> taken;
    for (int64_t item = 0; item < count; ++item) {
      const auto begin = Clock::now();
      const Arena::Frame frame(self.memory_.arena());
      call(body, item, self.memory_.arena());
      taken.push_back(seconds_since(begin));
    }
    self.saved_ += std::accumulate(taken.begin(), taken.end(), 0.0) - self.together(taken);
  }

  double together(const std::vector<double>& taken) const {
    if (steps_ > 0) {
      const double longest = *std::max_element(taken.begin(), taken.end()),
                   steps = static_cast<double>(steps_);
      return longest * (steps + static_cast<double>(taken.size()) - 1) / steps;
    }
    std::vector<double> busy(static_cast<size_t>(threads_));
    for (const double item : taken) *std::min_element(busy.begin(), busy.end()) += item;
    return *std::max_element(busy.begin(), busy.end());
  }

  const int64_t threads_, steps_;
  Memory memory_;
  double saved_ = 0;
};

// One pass over a head of so many positions, and what it works in.
struct TeamWork {
  HeadScratch bytes;
  int64_t steps = 0;
  std::function<void(Arena& arena, const Team& team)> pass;
};

// q, k, v, a result, its gradient and three more, [N,d] each.
struct HeadRows {
  explicit HeadRows(int64_t length)
      : data(torch::randn({8, length, kDepth})), mask(torch::ones({length}, torch::kBool)) {}
  Matrix operator[](int64_t i) const { return mutable_head_rows(data.unsqueeze(0), 0, i); }
  const bool* tokens() const { return mask.const_data_ptr<bool>(); }
  torch::Tensor data, mask;
};

TeamWork nystrom_work(int64_t length, int64_t parts, Pass pass) {
  const NystromShape shape{.length = length,
                           .landmarks = kLandmarks,
                           .depth = kDepth,
                           .iterations = kIterations,
                           .kernel = kTaps};
  const HeadRows rows(length);
  const torch::Tensor taps = torch::randn({2, kTaps});
  const auto kept = std::make_shared<Memory>(bytes_of<NystromSaved>(shape));
  const NystromSaved saved(shape, kept->arena());
  const NystromInputs in{.q = rows[0],
                         .k = rows[1],
                         .v = rows[2],
                         .mask = rows.tokens(),
                         .conv_weight = taps.const_data_ptr<float>()};
  if (pass == Pass::forward) {
    return {.bytes = {.head = bytes_of<NystromScratch>(shape, InnerPadding::no, parts),
                      .part = bytes_of<NystromPartScratch>(shape)},
            .pass = [=](Arena& arena, const Team& team) {
              static_cast<void>(taps), static_cast<void>(kept);
              nystrom_forward(shape, in, rows[3], saved, arena, team);
            }};
  }
  Memory memory(bytes_of<NystromScratch>(shape, InnerPadding::no, 1) +
                bytes_of<NystromPartScratch>(shape));
  nystrom_forward(shape, in, rows[3], saved, memory.arena(), Team(memory.arena()));
  return {.bytes = {.head = bytes_of<NystromBackwardScratch>(shape, InnerPadding::no, parts),
                    .part = bytes_of<NystromBackwardPartScratch>(shape)},
          .pass = [=](Arena& arena, const Team& team) {
            static_cast<void>(kept);
            nystrom_backward(shape, in, saved, rows[4],
                             {.q = rows[5],
                              .k = rows[6],
                              .v = rows[7],
                              .conv_weight = taps.mutable_data_ptr<float>() + kTaps},
                             arena, team);
          }};
}

TeamWork linear_work(int64_t length, int64_t parts, Pass pass) {
  const FeatureShape shape{.length = length, .depth = kDepth, .width = kDepth, .offset = 1};
  const HeadRows rows(length);
  const torch::Tensor sums = torch::empty({shape.sums() + 1 + length}),
                      where = torch::empty({2}, torch::kInt64);
  float* const first = sums.mutable_data_ptr<float>();
  const FeatureInputs in{.q = rows[0], .k = rows[1], .v = rows[2], .mask = rows.tokens()};
  const FeatureState state{.sums = first,
                           .largest = first + shape.sums(),
                           .where = where.mutable_data_ptr<int64_t>(),
                           .denominators = first + shape.sums() + 1};
  if (pass == Pass::forward) {
    return {.bytes = {.head = bytes_of<FeatureScratch>(shape, parts),
                      .part = bytes_of<FeaturePartScratch>(shape)},
            .pass = [=](Arena& arena, const Team& team) {
              static_cast<void>(sums), static_cast<void>(where);
              feature_forward(shape, in, rows[3], state, arena, team);
            }};
  }
  Memory memory(bytes_of<FeatureScratch>(shape, 1) + bytes_of<FeaturePartScratch>(shape));
  feature_forward(shape, in, rows[3], state, memory.arena(), Team(memory.arena()));
  return {.bytes = {.head = bytes_of<FeatureBackwardScratch>(shape, parts),
                    .part = bytes_of<FeatureBackwardPartScratch>(shape)},
          .pass = [=](Arena& arena, const Team& team) {
            static_cast<void>(sums), static_cast<void>(where);
            feature_backward(shape, in, rows[3], state, rows[4],
                             {.q = rows[5], .k = rows[6], .v = rows[7]}, arena, team);
          }};
}

// Backward alone: forward, tiles of queries are items of their own.
TeamWork softmax_work(int64_t length, int64_t parts, Pass) {
  const SoftmaxShape shape{
      .queries = length, .keys = length, .depth = kDepth, .values = kDepth, .scale = 0.18F};
  const HeadRows rows(length);
  const torch::Tensor kept = torch::empty({1, 2, length});
  const SoftmaxInputs in{.q = rows[0], .k = rows[1], .v = rows[2]};
  Memory memory(bytes_of<SoftmaxScratch>(shape, InnerPadding::no, 1) +
                bytes_of<SoftmaxPartScratch>(shape, Pass::forward));
  for (int64_t begin = 0; begin < length; begin += kQueryTile)
    softmax_forward(shape, in, begin, rows[3], softmax_stats(kept, 0), memory.arena());
  return {.bytes = {.head = bytes_of<SoftmaxScratch>(shape, InnerPadding::no, parts),
                    .part = bytes_of<SoftmaxPartScratch>(shape, Pass::backward)},
          .steps = (length + kQueryTile - 1) / kQueryTile,
          .pass = [=](Arena& arena, const Team& team) {
            softmax_backward(shape, in, rows[3], softmax_stats(kept, 0), rows[4],
                             {.q = rows[5], .k = rows[6], .v = rows[7]}, arena, team);
          }};
}

struct TeamOperator {
  const char* name;
  int64_t tile;  // positions of a range, at least
  std::vector<Pass> passes;
  TeamWork (*make)(int64_t length, int64_t parts, Pass pass);
};

void run(benchmark::State& state, const TeamOperator& of, Pass pass) {
  torch::manual_seed(0);
  const int64_t length = state.range(0), threads = state.range(1),
                parts = std::min(threads, tile_count(length, of.tile));
  const TeamWork alone = of.make(length, 1, pass), shared = of.make(length, parts, pass);
  Memory one(alone.bytes.head + alone.bytes.part), head(shared.bytes.head);
  SimulatedThreads simulated(threads, shared.bytes.part, shared.steps);
  double of_one = 0, of_team = 0;
  parallel_for_dynamic(1, [&](int64_t, int64_t) {  // products on one thread
    for (auto _ : state) {
      const auto begin = Clock::now();
      {
        const Arena::Frame frame(one.arena());
        alone.pass(one.arena(), Team(one.arena()));
      }
      of_one += seconds_since(begin);
      const double taken = simulated.time([&] {
        const Arena::Frame frame(head.arena());
        shared.pass(head.arena(), simulated.team(parts));
      });
      state.SetIterationTime(taken);
      of_team += taken;
    }
  });
  state.counters["speedup"] = of_one / of_team;
}

}  // namespace
}  // namespace lra::ops::cpu

namespace lra {

void register_teams() {
  using ops::cpu::Pass, ops::cpu::TeamOperator;
  const std::vector<TeamOperator> operators = {
      {"nystrom", ops::cpu::kTile, {Pass::forward, Pass::backward}, ops::cpu::nystrom_work},
      {"linear", ops::cpu::kFeatureTile, {Pass::forward, Pass::backward}, ops::cpu::linear_work},
      {"softmax", ops::cpu::kLeastKeys, {Pass::backward}, ops::cpu::softmax_work}};
  for (const TeamOperator& of : operators) {
    for (const Pass pass : of.passes) {
      const std::string name = fmt::format("SimulatedTeam/{}/{}", of.name,
                                           pass == Pass::forward ? "forward" : "backward");
      benchmark::RegisterBenchmark(
          name.c_str(), [of, pass](benchmark::State& state) { ops::cpu::run(state, of, pass); })
          ->ArgNames({"N", "threads"})
          ->ArgsProduct({{2048, 8192}, {2, 4, 8, 16}})
          ->UseManualTime()
          ->Unit(benchmark::kMillisecond);
    }
  }
}

}  // namespace lra
