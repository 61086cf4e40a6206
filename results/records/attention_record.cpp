#include "results/records/attention_record.h"

#include "results/records/record_fields.h"

namespace lra {
namespace {

template <class Fields, class Record>
void attention_fields(Fields& f, Record& attention) {
  f("name", attention.name);
  f("label", attention.label, Presence::optional);
  f("options", attention.options, Presence::optional);
  f("sees_all", attention.sees_all);
}

}  // namespace

json make_attention_record(const AttentionRecord& attention) {
  RecordWriter writer;
  attention_fields(writer, attention);
  if (attention.label.empty()) writer.object["label"] = attention.name;
  return writer.object;
}

AttentionRecord parse_attention_record(const json& value) {
  AttentionRecord attention;
  const RecordReader reader(value, "attention");
  attention_fields(reader, attention);
  if (reader.find("label") == nullptr) attention.label = attention.name;
  return attention;
}

}  // namespace lra
