// What a run wrote while it trained: metrics.jsonl.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lra {

struct LogLine {
  int64_t step = 0;     // optimiser steps done
  bool train = false;   // the training steps since the last such line; else the whole dev split
  double loss = 0;      // mean cross-entropy
  double accuracy = 0;  // fraction
  double learning_rate = 0;
  double seconds = 0;  // of training, evaluations included
};

/// Reads the lines "{step, split, loss, accuracy, learning_rate, seconds}". A line that cannot be
/// used is left out and `reason` is set to the first one's number, and what was wrong.
std::vector<LogLine> parse_run_log(std::string_view text, std::string& reason);

}  // namespace lra
