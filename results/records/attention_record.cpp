#include "results/records/attention_record.h"

#include "results/records/record_fields.h"

namespace lra {
namespace {

constexpr auto attention_fields = []<class Fields>(Fields& f, auto& attention) {
  f("name", attention.name);
  if constexpr (Fields::kReads) attention.label = attention.name;  // where the record has none
  f("label", attention.label, Presence::optional);
  f("options", attention.options, Presence::optional);
  f("sees_all", attention.sees_all);
};

}  // namespace

json make_attention_record(const AttentionRecord& attention) {
  json record = write_record(attention, attention_fields);
  if (attention.label.empty()) record["label"] = attention.name;
  return record;
}

AttentionRecord parse_attention_record(const json& value) {
  return read_record<AttentionRecord>(value, "attention", attention_fields);
}

}  // namespace lra
