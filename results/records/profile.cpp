#include "results/records/profile.h"

#include "results/records/json_line.h"
#include "results/records/record_fields.h"

namespace lra {
namespace {

constexpr std::string_view kScopes[] = {"core", "module", "model"};
constexpr std::string_view kModes[] = {"inference", "training"};

json make_pass(const ProfilePass& pass) {
  json value = {{"samples", pass.samples}, {"warm_up", pass.warm_up}};
  set_if(value, "others", pass.others);
  set_if(value, "mhz", pass.mhz);
  if (pass.reference) value["reference_ms"] = make_interval(*pass.reference);
  set_if(value, "device_ms", pass.device_ms);
  if (!pass.noisy.empty()) value["noisy"] = pass.noisy;
  return value;
}

ProfilePass parse_pass(const json& value) {
  const RecordReader reader(value, "time_ms.passes");
  ProfilePass pass{.samples = reader.integer("samples", 1),
                   .warm_up = reader.integer("warm_up", 0),
                   .others = reader.number_if("others", 0, 1),
                   .mhz = reader.number_if("mhz", 0, kHuge),
                   .reference = std::nullopt,
                   .device_ms = reader.number_if("device_ms", 0, kHuge),
                   .noisy = reader.text_or("noisy", "")};
  if (const json* reference = reader.find("reference_ms")) {
    if (!reference->is_array() || reference->size() != 2)
      bad_record("field 'time_ms.passes.reference_ms' should be [before, after], not " +
                 abbreviated(*reference));
    pass.reference = stats::Interval{reader.as_number("reference_ms", (*reference)[0], 0, kHuge),
                                     reader.as_number("reference_ms", (*reference)[1], 0, kHuge)};
  }
  return pass;
}

}  // namespace

json make_time(const ProfileTime& time) {
  json value = {{"median", finite_or_null(time.median)}};
  set_if(value, "min", time.min);
  set_if(value, "iqr", time.iqr);
  if (time.ci95) value["ci95"] = make_interval(*time.ci95);
  value["samples"] = json::array();
  for (const double sample : time.samples) value["samples"].push_back(finite_or_null(sample));
  for (const ProfilePass& pass : time.passes) value["passes"].push_back(make_pass(pass));
  return value;
}

ProfileTime parse_time(const json& value) {
  const RecordReader reader(value, "time_ms");
  ProfileTime time{.median = reader.number("median", 0, kHuge),
                   .min = reader.number_if("min", 0, kHuge),
                   .iqr = reader.number_if("iqr", 0, kHuge),
                   .ci95 = reader.interval_if("ci95", 0, kHuge),
                   .samples = {},
                   .passes = {}};
  if (const json* samples = reader.find("samples")) {
    if (!samples->is_array())
      bad_record("field 'time_ms.samples' should be an array, not " + abbreviated(*samples));
    for (const json& sample : *samples)
      time.samples.push_back(reader.as_number("samples", sample, 0, kHuge));
  }
  if (const json* passes = reader.find("passes")) {
    if (!passes->is_array())
      bad_record("field 'time_ms.passes' should be an array, not " + abbreviated(*passes));
    int64_t samples = 0;
    for (const json& pass : *passes) {
      time.passes.push_back(parse_pass(pass));
      samples += time.passes.back().samples;
    }
    if (!passes->empty() && samples != static_cast<int64_t>(time.samples.size()))
      bad_record(fmt::format("field 'time_ms.passes' counts {} samples, but there are {}", samples,
                             time.samples.size()));
  }
  return time;
}

json make_memory(const ProfileMemory& memory) {
  json value = {{"peak", finite_or_null(memory.peak)}};
  set_if(value, "parameters", memory.parameters);
  set_if(value, "analytic", memory.analytic);
  set_if(value, "optimizer", memory.optimizer);
  set_if(value, "process_peak", memory.process_peak);
  set_if(value, "reserved", memory.reserved);
  set_if(value, "device", memory.device);
  return value;
}

ProfileMemory parse_memory(const json& value) {
  const RecordReader reader(value, "memory_mib");
  return {.peak = reader.number("peak", 0, kHuge),
          .parameters = reader.number_if("parameters", 0, kHuge),
          .analytic = reader.number_if("analytic", -1, kHuge),
          .optimizer = reader.number_if("optimizer", 0, kHuge),
          .process_peak = reader.number_if("process_peak", 0, kHuge),
          .reserved = reader.number_if("reserved", 0, kHuge),
          .device = reader.number_if("device", 0, kHuge)};
}

json make_profile(const Profile& profile) {
  json value = {{"schema", kProfileSchema}, {"attention", make_attention_record(profile.attention)},
                {"length", profile.length}, {"batch", profile.batch},
                {"heads", profile.heads},   {"head_dim", profile.head_dim},
                {"scope", profile.scope},   {"mode", profile.mode},
                {"dtype", profile.dtype},   {"device", profile.device},
                {"status", profile.status}, {"reason", profile.reason}};
  const auto put_text = [&value](const char* name, const std::string& text) {
    if (!text.empty()) value[name] = text;
  };
  put_text("package", profile.package);
  if (profile.time) value["time_ms"] = make_time(*profile.time);
  if (profile.memory) value["memory_mib"] = make_memory(*profile.memory);
  put_text("noisy", profile.noisy);
  set_if(value, "flops", profile.flops);
  set_if(value, "least_bytes", profile.least_bytes);
  if (profile.roofline) {
    value["roofline"] = {
        {"gflops", finite_or_null(profile.roofline->gflops)},
        {"gigabytes_per_second", finite_or_null(profile.roofline->gigabytes_per_second)}};
  }
  set_if(value, "threads", profile.threads);
  put_text("batch_policy", profile.batch_policy);
  put_text("protocol", profile.protocol);
  put_text("task", profile.task);
  if (!profile.sets.empty()) value["sets"] = profile.sets;
  if (!profile.method.empty()) value["method"] = profile.method;
  value["machine"] = make_machine(profile.machine);
  value["software"] = profile.software;
  return value;
}

Profile parse_profile(const json& record) {
  const RecordReader reader(record, "");
  check_schema(reader, kProfileSchema);
  Profile profile;
  profile.attention = parse_attention_record(reader.at("attention"));
  profile.length = reader.integer("length", 1);
  profile.batch = reader.integer("batch", 1);
  profile.heads = reader.integer("heads", 1);
  profile.head_dim = reader.integer("head_dim", 1);
  profile.scope = reader.word("scope", kScopes);
  profile.mode = reader.word("mode", kModes);
  profile.dtype = reader.text("dtype");
  profile.device = reader.text("device");
  profile.status = read_status(reader);
  profile.reason = reader.text_or("reason", "");
  const bool ok = profile.status == Status::ok;
  if (ok || reader.find("time_ms")) profile.time = parse_time(reader.at("time_ms"));
  if (ok || reader.find("memory_mib")) profile.memory = parse_memory(reader.at("memory_mib"));
  profile.package = reader.text_or("package", "");
  profile.noisy = reader.text_or("noisy", "");
  profile.flops = reader.number_if("flops", -1, kHuge);
  profile.least_bytes = reader.number_if("least_bytes", 0, kHuge);
  if (const json* roofline = reader.find("roofline")) {
    const RecordReader inner(*roofline, "roofline");
    profile.roofline =
        Roofline{.gflops = inner.number("gflops", 0, kHuge),
                 .gigabytes_per_second = inner.number("gigabytes_per_second", 0, kHuge)};
  }
  profile.threads = reader.integer_if("threads", 0);
  profile.batch_policy = reader.text_or("batch_policy", "");
  profile.protocol = reader.text_or("protocol", "");
  profile.task = reader.text_or("task", "");
  if (const json* sets = reader.find("sets")) {
    if (!sets->is_array()) bad_record("field 'sets' should be an array, not " + abbreviated(*sets));
    for (const json& set : *sets) profile.sets.push_back(reader.as_text("sets", set));
  }
  profile.method = reader.object_or_empty("method");
  if (const json* machine = reader.find("machine")) profile.machine = parse_machine(*machine);
  profile.software = reader.object_or_empty("software");
  return profile;
}

}  // namespace lra
