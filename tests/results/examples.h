// Records that the tests of this room start from.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "results/records/profile.h"
#include "results/records/result.h"
#include "results/statistics/interval.h"
#include "results/statistics/statistics.h"
#include "results/where/record.h"
#include "tests/support/scratch.h"

namespace lra {

inline Result example_result(const std::string& attention = "nystrom", uint64_t seed = 0,
                             int64_t correct = 741) {
  Result r;
  r.task = "listops";
  r.attention = {.name = attention, .label = attention, .options = json::object()};
  if (attention == "nystrom") r.attention.options["num_landmarks"] = 64;
  r.protocol = "lra-strict";
  r.seed = seed;
  r.test = Accuracy{.accuracy = static_cast<double>(correct) / 2000,
                    .correct = correct,
                    .count = 2000,
                    .ci95 = {},
                    .by_length = {}};
  r.test->by_length.push_back({.from = 500, .to = 999, .accuracy = 0.4, .count = 900});
  r.best_step = 950;
  r.steps = 1000;
  r.parameters = 200000;
  r.training = {.seconds = 100.0,
                .steps_per_second = 10.0,
                .tokens_per_second = 655360.0,
                .peak_memory_mib = 300.5,
                .threads = 1};
  r.data = {.source = "generated",
            .synthetic = false,
            .fingerprint = std::string(64, 'a'),
            .majority = 0.173};
  r.machine = {.processor = "Xeon", .cores = 2, .memory_gib = 8, .gpu = ""};
  r.software = {{"lra", "0.1.0"}};
  r.config = {{"dtype", "float32"}, {"training", {{"steps", 5000}}}, {"overridden", json::array()}};
  return r;
}

inline PretrainingRecord example_pretraining() {
  return {.path = "runs/first",
          .sha256 = std::string(64, 'b'),
          .objective = "masked",
          .step = 400,
          .steps = 500,
          .samples = 16000,
          .seconds = 80.5,
          .taken = {"tokens.weight", "layer0_norm.weight"},
          .left = {"classifier.0.weight", "hidden"},
          .fresh = {"classifier.0.weight", "classifier.2.weight"},
          .total_steps = 1500,
          .total_samples = 48000,
          .total_seconds = 180.5};
}

/// Gives a result predictions for as many examples as it counts: of `classes` labels in turn, right
/// where `right` says so of the index; its accuracy follows them.
template <class Right>
Result with_predictions(Result r, int64_t count, const Right& right, int32_t classes = 10) {
  auto predictions = std::make_shared<Predictions>();
  for (int64_t i = 0; i < count; ++i) {
    const auto label = static_cast<int32_t>(i % classes);
    predictions->labels.push_back(label);
    predictions->predicted.push_back(right(i) ? label : (label + 1) % classes);
  }
  const int64_t correct = predictions->correct();
  r.test = Accuracy{.accuracy = static_cast<double>(correct) / static_cast<double>(count),
                    .correct = correct,
                    .count = count,
                    .ci95 = stats::wilson_interval(correct, count),
                    .by_length = {}};
  r.data.majority = 1.0 / classes;
  r.predictions = predictions;
  return r;
}

inline Profile example_profile(const std::string& attention, int64_t length, double mib,
                               double ms) {
  Profile p;
  p.attention = {.name = attention, .label = attention, .options = json::object()};
  p.length = length;
  p.batch = 1;
  p.heads = 12;
  p.head_dim = 64;
  p.scope = ProfileScope::core;
  p.mode = ProfileMode::inference;
  p.dtype = "float32";
  p.device = "cpu";
  p.time = ProfileTime{.median = ms,
                       .min = ms,
                       .iqr = 0.0,
                       .ci95 = stats::Interval{ms * 0.99, ms * 1.01},
                       .samples = {ms * 0.99, ms, ms, ms, ms, ms * 1.01}};
  p.memory = ProfileMemory{.peak = mib, .parameters = 0.0, .analytic = mib};
  p.threads = 2;
  p.machine = {.processor = "Xeon", .cores = 2, .memory_gib = 8, .gpu = ""};
  return p;
}

/// Ten milliseconds: six in ops, three outside, and one of the recording.
inline Where example_where(const std::string& attention = "a") {
  Where record;
  record.attention = {.name = attention, .label = attention, .options = json::object()};
  record.length = 64;
  record.batch = 2;
  record.protocol = "p";
  record.task = "t";
  record.sets = json::array({"model.layers=1"});
  record.dtype = "float32";
  record.device = "cpu";
  record.threads = 1;
  record.steps = 3;
  record.step_ms = 8.5;
  record.recorded_ms = 10;
  record.recording_ms = 1;
  record.ops_ms = 6;
  record.outside_ms = 3;
  record.roofline = {.gflops = 100, .gigabytes_per_second = 10};
  record.ops = {{.kind = WorkKind::products,
                 .op = "aten::mm",
                 .part = "layer 1",
                 .pass = StepPass::backward,
                 .calls = 2,
                 .ms = 4.5,
                 .flops = 9e6,
                 .bytes = 9e5,
                 .roofline = 0.02},
                {.kind = WorkKind::copies, .op = "aten::copy_", .calls = 1, .ms = 1},
                {.kind = WorkKind::products, .op = "aten::mm", .part = "head", .ms = 0.5}};
  record.machine = {.processor = "Xeon", .cores = 2, .memory_gib = 8, .gpu = ""};
  record.software = {{"lra", "0.1.0"}};
  return record;
}

/// A fresh folder for files that the test writes.
class Folder : public Scratch {
 public:
  std::filesystem::path write(const std::string& name, const std::string& text) const {
    const std::filesystem::path file = path() / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
    return file;
  }
};

/// What stands outside the single quotes of a gnuplot script.
inline std::string outside_quotes(const std::string& script) {
  std::string text;
  bool quoted = false;
  for (const char c : script) {
    if (c == '\'') quoted = !quoted;
    if (c != '\'' && !quoted) text += c;
  }
  return text;
}

}  // namespace lra
