#include "attention_variants/base/own_file.h"

#include "attention_variants/base/json_text.h"

namespace lra {

std::string text_under(const json& object, const std::string& key, const std::string& where) {
  const auto found = object.find(key);
  if (found == object.end()) return "";
  if (!found->is_string())
    throw Error(where + ": " + key + " should be a string, not " + printable_json(*found));
  return found->get<std::string>();
}

}  // namespace lra
