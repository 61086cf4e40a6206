// A line of a self-check (schema lra.selfcheck/1): one check of one attention on one device.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "attention_variants/base/enum_names.h"
#include "results/records/attention_record.h"
#include "results/records/machine.h"

namespace lra {

inline constexpr const char* kSelfcheckSchema = "lra.selfcheck/1";

/// How a check ended.
enum class Finding {
  ok,
  failed,   // a quantity passed its limit, or the work threw
  skipped,  // there is nothing to check here; the reason says why
  oom,
  timeout,  // also: the time was over before it began
  crash,    // the process ended without an answer
};
constexpr auto names(Finding) {
  return std::array{"ok", "failed", "skipped", "oom", "timeout", "crash"};
}

/// A quantity and the most that it may be.
struct BoundedError {
  std::string what;             // "the gradient of x"
  std::optional<double> value;  // absent: not finite
  double limit = 0;

  /// In parts of the limit: more than 1 is too much, infinity not finite or more than a limit of 0.
  double share() const;
};

/// What checks measure beside errors; absent where a check does not.
struct SelfcheckMeasures {
  std::optional<int64_t> length, batch;                // of the work that is measured
  std::optional<double> core_ms, core_training_ms;     // of attend(), medians
  std::optional<double> step_ms;                       // of a training step of the model, median
  std::optional<double> gflops, gigabytes_per_second;  // reached; of check "roofline" at best
  std::optional<double> roofline_share;                // time of the roofline / time measured
  std::optional<double> account_mib, counted_mib;      // by the variant, by the allocator
  std::optional<double> reserved_mib;                  // of a GPU, by LibTorch's allocator at most

  bool empty() const;
};

/// One line of a JSONL file.
struct Selfcheck {
  std::optional<AttentionRecord> attention;  // absent: a check of the machine
  std::string check;                         // "parity-float32"
  Finding finding = Finding::ok;             // "status"
  std::string reason;                        // where it is not ok
  std::optional<BoundedError> error;         // the one nearest to its limit, or farthest beyond it
  SelfcheckMeasures measures;
  std::string device;
  int64_t threads = 0;
  double seconds = 0;
  Machine machine;
  json software = json::object();

  /// Whether the self-check is not to end well because of it.
  bool is_failure() const { return finding != Finding::ok && finding != Finding::skipped; }
};

/// Numbers that are not finite become null.
json make_selfcheck(const Selfcheck& record);
/// Reads a record; throws std::runtime_error that names the field, what was expected and what was
/// found. Unknown keys are passed over: later minor additions do not make old readers fail.
Selfcheck parse_selfcheck(const json& record);

}  // namespace lra
