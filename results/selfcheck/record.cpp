#include "results/selfcheck/record.h"

#include <limits>

#include "results/records/record_fields.h"

namespace lra {
namespace {

constexpr auto error_fields = [](auto& f, auto& error) {
  f("what", error.what);
  f("value", error.value, Presence::nullable);
  f("limit", error.limit);
};

json make_error(const BoundedError& error) { return write_record(error, error_fields); }

BoundedError parse_error(const json& value) {
  return read_record<BoundedError>(value, "error", error_fields);
}

constexpr auto measured_fields = [](auto& f, auto& measures) {
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
};

constexpr auto selfcheck_fields = []<class Fields>(Fields& f, auto& record) {
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
};

}  // namespace

double BoundedError::share() const {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (!value) return kInfinity;
  if (limit > 0) return *value / limit;
  return *value > 0 ? kInfinity : 0;
}

bool SelfcheckMeasures::empty() const { return write_record(*this, measured_fields).empty(); }

json make_selfcheck(const Selfcheck& record) { return write_record(record, selfcheck_fields); }

Selfcheck parse_selfcheck(const json& value) {
  return read_record<Selfcheck>(value, "", selfcheck_fields);
}

}  // namespace lra
