// Characters of UTF-8 text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lra {

struct Utf8Point {
  uint32_t code = 0;
  size_t bytes = 1;
  bool valid = false;
};

/// Decodes the character at `at`; what is malformed is one byte that is not valid.
Utf8Point decode_utf8(std::string_view text, size_t at);

/// Whether a terminal obeys a character rather than showing it: C0, DEL and C1, line and paragraph
/// separators, and the marks that reorder text, which would let a name pass for another.
bool is_control(uint32_t code);

/// Whether all of a text is well-formed.
bool is_utf8(std::string_view text);

}  // namespace lra
