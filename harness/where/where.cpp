#include "harness/where/where.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/host/signals.h"
#include "harness/measure/measure.h"
#include "harness/measure/roofline.h"
#include "harness/profile/profiler.h"
#include "harness/where/step_recorder.h"

namespace lra::where {
namespace {

constexpr int64_t kFewestSteps = 3, kMostSteps = 300;

double milliseconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

// The least time that the work takes on a machine of that roofline, as part of what it took.
std::optional<double> roofline_share(const WhereOp& op, const Roofline& roofline) {
  if ((!op.flops && !op.bytes) || op.ms <= 0) return std::nullopt;
  return measure::least_ms(op.flops.value_or(0), op.bytes.value_or(0), roofline) / op.ms;
}

void record_steps(StepRecorder& recorder, const std::function<void()>& step, double seconds) {
  const auto enough = [&] {
    return recorder.steps() >= kMostSteps ||
           (recorder.steps() >= kFewestSteps && milliseconds(recorder.total()) > 1000 * seconds);
  };
  while (!enough()) {
    if (host::stop_requested()) throw host::Interrupted("stopped while measuring");
    recorder.record(step);
  }
}

// What the recorder saw, of a mean step, those that take longest first, with the share of the
// roofline of those whose work is known.
std::vector<WhereOp> ops_of(const StepRecorder& recorder, const Roofline& roofline) {
  std::vector<WhereOp> ops;
  const auto steps = static_cast<double>(std::max<int64_t>(recorder.steps(), 1));
  for (const auto& [key, sum] : recorder.sums()) {
    const auto& [kind, op, part, pass] = key;
    WhereOp seen{.kind = kind,
                 .op = op,
                 .part = part,
                 .pass = pass,
                 .calls = static_cast<double>(sum.calls) / steps,
                 .ms = milliseconds(sum.time) / steps};
    if (sum.flops >= 0) seen.flops = sum.flops / steps;
    if (sum.bytes >= 0) seen.bytes = sum.bytes / steps;
    seen.roofline = roofline_share(seen, roofline);
    ops.push_back(std::move(seen));
  }
  std::ranges::stable_sort(ops, std::greater(), &WhereOp::ms);
  return ops;
}

// All but what is measured.
Where where_record(const profile::ProfileCell& cell, torch::Device device, int64_t threads) {
  const Profile known = profile::profile_record(cell, device, threads);
  return {.attention = known.attention,
          .length = cell.length,
          .batch = cell.batch,
          .heads = cell.heads,
          .head_dim = cell.head_dim,
          .mode = cell.mode,
          .protocol = known.protocol,
          .task = cell.task,
          .dtype = known.dtype,
          .device = known.device,
          .sets = known.sets,
          .settings_sha256 = known.settings_sha256,
          .protocol_sha256 = known.protocol_sha256,
          .own_settings_sha256 = known.own_settings_sha256,
          .threads = threads,
          .machine = known.machine,
          .software = known.software};
}

}  // namespace

Where where_of(const profile::ProfileCell& cell, torch::Device device, int64_t threads,
               double seconds) {
  Where record = where_record(cell, device, threads);
  const double each = seconds / 3;
  record.roofline = measure::measure_roofline(device, profile::dtype_of(cell.dtype), 0, each);
  const std::function<void()> step = profile::call_of(cell, device);
  record.step_ms =
      measure::measure(step, device, {.seconds = each, .fewest = kFewestSteps}).time.median;
  StepRecorder recorder(device);
  record_steps(recorder, step, each);
  record.steps = recorder.steps();
  const auto steps = static_cast<double>(record.steps);
  record.recorded_ms = milliseconds(recorder.total()) / steps;
  record.recording_ms = milliseconds(recorder.recording()) / steps;
  record.ops = ops_of(recorder, record.roofline);
  for (const WhereOp& op : record.ops) record.ops_ms += op.ms;
  record.outside_ms = std::max(record.recorded_ms - record.recording_ms - record.ops_ms, 0.0);
  return record;
}

}  // namespace lra::where
