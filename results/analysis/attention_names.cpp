#include "results/analysis/attention_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "attention_variants/base/files.h"
#include "results/records/json_line.h"

namespace lra {
namespace {

constexpr const char* kFileOption = "file";

// As it stands in the name of a row.
std::string option_text(const std::string& key, const json& value) {
  constexpr size_t kDigits = 8;
  if (!key.ends_with("sha256")) return json_line(value);
  return (value.is_string() ? value.get<std::string>() : sha256(json_line(value)))
      .substr(0, kDigits);
}

// The hash of the file that an attention is made from, and the file as it was named; "" where it is
// made from none.
std::pair<std::string, std::string> source_of(const AttentionRecord& attention) {
  const auto text = [&](const char* key) {
    const auto it = attention.options.find(key);
    return it != attention.options.end() && it->is_string() ? it->get<std::string>() : "";
  };
  return {text("sha256"), text(kFileOption)};
}

}  // namespace

FileNames shortest_names(std::span<const AttentionRecord* const> attentions) {
  FileNames files;
  for (const AttentionRecord* attention : attentions) {
    const auto [hash, file] = source_of(*attention);
    if (hash.empty() || file.empty()) continue;
    std::string& known = files.try_emplace(hash, file).first->second;
    if (std::pair(file.size(), file) < std::pair(known.size(), known)) known = file;
  }
  return files;
}

AttentionRecord with_file_name(AttentionRecord attention, const FileNames& files) {
  const auto [hash, file] = source_of(attention);
  const auto known = files.find(hash);
  if (known == files.end() || file.empty()) return attention;
  attention.options[kFileOption] = known->second;
  if (const size_t at = attention.label.find(file); at != std::string::npos)
    attention.label.replace(at, file.size(), known->second);
  return attention;
}

std::string source_hashes(const AttentionRecord& attention) {
  std::string hashes;
  for (const auto& [key, value] : attention.options.items()) {
    if (key.ends_with("sha256")) hashes += key + json_line(value);
  }
  return hashes;
}

std::vector<std::string> differing_options(const json& options,
                                           std::span<const json* const> others) {
  std::vector<std::string> differing;
  for (const auto& [key, value] : options.items()) {
    const auto same = [&key = key, &value = value](const json* theirs) {
      const auto it = theirs->find(key);
      return it != theirs->end() && *it == value;
    };
    if (!std::ranges::all_of(others, same))
      differing.push_back(fmt::format("{}={}", key, option_text(key, value)));
  }
  return differing;
}

std::string name_with(const std::string& label, const std::vector<std::string>& differing) {
  return differing.empty() ? label : fmt::format("{} {{{}}}", label, fmt::join(differing, ", "));
}

}  // namespace lra
