#include "lra/data/prepared.h"

#include <fmt/format.h>

#include <initializer_list>

#include "attention_variants/base/files.h"
#include "attention_variants/base/json_text.h"
#include "attention_variants/base/shell.h"
#include "attention_variants/base/text.h"
#include "lra/data/task.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

void check_hash_of(const fs::path& path, const std::string& expected) {
  const std::string found = sha256_file(path);
  if (found != expected) {
    throw Error(path.string() + " has SHA-256 " + found + ", but its manifest says " +
                printable(expected, 100) + ": it was changed or damaged; remove " +
                path.parent_path().string() + " and prepare it again");
  }
}

// What of two manifests differs, some keys aside: "options.seed is 1 there and 2 here", or "".
std::string difference(json there, json here, std::initializer_list<const char*> aside) {
  for (json* manifest : {&there, &here}) {
    for (const char* key : aside) manifest->erase(key);
  }
  const std::vector<JsonDifference> all = json_differences(there, here);
  if (all.empty()) return "";
  const auto text = [](const std::optional<json>& value) {
    return value ? printable_json(*value) : "not set";
  };
  return printable(all.front().path, 100) + " is " + text(all.front().left) + " there and " +
         text(all.front().right) + " here";
}

// What `--source` takes of a task; "" where it can be generated, or there is no such task.
std::string source_of(const std::string& name) {
  for (const Task* known : tasks()) {
    if (known->name == name) return known->source;
  }
  return "";
}

[[noreturn]] void refuse(const fs::path& folder, const std::string& reason) {
  throw Error(folder.string() + " " + reason + "; choose another --out or remove that folder");
}

// Whether DIR/<task> holds data whose manifest is this one, some keys aside.
bool holds_data(const fs::path& directory, const Manifest& manifest,
                std::initializer_list<const char*> aside) {
  const fs::path folder = directory / manifest.task;
  check_in_the_way(directory, manifest.task);
  if (!fs::exists(folder / kManifestFile)) return false;
  const Manifest there = Manifest::read(folder / kManifestFile);
  const std::string differs = difference(there.to_json(), manifest.to_json(), aside);
  if (!differs.empty()) refuse(folder, "already holds other data: " + differs);
  for (const auto& [name, file] : there.splits) check_hash_of(folder / file.name, file.sha256);
  return true;
}

}  // namespace

std::string folder_above(const fs::path& directory, const std::string& task) {
  if (directory.empty()) return "";
  try {
    if (Manifest::read(directory / kManifestFile).task != task) return "";
  } catch (const Error&) {
    return "";
  }
  const fs::path whole = fs::absolute(directory / "").lexically_normal().parent_path();
  if (whole.filename() != task) return "";
  const fs::path given = directory.has_filename() ? directory : directory.parent_path();
  const std::string above =
      given.has_parent_path() ? given.parent_path().string() : whole.parent_path().string();
  return fmt::format("{} is the folder of {} itself; give the one that it lies in: --data {}",
                     directory.string(), task, above);
}

PreparedData::PreparedData(const fs::path& directory, const std::string& task, bool check_hashes,
                           OpenedSplits opened)
    : folder_(directory / task) {
  const fs::path& folder = folder_;
  if (!fs::exists(folder / kManifestFile)) {
    if (const std::string above = folder_above(directory, task); !above.empty()) throw Error(above);
    const std::string source = source_of(task);
    throw Error("no prepared data in " + folder.string() + "; make it with: lra data prepare " +
                task + (source.empty() ? "" : " --source SOURCE") + " --out " +
                shell_word(directory.string()) + (source.empty() ? "" : "; SOURCE: " + source));
  }
  manifest_ = Manifest::read(folder / kManifestFile);
  if (manifest_.task != task) {
    throw Error((folder / kManifestFile).string() + " is of task '" +
                printable(manifest_.task, 100) + "', not '" + task + "'");
  }
  for (const auto& [name, file] : manifest_.splits) {
    if (opened == OpenedSplits::all_but_test && name == "test") continue;
    const fs::path path = folder / file.name;
    if (check_hashes) check_hash_of(path, file.sha256);
    const Split split(path, manifest_.inputs, manifest_.classes, manifest_.vocabulary);
    if (split.size() != file.count) {
      throw Error(path.string() + " holds " + std::to_string(split.size()) +
                  " samples, but its manifest says " + std::to_string(file.count));
    }
    if (split.has_position_labels() != manifest_.position_labels) {
      const auto text = [](bool at_positions) {
        return at_positions ? "labels at positions" : "a label a sample";
      };
      throw Error(fmt::format("{} has {}, but its manifest says {}", path.string(),
                              text(split.has_position_labels()), text(manifest_.position_labels)));
    }
    splits_[name] = split;
  }
}

const Split& PreparedData::split(const std::string& name) const {
  const auto it = splits_.find(name);
  if (it != splits_.end()) return it->second;
  if (manifest_.splits.contains(name))
    throw Error("the " + name + " split of " + manifest_.task +
                " was not opened, as nothing is to be tested (evaluation.test false)");
  throw unknown_name("split", name, {std::begin(kSplits), std::end(kSplits)});
}

void PreparedData::check_hash(const std::string& name) const {
  const auto it = manifest_.splits.find(name);
  if (it != manifest_.splits.end()) check_hash_of(folder_ / it->second.name, it->second.sha256);
}

void PreparedData::read_by(const IdMap& map) {
  for (auto& [name, split] : splits_) split = split.mapped(map.ids);
  manifest_.vocabulary = map.vocabulary;
  manifest_.reading = map.name;
  manifest_.source += ", " + map.name;
}

void check_in_the_way(const fs::path& directory, const std::string& task) {
  const fs::path folder = directory / task;
  if (!fs::exists(folder)) return;
  if (!fs::is_directory(folder)) refuse(folder, "is in the way: it is no folder");
  if (!fs::exists(folder / kManifestFile) && !fs::is_empty(folder))
    refuse(folder, "exists and holds no prepared data");
}

bool already_prepared(const fs::path& directory, const Manifest& manifest) {
  return holds_data(directory, manifest, {"splits", "fingerprint", "members", "split", "notes"});
}

void write_prepared(const fs::path& directory, Manifest manifest,
                    const std::map<std::string, SplitWriter>& splits) {
  const fs::path target = directory / manifest.task;
  // The same data may come from a file of another name: their fingerprint decides, below.
  const bool exists = holds_data(directory, manifest,
                                 {"splits", "fingerprint", "source", "members", "split", "notes"});
  AtomicFolder folder(target);
  for (const std::string name : kSplits) {
    const auto it = splits.find(name);
    if (it == splits.end()) throw Error("prepared data needs a split '" + name + "'");
    const fs::path path = folder.path() / (name + ".safetensors");
    it->second.write(path, manifest.vocabulary);
    manifest.splits[name] = {path.filename().string(), sha256_file(path), it->second.size()};
    // Read back once: what cannot be opened must not be called prepared.
    const Split check(path, manifest.inputs, manifest.classes, manifest.vocabulary);
  }
  if (exists) {
    const std::string there = Manifest::read(target / kManifestFile).fingerprint();
    if (there == manifest.fingerprint()) return;
    refuse(target, "already holds other data: its fingerprint is " + there + ", not " +
                       manifest.fingerprint());
  }
  write_json(folder.path() / kManifestFile, manifest.to_json());
  folder.commit();
}

}  // namespace lra
