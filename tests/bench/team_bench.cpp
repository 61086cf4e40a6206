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
#include <numeric>
#include <vector>

#include "attention_variants/ops/cpu/heads.h"
#include "attention_variants/ops/cpu/kernels/heads/landmark_attention.h"
#include "attention_variants/ops/cpu/kernels/heads/linear_attention.h"
#include "attention_variants/ops/cpu/kernels/heads/softmax_attention.h"
#include "attention_variants/ops/cpu/parallel.h"
#include "tests/bench/bench.h"
#include "tests/bench/team_work.h"

namespace lra::ops::cpu {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

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
      {"nystrom", ops::cpu::kTile, {Pass::forward, Pass::backward}, ops::cpu::landmark_work},
      {"linear", ops::cpu::kFeatureTile, {Pass::forward, Pass::backward}, ops::cpu::linear_work},
      {"softmax", ops::cpu::kLeastKeys, {Pass::backward}, ops::cpu::softmax_work},
      {"band", ops::cpu::kBandTile, {Pass::forward, Pass::backward}, ops::cpu::band_work},
      {"lsh", ops::cpu::kLshChunk, {Pass::forward, Pass::backward}, ops::cpu::lsh_work}};
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
