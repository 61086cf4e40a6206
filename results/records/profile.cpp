#include "results/records/profile.h"

#include <algorithm>

#include "results/records/record_fields.h"

namespace lra {
namespace {

constexpr auto pass_fields = [](auto& f, auto& pass) {
  f("samples", pass.samples, Presence::required, {.least = 1});
  f("warm_up", pass.warm_up);
  f("others", pass.others, Presence::sparse, {.most = 1});
  f("mhz", pass.mhz);
  f.pair("reference_ms", pass.reference, "[before, after]");
  f("device_ms", pass.device_ms);
  f("noisy", pass.noisy, Presence::sparse);
};

constexpr auto time_fields = [](auto& f, auto& time) {
  f("median", time.median);
  f("min", time.min);
  f("iqr", time.iqr);
  f("ci95", time.ci95);
  f("samples", time.samples, Presence::optional);
  f.list("passes", time.passes, Presence::sparse, pass_fields);
};

// Every number is of at least 0; of an account that a variant lacks, -1 is read as absent.
constexpr auto memory_fields = [](auto& f, auto& memory) {
  f("peak", memory.peak);
  f("parameters", memory.parameters);
  f("analytic", memory.analytic, Presence::sparse, {.least = -1});
  f("optimizer", memory.optimizer);
  f("process_peak", memory.process_peak);
  f("reserved", memory.reserved);
  f("device", memory.device);
};

constexpr auto roofline_fields = [](auto& f, auto& roofline) {
  f("gflops", roofline.gflops);
  f("gigabytes_per_second", roofline.gigabytes_per_second);
};

constexpr auto profile_fields = [](auto& f, auto& p) {
  f.schema(kProfileSchema);
  f.part("attention", p.attention, make_attention_record, parse_attention_record);
  f("length", p.length, Presence::required, {.least = 1});
  f("batch", p.batch, Presence::required, {.least = 1});
  f("heads", p.heads, Presence::required, {.least = 1});
  f("head_dim", p.head_dim, Presence::required, {.least = 1});
  f("scope", p.scope);
  f("mode", p.mode);
  f("dtype", p.dtype);
  f("device", p.device);
  f("status", p.status);
  f("reason", p.reason, Presence::optional);
  f("package", p.package, Presence::sparse);
  const bool ok = p.status == Status::ok;
  f.part("time_ms", p.time, make_time, parse_time, required_if(ok));
  f.part("memory_mib", p.memory, make_memory, parse_memory, required_if(ok));
  f("noisy", p.noisy, Presence::sparse);
  f("flops", p.flops, Presence::sparse, {.least = -1});
  f("least_bytes", p.least_bytes);
  f.part("roofline", p.roofline, make_roofline, parse_roofline);
  f("threads", p.threads);
  f("batch_policy", p.batch_policy, Presence::sparse);
  f("protocol", p.protocol, Presence::sparse);
  f("task", p.task, Presence::sparse);
  f("sets", p.sets, Presence::sparse);
  f("settings_sha256", p.settings_sha256, Presence::sparse);
  f("protocol_sha256", p.protocol_sha256, Presence::sparse);
  f("own_settings_sha256", p.own_settings_sha256, Presence::sparse);
  f("method", p.method, Presence::sparse);
  f.part("machine", p.machine, make_machine, parse_machine, Presence::optional);
  f("software", p.software, Presence::optional);
};

// What a file's editor or another program wrote beside samples that it is not of.
void check_within_samples(const ProfileTime& time) {
  if (time.samples.empty()) return;
  const auto [least, most] = std::ranges::minmax(time.samples);
  const auto check = [low = least, high = most](const char* field, std::optional<double> value) {
    if (!value || (*value >= low && *value <= high)) return;
    bad_record(fmt::format("field 'time_ms.{}' should lie among its samples, {} to {}, not {}",
                           field, low, high, *value));
  };
  check("median", time.median);
  check("min", time.min);
  if (!time.ci95) return;
  check("ci95", time.ci95->low);
  check("ci95", time.ci95->high);
}

}  // namespace

json make_roofline(const Roofline& roofline) { return write_record(roofline, roofline_fields); }

Roofline parse_roofline(const json& value) {
  return read_record<Roofline>(value, "roofline", roofline_fields);
}

json make_time(const ProfileTime& time) { return write_record(time, time_fields); }

ProfileTime parse_time(const json& value) {
  ProfileTime time = read_record<ProfileTime>(value, "time_ms", time_fields);
  int64_t samples = 0;
  for (const ProfilePass& pass : time.passes) samples += pass.samples;
  if (!time.passes.empty() && samples != static_cast<int64_t>(time.samples.size()))
    bad_record(fmt::format("field 'time_ms.passes' counts {} samples, but there are {}", samples,
                           time.samples.size()));
  check_within_samples(time);
  return time;
}

json make_memory(const ProfileMemory& memory) { return write_record(memory, memory_fields); }

ProfileMemory parse_memory(const json& value) {
  ProfileMemory memory = read_record<ProfileMemory>(value, "memory_mib", memory_fields);
  if (memory.analytic.value_or(0) < 0) memory.analytic.reset();
  return memory;
}

json make_profile(const Profile& profile) { return write_record(profile, profile_fields); }

Profile parse_profile(const json& record) {
  Profile profile = read_record<Profile>(record, "", profile_fields);
  if (profile.flops.value_or(0) < 0) profile.flops.reset();
  return profile;
}

}  // namespace lra
