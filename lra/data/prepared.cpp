#include "lra/data/prepared.h"

#include <algorithm>
#include <limits>

#include "attention_variants/base/files.h"
#include "attention_variants/base/json_text.h"
#include "attention_variants/base/text.h"
#include "lra/formats/safetensors.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSchema = "lra.data/1";

const torch::Tensor& column(const TensorFile& file, const std::string& name, const fs::path& path,
                            std::initializer_list<torch::ScalarType> types) {
  const torch::Tensor* tensor = file.find(name);
  if (tensor == nullptr)
    throw Error(path.string() + " has no tensor '" + name + "': no split file");
  if (tensor->dim() != 1 || std::ranges::find(types, tensor->scalar_type()) == types.end()) {
    throw Error(path.string() + ": '" + name + "' should be a list of " +
                torch::toString(*types.begin()) + ", not " +
                torch::toString(tensor->scalar_type()) + " of " + std::to_string(tensor->dim()) +
                " dimensions");
  }
  return *tensor;
}

int64_t highest_id(const torch::Tensor& tokens) {
  const auto top = [&]<class T>(const T* ids) {
    T highest = 0;
    for (int64_t i = 0; i < tokens.numel(); ++i) highest = std::max(highest, ids[i]);
    return static_cast<int64_t>(highest);
  };
  return tokens.scalar_type() == torch::kUInt8 ? top(tokens.const_data_ptr<uint8_t>())
                                               : top(tokens.const_data_ptr<uint16_t>());
}

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

void check_hash(const fs::path& path, const std::string& expected) {
  const std::string found = sha256_file(path);
  if (found != expected) {
    throw Error(path.string() + " has SHA-256 " + found + ", but its manifest says " +
                printable(expected, 100) + ": it was changed or damaged; remove " +
                path.parent_path().string() + " and prepare it again");
  }
}

// What of two manifests differs, the files aside: "options.seed is 1 there and 2 here", or "".
std::string difference(json there, json here) {
  for (json* manifest : {&there, &here}) {
    manifest->erase("splits");
    manifest->erase("fingerprint");
  }
  const std::vector<JsonDifference> all = json_differences(there, here);
  if (all.empty()) return "";
  const auto text = [](const std::optional<json>& value) {
    return value ? printable_json(*value) : "not set";
  };
  return printable(all.front().path, 100) + " is " + text(all.front().left) + " there and " +
         text(all.front().right) + " here";
}

[[noreturn]] void refuse(const fs::path& folder, const std::string& reason) {
  throw Error(folder.string() + " " + reason + "; choose another --out or remove that folder");
}

}  // namespace

Split::Split(const fs::path& path, int64_t inputs, int64_t classes, int64_t vocabulary)
    : inputs_(inputs) {
  const TensorFile file = read_tensors(path);
  tokens_ = column(file, "tokens", path, {torch::kUInt8, torch::kUInt16});
  offsets_tensor_ = column(file, "offsets", path, {torch::kInt64});
  labels_tensor_ = column(file, "labels", path, {torch::kInt64});
  if (file.tensors.size() != 3) {
    throw Error(path.string() + " should hold tokens, offsets and labels alone");
  }
  count_ = labels_tensor_.numel();
  offsets_ = offsets_tensor_.const_data_ptr<int64_t>();
  labels_ = labels_tensor_.const_data_ptr<int64_t>();
  const int64_t sequences = count_ * inputs;
  if (offsets_tensor_.numel() != sequences + 1) {
    throw Error(path.string() + ": " + std::to_string(count_) + " labels of " +
                std::to_string(inputs) + " inputs need " + std::to_string(sequences + 1) +
                " offsets, not " + std::to_string(offsets_tensor_.numel()));
  }
  if (offsets_[0] != 0 || offsets_[sequences] != tokens_.numel() ||
      !std::is_sorted(offsets_, offsets_ + sequences + 1)) {
    throw Error(path.string() + ": offsets should ascend from 0 to " +
                std::to_string(tokens_.numel()));
  }
  for (int64_t i = 0; i < count_; ++i) {
    if (labels_[i] < 0 || labels_[i] >= classes) {
      throw Error(path.string() + ": label of sample " + std::to_string(i) +
                  " should be from 0 to " + std::to_string(classes - 1) + ", not " +
                  std::to_string(labels_[i]));
    }
  }
  if (const int64_t id = highest_id(tokens_); id >= vocabulary) {
    throw Error(path.string() + ": token ids should be below " + std::to_string(vocabulary) +
                ", but there is " + std::to_string(id));
  }
}

int64_t Split::length(int64_t index, int64_t input) const {
  const int64_t* offset = offsets_ + index * inputs_ + input;
  return offset[1] - offset[0];
}

int64_t Split::copy(int64_t index, int64_t input, int64_t limit, int64_t* out) const {
  const int64_t begin = offsets_[index * inputs_ + input];
  const int64_t count = std::min(limit, length(index, input));
  if (tokens_.scalar_type() == torch::kUInt8) {
    std::copy_n(tokens_.const_data_ptr<uint8_t>() + begin, count, out);
  } else {
    std::copy_n(tokens_.const_data_ptr<uint16_t>() + begin, count, out);
  }
  return count;
}

void SplitWriter::tokens(std::span<const uint16_t> ids) {
  if (wide_.empty() && std::ranges::all_of(ids, [](uint16_t id) { return id < 256; })) {
    narrow_.insert(narrow_.end(), ids.begin(), ids.end());
  } else {
    widen();
    wide_.insert(wide_.end(), ids.begin(), ids.end());
  }
  offsets_.push_back(offsets_.back() + static_cast<int64_t>(ids.size()));
}

void SplitWriter::tokens(std::span<const uint8_t> ids) {
  if (wide_.empty()) {
    narrow_.insert(narrow_.end(), ids.begin(), ids.end());
  } else {
    wide_.insert(wide_.end(), ids.begin(), ids.end());
  }
  offsets_.push_back(offsets_.back() + static_cast<int64_t>(ids.size()));
}

void SplitWriter::widen() {
  wide_.insert(wide_.end(), narrow_.begin(), narrow_.end());
  narrow_ = {};
}

void SplitWriter::label(int64_t label) {
  labels_.push_back(label);
  if (offsets_.size() != labels_.size() * static_cast<size_t>(inputs_) + 1) {
    throw Error("a sample needs " + std::to_string(inputs_) + " calls of tokens() before label()");
  }
}

void SplitWriter::write(const fs::path& path, int64_t vocabulary) const {
  const int64_t highest =
      std::max<int64_t>(narrow_.empty() ? 0 : *std::ranges::max_element(narrow_),
                        wide_.empty() ? 0 : *std::ranges::max_element(wide_));
  if (offsets_.back() > 0 && highest >= vocabulary) {
    throw Error("cannot write " + path.string() + ": token id " + std::to_string(highest) +
                " is not below the vocabulary's " + std::to_string(vocabulary));
  }
  // from_blob takes pointers to non-const; write_tensors() only reads.
  const auto list = [](const auto& values, torch::ScalarType type) {
    return torch::from_blob(const_cast<void*>(static_cast<const void*>(values.data())),
                            {static_cast<int64_t>(values.size())}, type);
  };
  torch::Tensor tokens = wide_.empty() ? list(narrow_, torch::kUInt8) : list(wide_, torch::kUInt16);
  if (vocabulary > 256) tokens = tokens.to(torch::kUInt16);
  write_tensors(path, {.tensors = {{"tokens", tokens},
                                   {"offsets", list(offsets_, torch::kInt64)},
                                   {"labels", list(labels_, torch::kInt64)}},
                       .metadata = {}});
}

std::string Manifest::fingerprint() const {
  std::string hashes;
  for (const char* split : kSplits) {
    const auto it = splits.find(split);
    if (it != splits.end()) hashes += it->second.sha256;
  }
  return lra::sha256(hashes);
}

json Manifest::to_json() const {
  json files = json::object();
  for (const char* split : kSplits) {
    const auto it = splits.find(split);
    if (it == splits.end()) continue;
    files[split] = {
        {"file", it->second.name}, {"sha256", it->second.sha256}, {"count", it->second.count}};
  }
  return {{"schema", kSchema},
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
}

Manifest Manifest::read(const fs::path& path) {
  const json object = read_json(path);
  const std::string where = path.string();
  if (!object.is_object())
    throw Error(where + " should be a JSON object, not " + printable_json(object));
  only_keys(object,
            {"schema", "task", "source", "synthetic", "generator", "options", "vocabulary",
             "classes", "inputs", "splits", "fingerprint"},
            where);
  std::string schema, fingerprint;
  member(object, "schema", schema, where);
  if (schema != kSchema) {
    throw Error(where + ": schema should be \"" + kSchema + "\", not " + printable_json(schema));
  }
  Manifest manifest;
  member(object, "task", manifest.task, where);
  member(object, "source", manifest.source, where);
  member(object, "synthetic", manifest.synthetic, where);
  member(object, "generator", manifest.generator, where);
  member(object, "options", manifest.options, where);
  member(object, "vocabulary", manifest.vocabulary, where);
  member(object, "classes", manifest.classes, where);
  member(object, "inputs", manifest.inputs, where);
  if (manifest.inputs < 1 || manifest.inputs > 16) {
    throw Error(where + ": inputs should be from 1 to 16, not " + std::to_string(manifest.inputs));
  }
  json files;
  member(object, "splits", files, where);
  only_keys(files, {std::begin(kSplits), std::end(kSplits)}, where + ": splits");
  for (const std::string split : kSplits) {
    json entry;
    member(files, split.c_str(), entry, where + ": splits");
    only_keys(entry, {"file", "sha256", "count"}, where + ": splits." + split);
    File& file = manifest.splits[split];
    member(entry, "file", file.name, where + ": splits." + split);
    member(entry, "sha256", file.sha256, where + ": splits." + split);
    member(entry, "count", file.count, where + ": splits." + split);
    if (file.name != split + ".safetensors") {  // never a path out of the folder
      throw Error(where + ": splits." + split + ".file should be \"" + split +
                  ".safetensors\", not " + printable_json(file.name));
    }
  }
  member(object, "fingerprint", fingerprint, where);
  if (fingerprint != manifest.fingerprint()) {
    throw Error(where + ": fingerprint should be " + manifest.fingerprint() +
                " by its hashes, not " + printable(fingerprint, 100));
  }
  return manifest;
}

PreparedData::PreparedData(const fs::path& directory, const std::string& task, bool check_hashes) {
  const fs::path folder = directory / task;
  if (!fs::exists(folder / "manifest.json")) {
    throw Error("no prepared data in " + folder.string() + "; make it with: lra data prepare " +
                task + " --out " + directory.string());
  }
  manifest_ = Manifest::read(folder / "manifest.json");
  if (manifest_.task != task) {
    throw Error((folder / "manifest.json").string() + " is of task '" +
                printable(manifest_.task, 100) + "', not '" + task + "'");
  }
  for (const auto& [name, file] : manifest_.splits) {
    const fs::path path = folder / file.name;
    if (check_hashes) check_hash(path, file.sha256);
    const Split split(path, manifest_.inputs, manifest_.classes, manifest_.vocabulary);
    if (split.size() != file.count) {
      throw Error(path.string() + " holds " + std::to_string(split.size()) +
                  " samples, but its manifest says " + std::to_string(file.count));
    }
    splits_[name] = split;
  }
}

const Split& PreparedData::split(const std::string& name) const {
  const auto it = splits_.find(name);
  if (it != splits_.end()) return it->second;
  throw unknown_name("split", name, {std::begin(kSplits), std::end(kSplits)});
}

bool already_prepared(const fs::path& directory, const Manifest& manifest) {
  const fs::path folder = directory / manifest.task;
  if (!fs::exists(folder)) return false;
  if (!fs::is_directory(folder)) refuse(folder, "is in the way: it is no folder");
  if (!fs::exists(folder / "manifest.json")) {
    if (fs::is_empty(folder)) return false;
    refuse(folder, "exists and holds no prepared data");
  }
  const Manifest there = Manifest::read(folder / "manifest.json");
  const std::string differs = difference(there.to_json(), manifest.to_json());
  if (!differs.empty()) refuse(folder, "already holds other data: " + differs);
  for (const auto& [name, file] : there.splits) check_hash(folder / file.name, file.sha256);
  return true;
}

void write_prepared(const fs::path& directory, Manifest manifest,
                    const std::map<std::string, SplitWriter>& splits) {
  const fs::path target = directory / manifest.task;
  const bool exists = already_prepared(directory, manifest);
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
    const std::string there = Manifest::read(target / "manifest.json").fingerprint();
    if (there == manifest.fingerprint()) return;
    refuse(target, "already holds other data: its fingerprint is " + there + ", not " +
                       manifest.fingerprint());
  }
  write_json(folder.path() / "manifest.json", manifest.to_json());
  folder.commit();
}

}  // namespace lra
