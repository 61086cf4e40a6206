#include "results/record_fields.h"

namespace lra {

json finite_or_null(double value) { return std::isfinite(value) ? json(value) : json(nullptr); }

json make_interval(const Interval& interval) {
  return json::array({finite_or_null(interval.low), finite_or_null(interval.high)});
}

void put(json& object, const char* name, const std::optional<double>& value) {
  if (value) object[name] = finite_or_null(*value);
}

void put(json& object, const char* name, const std::optional<int64_t>& value) {
  if (value) object[name] = *value;
}

void check_schema(const RecordReader& reader, const char* expected) {
  const std::string schema = reader.text("schema");
  if (schema != expected) {
    bad_record(fmt::format("schema {} is not one that this program reads ({})", shown(json(schema)),
                           expected));
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

json make_time(const ProfileTime& time) {
  json value = {{"median", finite_or_null(time.median)}};
  put(value, "min", time.min);
  put(value, "iqr", time.iqr);
  if (time.ci95) value["ci95"] = make_interval(*time.ci95);
  value["samples"] = json::array();
  for (const double sample : time.samples) value["samples"].push_back(finite_or_null(sample));
  return value;
}

ProfileTime parse_time(const json& value) {
  const RecordReader reader(value, "time_ms");
  ProfileTime time{.median = reader.number("median", 0, kHuge),
                   .min = reader.number_if("min", 0, kHuge),
                   .iqr = reader.number_if("iqr", 0, kHuge),
                   .ci95 = reader.interval_if("ci95", 0, kHuge),
                   .samples = {}};
  if (const json* samples = reader.find("samples")) {
    if (!samples->is_array())
      bad_record("field 'time_ms.samples' should be an array, not " + shown(*samples));
    for (const json& sample : *samples)
      time.samples.push_back(reader.as_number("samples", sample, 0, kHuge));
  }
  return time;
}

json make_memory(const ProfileMemory& memory) {
  json value = {{"peak", finite_or_null(memory.peak)}};
  put(value, "parameters", memory.parameters);
  put(value, "analytic", memory.analytic);
  return value;
}

ProfileMemory parse_memory(const json& value) {
  const RecordReader reader(value, "memory_mib");
  return {.peak = reader.number("peak", 0, kHuge),
          .parameters = reader.number_if("parameters", 0, kHuge),
          .analytic = reader.number_if("analytic", -1, kHuge)};
}

}  // namespace lra
