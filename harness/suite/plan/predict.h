// What a suite's cells will cost, predicted from what was measured: `lra suite plan` and
// --max-hours.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "harness/suite/suite.h"

namespace lra::suite {

/// Of Prediction::from: there is nothing to predict from.
inline constexpr const char* kUnknown = "unknown";

struct Prediction {
  Status status = Status::pending;   // or what the cell ended as
  std::optional<double> seconds;     // of the whole cell; nothing where nothing is known
  std::optional<double> left;        // of them, still to come
  std::optional<double> memory_mib;  // tensors at most
  std::string from;                  // what it was predicted from: "its own run", "a probe", or
                                     // "unknown"
  bool open = true;                  // a call of the suite would run the cell
  // Nothing is known of the cell's pretraining: seconds, left and memory are of its own run alone.
  bool second_alone = false;
};

struct PredictOptions {
  // Folders and files of records, beside OUT itself: result.json and training steps of
  // lra profile --scope model --mode training. Those of another machine, or of other sizes, are
  // passed over.
  std::vector<std::filesystem::path> records;
  bool probe = false;  // measure a few training steps of what is not known, into OUT/probe.jsonl
};

/// One a cell, in their order.
std::vector<Prediction> predict(const Suite& suite, const PredictOptions& options);

}  // namespace lra::suite
