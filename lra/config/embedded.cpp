#include "lra/config/embedded.h"

#include <algorithm>
#include <filesystem>

#include "attention_variants/base/files.h"

namespace lra {

std::vector<std::string> embedded_names(EmbeddedFiles files) {
  std::vector<std::string> names;
  for (const auto& [stem, text] : files) names.emplace_back(stem);
  std::ranges::sort(names);
  return names;
}

bool is_path(const std::string& name_or_path) {
  return name_or_path.find('/') != std::string::npos || name_or_path.ends_with(".json");
}

LoadedJson load_named_json(const std::string& what, const std::string& name_or_path,
                           EmbeddedFiles files) {
  if (is_path(name_or_path)) {
    if (!std::filesystem::exists(name_or_path)) {
      throw UsageError(what + " file " + name_or_path +
                       " does not exist; the built-in ones are named without a path");
    }
    return {read_json(name_or_path), what + " file " + name_or_path};
  }
  for (const auto& [stem, text] : files) {
    if (stem == name_or_path) return {json::parse(text), what + " " + name_or_path};
  }
  throw unknown_name(what, name_or_path, embedded_names(files));
}

}  // namespace lra
