#include "attention_variants/base/text.h"

#include <algorithm>
#include <cstdint>

#include "attention_variants/base/utf8.h"

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

// The number of bytes of the character at the start of `text`; 0 where it is not to be printed as
// it is: malformed, a control or the byte order mark.
size_t character(std::string_view text) {
  constexpr uint32_t kByteOrderMark = 0xfeff;
  const Utf8Point point = decode_utf8(text, 0);
  const bool shown = point.valid && !is_control(point.code) && point.code != kByteOrderMark;
  return shown ? point.bytes : 0;
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

std::string plural(std::string_view noun) {
  const bool hisses =
      noun.ends_with('s') || noun.ends_with('x') || noun.ends_with("ch") || noun.ends_with("sh");
  return std::string(noun) + (hisses ? "es" : "s");
}

}  // namespace lra
