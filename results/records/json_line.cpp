#include "results/records/json_line.h"

namespace lra {

std::string json_line(const json& value) {
  return value.dump(-1, ' ', true, json::error_handler_t::replace);
}

std::string abbreviated(const json& value) {
  if (value.is_structured()) return value.is_array() ? "an array" : "an object";
  std::string text = json_line(value);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

}  // namespace lra
