#include "lra/data/byte_tokens.h"

#include <algorithm>

#include "attention_variants/base/text.h"

namespace lra {

std::vector<uint16_t> byte_ids(std::string_view text, size_t limit) {
  text = text.substr(0, limit);
  std::vector<uint16_t> ids(text.size());
  std::ranges::transform(text, ids.begin(), [](char c) {
    return static_cast<uint16_t>(static_cast<unsigned char>(c) + 1);
  });
  return ids;
}

std::string render_bytes(std::span<const uint16_t> ids) {
  std::string bytes;
  for (const uint16_t id : ids) {
    if (id > 0 && id < kByteVocabulary) bytes += static_cast<char>(id - 1);
  }
  return printable(bytes);
}

}  // namespace lra
