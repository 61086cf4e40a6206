#include "harness/profile/passes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "attention_variants/base/text.h"
#include "harness/profile/profiler.h"
#include "results/analysis/profile_cells.h"
#include "results/statistics/bootstrap.h"

namespace lra::profile {
namespace {

// An interval wider than this part of its median, to either side, is no result to rely on.
constexpr double kWide = 0.1;
// Nor is what fewer calls took.
constexpr int64_t kFew = 3;
// Of Profile::method: why a cell has fewer passes than it should.
constexpr const char* kStopped = "stopped";

int64_t quiet_passes(const Profile& record) {
  if (!record.time) return 0;
  return std::ranges::count_if(record.time->passes,
                               [](const ProfilePass& pass) { return pass.noisy.empty(); });
}

int64_t sample_count(const Profile& record) {
  return record.time ? static_cast<int64_t>(record.time->samples.size()) : 0;
}

// Why the record is noisy; "" = it is not.
std::string noise(const Profile& record, const stats::Estimate& estimate, int64_t passes) {
  if (record.method.contains(kStopped)) return record.method[kStopped];
  if (pass_count(record) < passes)
    return fmt::format("only {} of {} passes", pass_count(record), passes);
  if (quiet_passes(record) < passes) {
    for (const ProfilePass& pass : record.time->passes) {
      if (!pass.noisy.empty()) return pass.noisy;
    }
  }
  if (const int64_t samples = sample_count(record); samples < kFew)
    return "only " + count_text(samples, "sample");
  if (estimate.precision() > kWide)
    return fmt::format("the interval is ±{:.0f} %", 100 * estimate.precision());
  return "";
}

}  // namespace

int64_t pass_count(const Profile& record) {
  return record.time ? static_cast<int64_t>(record.time->passes.size()) : 0;
}

bool is_done(const Profile& record, int64_t passes) {
  // Records without passes are of other programs, or of an older version of this one.
  if (record.status != Status::ok || !record.time || record.time->passes.empty()) return true;
  if (pass_count(record) >= 2 * passes || record.method.contains(kStopped)) return true;
  // Few samples of quiet passes are long calls: more passes would take as long again.
  return quiet_passes(record) >= passes && (record.noisy.empty() || sample_count(record) < kFew);
}

int64_t passes_to_come(const Profile& record, int64_t passes) {
  if (is_done(record, passes)) return 0;
  return std::clamp<int64_t>(passes - quiet_passes(record), 1, 2 * passes - pass_count(record));
}

void merge_pass(Profile pass, Profile& record) {
  if (pass.status != Status::ok) {
    record.method[kStopped] =
        fmt::format("a later process ended in {}: {}", pass.status, pass.reason);
    return;
  }
  if (pass.method.contains(kGpuClocks)) {
    json& clocks = record.method[kGpuClocks];
    for (const json& one : pass.method[kGpuClocks]) clocks.push_back(one);
  }
  ProfileTime& time = *record.time;
  time.samples.insert(time.samples.end(), pass.time->samples.begin(), pass.time->samples.end());
  time.passes.push_back(pass.time->passes.front());
  const auto larger = [](std::optional<double>& a, const std::optional<double>& b) {
    if (b && (!a || *b > *a)) a = b;
  };
  larger(record.memory->peak, pass.memory->peak);
  larger(record.memory->process_peak, pass.memory->process_peak);
  larger(record.memory->reserved, pass.memory->reserved);
  larger(record.memory->device, pass.memory->device);
}

void settle(Profile& record, json method, const std::optional<Roofline>& roofline, int64_t passes) {
  if (roofline) record.roofline = roofline;
  for (const char* kept : {kStopped, kGpuClocks}) {
    if (record.method.contains(kept)) method[kept] = record.method[kept];
  }
  record.method = std::move(method);
  if (record.status != Status::ok || !record.time) return;
  ProfileTime& time = *record.time;
  const auto used = passes_of(time, passes);
  std::vector<double> samples;
  for (const auto& pass : used) samples.insert(samples.end(), pass.begin(), pass.end());
  const stats::Estimate estimate = stats::median_over_passes(used);
  const stats::MedianEstimate plain = stats::median_estimate(samples);
  time.median = estimate.value;
  time.ci95 = has_interval(used) ? std::optional(estimate.ci95) : std::nullopt;
  time.min = plain.min;
  time.iqr = plain.iqr;
  record.noisy = noise(record, estimate, passes);
}

std::string unmeasured_text(std::span<const Profile> records) {
  std::vector<std::string> failed;
  for (const Profile& record : records) {
    if (!record.package.empty()) continue;
    if (record.status == Status::crash || record.status == Status::timeout)
      failed.push_back(fmt::format("{} of {} at N = {}", record.status,
                                   printable(record.attention.label), record.length));
  }
  if (failed.empty()) return "";
  return fmt::format("{} of {} cells were not measured: {}", failed.size(), records.size(),
                     fmt::join(failed, "; "));
}

}  // namespace lra::profile
