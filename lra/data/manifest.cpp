#include "lra/data/manifest.h"

#include <algorithm>

#include "attention_variants/base/files.h"
#include "attention_variants/base/json_text.h"
#include "attention_variants/base/text.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

constexpr const char* kAtPositions = "positions";  // of "labels"

// One member of a manifest, of the type of `value`.
template <class T>
void member(const json& object, const char* name, T& value, const std::string& where) {
  const auto it = object.find(name);
  if (it == object.end()) throw Error(where + " has no \"" + name + "\"");
  const auto expect = [&](bool holds, const char* what) {
    if (!holds)
      throw Error(where + ": " + name + " should be " + what + ", not " + printable_json(*it));
  };
  if constexpr (std::is_same_v<T, std::string>) expect(it->is_string(), "a string");
  if constexpr (std::is_same_v<T, bool>) expect(it->is_boolean(), "true or false");
  if constexpr (std::is_same_v<T, json>) expect(it->is_object(), "an object");
  if constexpr (std::is_same_v<T, int64_t>) {
    expect(it->is_number_unsigned() && it->template get<uint64_t>() <= (uint64_t{1} << 40),
           "an integer of at least 0");
  }
  value = it->template get<T>();
}

void only_keys(const json& object, const std::vector<std::string>& names,
               const std::string& where) {
  for (const auto& [key, value] : object.items()) {
    if (std::ranges::find(names, key) != names.end()) continue;
    // A UsageError would be of the command rather than of a file.
    throw Error(unknown_name("key", printable(key, 100), names, where).what());
  }
}

// The keys that need not be there.
void read_explanation(const json& object, Manifest& manifest, const std::string& where) {
  if (object.contains("members")) {
    json members;
    member(object, "members", members, where);
    for (const auto& [key, value] : members.items()) {
      member(members, key.c_str(), manifest.members[key], where + ": members");
    }
  }
  if (object.contains("split")) member(object, "split", manifest.split, where);
  if (!object.contains("notes")) return;
  const json& notes = object["notes"];
  const bool texts = notes.is_array() &&
                     std::ranges::all_of(notes, [](const json& note) { return note.is_string(); });
  if (!texts)
    throw Error(where + ": notes should be an array of strings, not " + printable_json(notes));
  manifest.notes = notes.get<std::vector<std::string>>();
}

}  // namespace

std::string Manifest::fingerprint() const {
  std::string hashes;
  for (const char* name : kSplits) {
    const auto it = splits.find(name);
    if (it != splits.end()) hashes += it->second.sha256;
  }
  return lra::sha256(hashes + reading);
}

Colours Manifest::colours() const {
  return options.value("colours", json()) == to_string(Colours::rgb) ? Colours::rgb : Colours::grey;
}

json Manifest::to_json() const {
  json files = json::object();
  for (const char* name : kSplits) {
    const auto it = splits.find(name);
    if (it == splits.end()) continue;
    files[name] = {
        {"file", it->second.name}, {"sha256", it->second.sha256}, {"count", it->second.count}};
  }
  json object = {{"schema", kDataSchema},
                 {"task", task},
                 {"source", source},
                 {"synthetic", synthetic},
                 {"generator", generator},
                 {"options", options},
                 {"vocabulary", vocabulary},
                 {"classes", classes},
                 {"inputs", inputs},
                 {"splits", files},
                 {"fingerprint", fingerprint()}};
  if (position_labels) object["labels"] = kAtPositions;
  if (!members.empty()) object["members"] = members;
  if (!split.empty()) object["split"] = split;
  if (!notes.empty()) object["notes"] = notes;
  return object;
}

Manifest Manifest::read(const fs::path& path) {
  const json object = read_json(path);
  const std::string where = path.string();
  if (!object.is_object())
    throw Error(where + " should be a JSON object, not " + printable_json(object));
  only_keys(object,
            {"schema", "task", "source", "synthetic", "generator", "options", "vocabulary",
             "classes", "inputs", "labels", "splits", "fingerprint", "members", "split", "notes"},
            where);
  std::string schema, fingerprint;
  member(object, "schema", schema, where);
  if (schema != kDataSchema) {
    throw Error(where + ": schema should be \"" + kDataSchema + "\", not " +
                printable_json(schema));
  }
  Manifest manifest;
  member(object, "task", manifest.task, where);
  member(object, "source", manifest.source, where);
  member(object, "synthetic", manifest.synthetic, where);
  member(object, "generator", manifest.generator, where);
  member(object, "options", manifest.options, where);
  for (const char* name : {"train", "dev", "test", "resolution"}) {  // what programs compute with
    const auto it = manifest.options.find(name);
    if (it != manifest.options.end() && !it->is_number_integer())
      throw Error(where + ": options." + name + " should be an integer, not " +
                  printable_json(*it));
  }
  member(object, "vocabulary", manifest.vocabulary, where);
  member(object, "classes", manifest.classes, where);
  member(object, "inputs", manifest.inputs, where);
  if (manifest.inputs < 1 || manifest.inputs > 16) {
    throw Error(where + ": inputs should be from 1 to 16, not " + std::to_string(manifest.inputs));
  }
  if (object.contains("labels")) {
    std::string labels;
    member(object, "labels", labels, where);
    if (labels != kAtPositions)
      throw Error(where + ": labels should be \"" + kAtPositions + "\" where it is there, not " +
                  printable_json(labels));
    manifest.position_labels = true;
  }
  json files;
  member(object, "splits", files, where);
  only_keys(files, {std::begin(kSplits), std::end(kSplits)}, where + ": splits");
  for (const std::string name : kSplits) {
    json entry;
    member(files, name.c_str(), entry, where + ": splits");
    only_keys(entry, {"file", "sha256", "count"}, where + ": splits." + name);
    File& file = manifest.splits[name];
    member(entry, "file", file.name, where + ": splits." + name);
    member(entry, "sha256", file.sha256, where + ": splits." + name);
    member(entry, "count", file.count, where + ": splits." + name);
    if (file.name != name + ".safetensors") {  // never a path out of the folder
      throw Error(where + ": splits." + name + ".file should be \"" + name +
                  ".safetensors\", not " + printable_json(file.name));
    }
  }
  read_explanation(object, manifest, where);
  member(object, "fingerprint", fingerprint, where);
  if (fingerprint != manifest.fingerprint()) {
    throw Error(where + ": fingerprint should be " + manifest.fingerprint() +
                " by its hashes, not " + printable(fingerprint, 100));
  }
  return manifest;
}

}  // namespace lra
