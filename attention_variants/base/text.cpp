#include "attention_variants/base/text.h"

#include <algorithm>
#include <cstdint>

namespace lra {
namespace {

std::string hexadecimal(unsigned char byte) {
  constexpr char kDigits[] = "0123456789abcdef";
  return {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
}

// "\n", "\r", "\t", or "\x07".
std::string escaped(unsigned char byte) {
  switch (byte) {
    case '\t':
      return "\\t";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    default:
      return hexadecimal(byte);
  }
}

bool is_printable(unsigned char byte) { return byte >= 0x20 && byte < 0x7f; }

// Controls that reorder the text after them on a terminal.
bool is_bidirectional_control(uint32_t code) {
  return (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

// The number of bytes of the UTF-8 character at the start of `text`; 0 where there is none, or one
// of the controls from 0x80 to 0x9f, which terminals obey, or of the direction of writing.
size_t character(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return is_printable(first) ? 1 : 0;
  const size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 0;
  if (size == 0 || first > 0xf4 || text.size() < size) return 0;
  uint32_t code = first & (0x7fu >> size);
  for (size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3f);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0xa0, 0x800, 0x10000};
  constexpr uint32_t kByteOrderMark = 0xfeff;
  if (code == kByteOrderMark || code < kLeast[size] || code > 0x10ffff ||
      (code >= 0xd800 && code < 0xe000) || is_bidirectional_control(code)) {
    return 0;
  }
  return size;
}

}  // namespace

std::string printable(std::string_view text, size_t limit) {
  std::string result;
  for (std::string_view rest = text; !rest.empty();) {
    const size_t size = std::max<size_t>(character(rest), 1);
    if (text.size() - rest.size() + size > limit) return result + "...";
    if (character(rest) == 0) {
      result += escaped(static_cast<unsigned char>(rest.front()));
    } else {
      result += rest.substr(0, size);
    }
    rest.remove_prefix(size);
  }
  return result;
}

std::string_view cut_text(std::string_view text, size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xC0) == 0x80) --most;
  return text.substr(0, most);
}

std::string_view strip(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\r\v\f";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

std::vector<std::string> split_at_commas(std::string_view text) {
  std::vector<std::string> pieces(1);
  int depth = 0;
  for (const char c : text) {
    if (c == '[') ++depth;
    if (c == ']') --depth;
    if (c == ',' && depth == 0) {
      pieces.emplace_back();
    } else {
      pieces.back() += c;
    }
  }
  return pieces;
}

std::string bytes_literal(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos,
             has_double = text.find('"') != std::string_view::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  std::string literal = {'b', quote};
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == quote || c == '\\') {
      literal += {'\\', c};
    } else if (is_printable(byte)) {
      literal += c;
    } else {
      literal += escaped(byte);
    }
  }
  return literal += quote;
}

}  // namespace lra
