#include "results/records/json_line.h"

#include <fmt/format.h>

#include "attention_variants/base/utf8.h"

namespace lra {

std::string json_line(const json& value) {
  return value.dump(-1, ' ', true, json::error_handler_t::replace);
}

std::string json_text(const json& value) {
  const std::string text = value.dump(2, ' ', false, json::error_handler_t::replace);
  std::string safe;
  for (size_t at = 0; at < text.size();) {
    const Utf8Point point = decode_utf8(text, at);
    if (point.code >= 0x20 && is_control(point.code)) {  // the others JSON escapes itself
      safe += fmt::format("\\u{:04x}", point.code);
    } else {
      safe += text.substr(at, point.bytes);
    }
    at += point.bytes;
  }
  return safe;
}

std::string abbreviated(const json& value) {
  if (value.is_structured()) return value.is_array() ? "an array" : "an object";
  std::string text = json_line(value);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

}  // namespace lra
