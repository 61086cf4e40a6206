// JSON files that travel inside the program, or stand at a path of the user's.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attention_variants/base/fields.h"

namespace lra {

using EmbeddedFiles = std::span<const std::pair<std::string_view, std::string_view>>;

struct LoadedJson {
  json value;
  std::string where;  // "protocol lra-strict", "protocol file my.json"
};

/// The names of the built-in ones, sorted.
std::vector<std::string> embedded_names(EmbeddedFiles files);

/// Whether this is the path of a file, with '/' or ending in ".json", and no name.
bool is_path(const std::string& name_or_path);

/// A built-in file by name, or one by its path (is_path()). `what` is the kind of thing
/// ("protocol"). Throws UsageError that lists the names and the nearest.
LoadedJson load_named_json(const std::string& what, const std::string& name_or_path,
                           EmbeddedFiles files);

/// The same, of which `file` takes the fields. Throws UsageError where `schema` or `name` is empty.
template <HasFields File>
LoadedJson load_named_json(const std::string& what, const std::string& name_or_path,
                           EmbeddedFiles files, File& file) {
  LoadedJson loaded = load_named_json(what, name_or_path, files);
  read_fields(loaded.value, file, loaded.where);
  if (file.schema.empty() || file.name.empty())
    throw UsageError(loaded.where + R"( should hold "schema": "lra.)" + what +
                     R"(/1" and a "name")");
  return loaded;
}

/// What `read` gives of what stands at `where`, which goes before a UsageError in it: "protocol
/// file p.json: attentions: nystrom: ...".
template <class Read>
auto read_at(const std::string& where, Read read) {
  try {
    return read();
  } catch (const UsageError& error) {
    throw UsageError(where + ": " + error.what());
  }
}

}  // namespace lra
