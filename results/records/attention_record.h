// Which attention a record is of.
#pragma once

#include <optional>
#include <string>

#include "attention_variants/base/fields.h"

namespace lra {

struct AttentionRecord {
  std::string name;  // "nystrom"
  // As the user named it: "nystrom[num_landmarks=32]"; absent in a file: the name.
  std::string label;
  json options = json::object();  // every effective option
  // At the length of these inputs it is softmax attention over all positions; empty: not so.
  std::optional<bool> sees_all = {};
};

json make_attention_record(const AttentionRecord& attention);
AttentionRecord parse_attention_record(const json& value);

}  // namespace lra
