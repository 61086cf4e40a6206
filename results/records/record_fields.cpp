#include "results/records/record_fields.h"

namespace lra {

json finite_or_null(double value) { return std::isfinite(value) ? json(value) : json(nullptr); }

json make_interval(const Interval& interval) {
  return json::array({finite_or_null(interval.low), finite_or_null(interval.high)});
}

void set_if(json& object, const char* name, const std::optional<double>& value) {
  if (value) object[name] = finite_or_null(*value);
}

void set_if(json& object, const char* name, const std::optional<int64_t>& value) {
  if (value) object[name] = *value;
}

void check_schema(const RecordReader& reader, const char* expected) {
  const std::string schema = reader.text("schema");
  if (schema != expected) {
    bad_record(fmt::format("schema {} is not one that this program reads ({})",
                           abbreviated(json(schema)), expected));
  }
}

json make_attention_record(const AttentionRecord& attention) {
  return {{"name", attention.name},
          {"label", attention.label.empty() ? attention.name : attention.label},
          {"options", attention.options}};
}

AttentionRecord parse_attention_record(const json& value) {
  const RecordReader reader(value, "attention");
  AttentionRecord attention;
  attention.name = reader.text("name");
  attention.label = reader.text_or("label", attention.name);
  attention.options = reader.object_or_empty("options");
  return attention;
}

namespace {

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
    pass.reference = Interval{reader.as_number("reference_ms", (*reference)[0], 0, kHuge),
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

}  // namespace lra
