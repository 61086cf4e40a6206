// Runs with costs and logs, for tests of plots.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/results/examples.h"

namespace lra {

inline Result plotted_run(const std::string& attention, int64_t correct, double rate, double mib,
                          uint64_t seed = 0) {
  Result r = example_result(attention, seed, correct);
  r.training.steps_per_second = rate;
  r.training.peak_memory_mib = mib;
  return r;
}

inline void add_log(Result& r, int64_t lines, int64_t every, double loss) {
  auto log = std::make_shared<std::vector<LogLine>>();
  for (int64_t i = 1; i <= lines; ++i) {
    for (const bool train : {true, false})
      log->push_back({.step = every * i,
                      .split = train ? LogSplit::train : LogSplit::dev,
                      .loss = train ? loss : loss + 1,
                      .accuracy = 0.25,
                      .learning_rate = 0.001,
                      .seconds = 1});
  }
  r.log = log;
}

}  // namespace lra
