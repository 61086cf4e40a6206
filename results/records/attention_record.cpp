#include "results/records/attention_record.h"

#include "results/records/record_fields.h"

namespace lra {

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

}  // namespace lra
