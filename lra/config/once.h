// Lists in which everything stands once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "attention_variants/registry.h"

namespace lra {

/// Throws UsageError where a list of names, or of numbers, has one twice. `option` is where the
/// list stands, "--lengths" or "preset file p.json: lengths".
void check_once(const std::string& option, const std::vector<std::string>& names);
void check_once(const std::string& option, const std::vector<int64_t>& numbers);
void check_once(const std::string& option, const std::vector<uint64_t>& numbers);
/// The same of attentions, by how they are named.
void check_once(const std::string& option, const std::vector<AttentionSpec>& attentions);

}  // namespace lra
