// A protocol's entries for attentions: by which name they know one, and what they give it.
#include <fmt/format.h>

#include <filesystem>
#include <set>

#include "lra/config/protocol.h"
#include "lra/config/protocol_parts.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

// Of the options that say which file an attention is made from, and which class in it.
std::string naming_option(const AttentionSpec& attention, const char* key) {
  const auto it = attention.options.find(key);
  return it != attention.options.end() && it->is_string() ? it->get<std::string>() : "";
}

// One file, from the folder that the program was called in.
bool same_place(const fs::path& one, const fs::path& other) {
  if (one.empty() || other.empty()) return one == other;
  return fs::absolute(one).lexically_normal() == fs::absolute(other).lexically_normal();
}

}  // namespace

bool names_file(const std::string& entry) { return entry.find(':') != std::string::npos; }

AttentionSpec attention_of_entry(const std::string& entry) {
  return names_file(entry) ? parse_attention(entry) : AttentionSpec{.name = entry};
}

void collect_keys(const json& value, const std::string& path, std::set<std::string>& keys) {
  if (!value.is_object()) {
    keys.insert(path);
    return;
  }
  for (const auto& [key, inner] : value.items())
    collect_keys(inner, path.empty() ? key : path + "." + key, keys);
}

std::string entry_key(const Protocol& protocol, const std::string& task_name,
                      const AttentionSpec& attention) {
  if (attention.name.empty()) return "";
  const std::string name = entry_name(attention);
  const json parts = attention_settings(protocol, task_name);
  if (!names_file(name) || parts.contains(name)) return name;
  const std::string file = naming_option(attention, "file");
  std::string alike;
  for (const auto& [key, part] : parts.items()) {
    const AttentionSpec other = attention_of_entry(key);
    if (other.name != attention.name ||
        naming_option(other, "class") != naming_option(attention, "class"))
      continue;
    const std::string theirs = naming_option(other, "file");
    if (same_place(file, theirs)) return key;
    if (fs::path(file).filename() == fs::path(theirs).filename()) alike = key;
  }
  if (alike.empty()) return name;
  throw UsageError(
      fmt::format("protocol {} has an entry for {} on {}, and none for {}, a file of the same name "
                  "elsewhere: name it as the protocol does, or give it an entry of its own",
                  protocol.name, alike, task_name, name));
}

AttentionPart attention_part(const Protocol& protocol, const std::string& task_name,
                             const AttentionSpec& attention) {
  AttentionPart part;
  const json parts = attention_settings(protocol, task_name);
  const std::string key = entry_key(protocol, task_name, attention);
  if (parts.contains(key)) read_fields(parts[key], part, "protocol " + protocol.name);
  return part;
}

std::string plain_name(const std::string& attention) {
  if (attention.empty()) return attention;
  const std::string& form_of = attention_entry(attention).info.released_form_of;
  return form_of.empty() ? attention : form_of;
}

void check_plain_name(const std::string& name, const std::string& place) {
  if (const std::string plain = read_at(place, [&] { return plain_name(name); }); plain != name) {
    throw UsageError(fmt::format("{}: {} is a form of {}, whose entry is read for it: name it {}",
                                 place, name, plain, plain));
  }
}

std::string entry_name(const AttentionSpec& attention) {
  const std::string name = plain_name(attention.name);
  if (runs_by_name(attention.name)) return name;
  AttentionSpec named{.name = name};
  for (const char* key : {"file", "class"}) {
    if (attention.options.contains(key)) named.options[key] = attention.options[key];
  }
  return named.text();
}

std::vector<std::string> entry_settings(const Protocol& protocol, const std::string& task_name,
                                        const AttentionSpec& attention) {
  const AttentionSpec meant = meant_attention(protocol, task_name, attention);
  std::set<std::string> keys;
  const std::string name = plain_name(meant.name);
  collect_keys(protocol.attention_settings.value(name, json::object()), "", keys);
  collect_keys(attention_part(protocol, task_name, meant).settings, "", keys);
  return {keys.begin(), keys.end()};
}

}  // namespace lra
