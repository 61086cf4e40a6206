#include "results/records/json_line.h"

#include <fmt/format.h>

#include <string_view>

namespace lra {
namespace {

struct Control {
  uint32_t code = 0;
  size_t bytes = 0;  // of UTF-8; 0 = there is none
};

// The control at the start of a text: of those that JSON itself does not escape, U+007F to U+009F,
// U+202A to U+202E and U+2066 to U+2069.
Control control_at(std::string_view text) {
  const auto byte = [&](size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  if (byte(0) == 0x7f) return {0x7f, 1};
  if (byte(0) == 0xc2 && byte(1) >= 0x80 && byte(1) < 0xa0) return {byte(1), 2};
  if (byte(0) != 0xe2) return {};
  const uint32_t code = 0x2000 | (byte(1) & 0x3f) << 6 | (byte(2) & 0x3f);
  const bool turns = (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
  return turns ? Control{code, 3} : Control{};
}

}  // namespace

std::string json_line(const json& value) {
  return value.dump(-1, ' ', true, json::error_handler_t::replace);
}

std::string json_text(const json& value) {
  const std::string text = value.dump(2, ' ', false, json::error_handler_t::replace);
  std::string safe;
  for (size_t i = 0; i < text.size(); ++i) {
    const Control found = control_at(std::string_view(text).substr(i));
    if (found.bytes == 0) {
      safe += text[i];
    } else {
      safe += fmt::format("\\u{:04x}", found.code);
      i += found.bytes - 1;
    }
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
