// Bytes of unknown origin as readable text, and as Python writes them; lists of words;
// counts of nouns; numbers.
#pragma once

#include <charconv>
#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace lra {

/// Text of unknown origin for a message: one line of UTF-8, in which controls, those of the
/// direction of writing too (U+202A to U+202E, U+2066 to U+2069), and what is no UTF-8 stand as
/// "\n", "\x93"; of more than `limit` bytes the first ones and "...".
std::string printable(std::string_view text, size_t limit = std::string_view::npos);

/// The first `most` bytes of UTF-8, fewer where they end within a character; all where it has no
/// more.
std::string_view cut_text(std::string_view text, size_t most);

/// Without the white space of ASCII at both ends, as Python's bytes.strip().
std::string_view strip(std::string_view text);

/// The pieces between the commas that stand outside square brackets; an empty piece stays, for the
/// caller to refuse.
std::vector<std::string> split_at_commas(std::string_view text);

/// As Python writes bytes: b'...', or b"..." where there are single quotes alone, with what is not
/// printable ASCII escaped.
std::string bytes_literal(std::string_view text);

/// Of a regular noun: "seeds", and "es" after s, x, ch and sh: "passes". Of several words the last
/// is the noun: "earlier cells". Not for others, as "epoch" or "entry".
std::string plural(std::string_view noun);

/// The noun for so many, where their number stands elsewhere or not at all: "seed" for 1, "seeds"
/// for 0, 2 and more, as in "seeds 0, 1, 2".
std::string plural(std::string_view noun, std::integral auto count) {
  return count == 1 ? std::string(noun) : plural(noun);
}

/// A number and its noun: "0 seeds", "1 seed", "2 passes".
std::string count_text(std::integral auto count, std::string_view noun) {
  return std::to_string(count) + " " + plural(noun, count);
}

/// The number that the text is, all of it, as std::from_chars reads it; none where it is not.
template <class Number>
std::optional<Number> whole_number(std::string_view text) {
  Number value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

}  // namespace lra
