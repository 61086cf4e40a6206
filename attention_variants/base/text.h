// Text as LRA's byte-level tasks see it: the id of a byte is its value + 1, 0 is padding.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lra {

inline constexpr int64_t kByteVocabulary = 257;

/// The ids of the first `limit` bytes.
std::vector<uint16_t> byte_ids(std::string_view text, size_t limit = std::string_view::npos);

/// The text of such ids to look at: UTF-8 as it is; controls and what is no UTF-8 as "\n", "\x93".
std::string render_bytes(std::span<const uint16_t> ids);

/// Text of unknown origin for a message: one line of UTF-8, in which controls and what is no UTF-8
/// stand as "\n", "\x93"; of more than `limit` bytes the first ones and "...".
std::string printable(std::string_view text, size_t limit = std::string_view::npos);

/// Without the white space of ASCII at both ends, as Python's bytes.strip().
std::string_view strip(std::string_view text);

/// As Python writes bytes: b'...', or b"..." where there are single quotes alone, with what is not
/// printable ASCII escaped.
std::string bytes_literal(std::string_view text);

}  // namespace lra
