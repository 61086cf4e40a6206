// What a run wrote while it trained: metrics.jsonl, its one writer and its readers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attention_variants/base/enum_names.h"

namespace lra {

enum class LogSplit {
  train,  // the training steps since the last such line
  dev,    // the whole dev split
};
constexpr auto names(LogSplit) { return std::array{"train", "dev"}; }

struct LogLine {
  int64_t step = 0;  // optimiser steps done
  LogSplit split = LogSplit::dev;
  double loss = 0;      // mean cross-entropy
  double accuracy = 0;  // fraction
  double learning_rate = 0;
  double seconds = 0;          // of training, evaluations included
  std::optional<double> time;  // of day, seconds since 1970; older lines lack it
};

/// Seconds since 1970, to the millisecond.
double time_of_day();

/// The line {"step", "split", "loss", "accuracy", "learning_rate", "seconds", "time"}, with its
/// end.
std::string make_log_line(const LogLine& line);

/// Reads such lines. One that cannot be used is left out and `reason` is set to the first one's
/// number, and what was wrong.
std::vector<LogLine> parse_run_log(std::string_view text, std::string& reason);

/// The lines that a run has behind it at `step` (a killed run may have written more, or half a
/// line), as they stand. An evaluation at that step that is `pending` will be made again, and
/// write its line again.
std::string cut_run_log(std::string_view text, int64_t step, bool pending);

/// When a run evaluates dev: every so many steps, and after the last one. 0 = not known.
struct EvaluationSteps {
  int64_t every = 0, steps = 0;
};

/// The first step up to `last` whose evaluation of dev has no line; nothing where all have one.
std::optional<int64_t> lost_evaluation(std::span<const LogLine> log, const EvaluationSteps& at,
                                       int64_t last);

/// The step of the first evaluation of dev, on `count` examples, whose Wilson interval (95 %) lies
/// above `majority`, the fraction of the most frequent label, and the next one's too: of many
/// evaluations at chance one in forty lies above it. The last needs none after it. Nothing where
/// there is none.
std::optional<int64_t> left_majority_at(std::span<const LogLine> log, double majority,
                                        int64_t count);

/// The end of a log.
struct LogTail {
  int64_t step = 0;
  std::optional<double> accuracy;  // of dev at the last evaluation, a fraction
  double rate = 0;  // steps a second over what was read, evaluations included; 0 = not known
};

/// Reads the last 128 KiB of a file; all is 0 and absent where there is none.
LogTail read_log_tail(const std::filesystem::path& path);

}  // namespace lra
