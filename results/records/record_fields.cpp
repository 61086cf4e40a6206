#include "results/records/record_fields.h"

namespace lra {

json finite_or_null(double value) { return std::isfinite(value) ? json(value) : json(nullptr); }

json make_interval(const stats::Interval& interval) {
  return json::array({finite_or_null(interval.low), finite_or_null(interval.high)});
}

void set_if(json& object, const char* name, const std::optional<double>& value) {
  if (value) object[name] = finite_or_null(*value);
}

void set_if(json& object, const char* name, const std::optional<int64_t>& value) {
  if (value) object[name] = *value;
}

Status read_status(const RecordReader& reader) {
  return *parse_status(reader.word("status", status_words()));
}

void check_schema(const RecordReader& reader, const char* expected) {
  const std::string schema = reader.text("schema");
  if (schema != expected) {
    bad_record(fmt::format("schema {} is not one that this program reads ({})",
                           abbreviated(json(schema)), expected));
  }
}

}  // namespace lra
