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

}  // namespace lra
