// Which variants are this project's: tests register others, and LRA_EXTRA_VARIANTS links a user's.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "attention_variants/registry.h"

namespace lra {

inline bool is_shipped(const std::string& attention) {
  return std::filesystem::exists(LRA_SOURCE_DIR "/attention_variants/variants/" + attention +
                                 ".cpp");
}

/// attention_entries() that are shipped.
inline std::vector<const AttentionEntry*> shipped_attentions() {
  std::vector<const AttentionEntry*> entries = attention_entries();
  std::erase_if(entries, [](const auto* entry) { return !is_shipped(entry->info.name); });
  return entries;
}

}  // namespace lra
