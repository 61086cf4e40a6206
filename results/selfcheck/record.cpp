#include "results/selfcheck/record.h"

#include <limits>

#include "results/records/record_fields.h"

namespace lra {
namespace {

template <class Fields, class Record>
void error_fields(Fields& f, Record& error) {
  f("what", error.what);
  f("value", error.value, Presence::nullable);
  f("limit", error.limit);
}

json make_error(const BoundedError& error) {
  RecordWriter writer;
  error_fields(writer, error);
  return writer.object;
}

BoundedError parse_error(const json& value) {
  BoundedError error;
  const RecordReader reader(value, "error");
  error_fields(reader, error);
  return error;
}

template <class Fields, class Record>
void measured_fields(Fields& f, Record& measures) {
  f("length", measures.length);
  f("batch", measures.batch);
  f("core_ms", measures.core_ms);
  f("core_training_ms", measures.core_training_ms);
  f("step_ms", measures.step_ms);
  f("gflops", measures.gflops);
  f("gigabytes_per_second", measures.gigabytes_per_second);
  f("roofline_share", measures.roofline_share);
  f("account_mib", measures.account_mib);
  f("counted_mib", measures.counted_mib);
  f("reserved_mib", measures.reserved_mib);
}

template <class Fields, class Record>
void selfcheck_fields(Fields& f, Record& record) {
  f.schema(kSelfcheckSchema);
  f.part("attention", record.attention, make_attention_record, parse_attention_record);
  f("check", record.check);
  f("status", record.finding);
  f("reason", record.reason, Presence::sparse);
  f.part("error", record.error, make_error, parse_error);
  if (Fields::kReads || !record.measures.empty()) {
    f.group("measures", Presence::sparse,
            [&record](auto& inner) { measured_fields(inner, record.measures); });
  }
  f("device", record.device);
  f("threads", record.threads);
  f("seconds", record.seconds);
  f.part("machine", record.machine, make_machine, parse_machine, Presence::optional);
  f("software", record.software, Presence::optional);
}

}  // namespace

double BoundedError::share() const {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (!value) return kInfinity;
  if (limit > 0) return *value / limit;
  return *value > 0 ? kInfinity : 0;
}

bool SelfcheckMeasures::empty() const {
  RecordWriter writer;
  measured_fields(writer, *this);
  return writer.object.empty();
}

json make_selfcheck(const Selfcheck& record) {
  RecordWriter writer;
  selfcheck_fields(writer, record);
  return writer.object;
}

Selfcheck parse_selfcheck(const json& value) {
  Selfcheck record;
  const RecordReader reader(value, "");
  selfcheck_fields(reader, record);
  return record;
}

}  // namespace lra
