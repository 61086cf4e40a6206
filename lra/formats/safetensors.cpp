#include "lra/formats/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <set>

#include "attention_variants/base/json_text.h"
#include "attention_variants/base/mapped_file.h"
#include "attention_variants/base/text.h"

namespace lra {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

constexpr size_t kLongestTensorName = 200;    // bytes of a tensor's name in a message
constexpr uint64_t kMaxHeader = 100'000'000;  // the limit of the reference implementation

struct Type {
  const char* name;
  torch::ScalarType scalar;
};
constexpr Type kTypes[] = {
    {"BOOL", torch::kBool}, {"U8", torch::kUInt8},    {"U16", torch::kUInt16},
    {"I8", torch::kInt8},   {"I16", torch::kInt16},   {"I32", torch::kInt32},
    {"I64", torch::kInt64}, {"F16", torch::kFloat16}, {"BF16", torch::kBFloat16},
    {"F32", torch::kFloat}, {"F64", torch::kDouble},
};

std::string type_names() {
  std::string names;
  for (const Type& type : kTypes) names += (names.empty() ? "" : ", ") + std::string(type.name);
  return names;
}

struct Entry {
  std::string name;
  torch::ScalarType type;
  std::vector<int64_t> shape;
  uint64_t begin = 0, end = 0;  // bytes from the start of the data
};

std::vector<uint64_t> unsigned_list(const json& entry, const char* key, const std::string& where) {
  const auto it = entry.find(key);
  if (it == entry.end()) throw Error(where + " has no \"" + key + "\"");
  if (!it->is_array())
    throw Error(where + ": \"" + key + "\" should be a list, not " + printable_json(*it));
  std::vector<uint64_t> values;
  for (const json& value : *it) {
    if (!value.is_number_unsigned()) {
      throw Error(where + ": \"" + key + "\" should hold integers of at least 0, not " +
                  printable_json(value));
    }
    values.push_back(value.get<uint64_t>());
  }
  return values;
}

Entry read_entry(const std::string& name, const json& value, uint64_t data_size,
                 const std::string& file) {
  const std::string where = file + ": tensor '" + printable(name, kLongestTensorName) + "'";
  if (!value.is_object())
    throw Error(where + " should be a JSON object, not " + printable_json(value));
  for (const auto& [key, unused] : value.items()) {
    if (key != "dtype" && key != "shape" && key != "data_offsets") {
      // A UsageError would be of the command rather than of a file.
      throw Error(unknown_name("key", printable(key, kLongestTensorName),
                               {"dtype", "shape", "data_offsets"}, where)
                      .what());
    }
  }
  const auto dtype = value.find("dtype");
  if (dtype == value.end() || !dtype->is_string()) throw Error(where + " has no \"dtype\" string");
  const auto type =
      std::ranges::find_if(kTypes, [&](const Type& known) { return *dtype == known.name; });
  if (type == std::end(kTypes)) {
    throw Error(where + " has dtype " + printable_json(*dtype) + "; known: " + type_names());
  }

  Entry entry{.name = name, .type = type->scalar, .shape = {}};
  const std::vector<uint64_t> shape = unsigned_list(value, "shape", where);
  if (shape.size() > 64) throw Error(where + " has more than 64 dimensions");
  // Zeros count as ones in `reach`: strides are products without them and must not overflow.
  uint64_t bytes = torch::elementSize(type->scalar), reach = bytes;
  for (const uint64_t size : shape) {
    if (__builtin_mul_overflow(reach, std::max<uint64_t>(size, 1), &reach) ||
        reach > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      throw Error(where + ": its shape " + printable_json(shape) + " is too large");
    }
    bytes *= size;
    entry.shape.push_back(static_cast<int64_t>(size));
  }

  const std::vector<uint64_t> offsets = unsigned_list(value, "data_offsets", where);
  if (offsets.size() != 2 || offsets[0] > offsets[1]) {
    throw Error(where + ": \"data_offsets\" should be [begin, end], not " +
                printable_json(offsets));
  }
  entry.begin = offsets[0];
  entry.end = offsets[1];
  if (entry.end > data_size) {
    throw Error(where + " ends at byte " + std::to_string(entry.end) +
                " of the data, but the file holds " + std::to_string(data_size) +
                ": it is truncated or corrupted");
  }
  if (entry.end - entry.begin != bytes) {
    throw Error(where + ": " + dtype->get<std::string>() + " of shape " + printable_json(shape) +
                " takes " + std::to_string(bytes) + " bytes, not " +
                std::to_string(entry.end - entry.begin));
  }
  return entry;
}

// The tensors must fill the data without holes or overlaps.
void check_contiguous(const std::vector<Entry>& entries, uint64_t data_size,
                      const std::string& file) {
  std::vector<const Entry*> order;
  for (const Entry& entry : entries) order.push_back(&entry);
  std::ranges::sort(order, {}, [](const Entry* e) { return std::pair(e->begin, e->end); });
  uint64_t position = 0;
  for (const Entry* entry : order) {
    if (entry->begin != position) {
      throw Error(file + ": tensor '" + printable(entry->name, kLongestTensorName) +
                  "' should begin at byte " + std::to_string(position) + " of the data, not " +
                  std::to_string(entry->begin));
    }
    position = entry->end;
  }
  if (position != data_size) {
    throw Error(file + " holds " + std::to_string(data_size) +
                " bytes of data, but its tensors take " + std::to_string(position));
  }
}

torch::Tensor view(const Entry& entry, const std::byte* data,
                   const std::shared_ptr<MappedFile>& mapped, const std::string& file) {
  // from_blob takes a pointer to non-const; the pages are mapped read-only all the same.
  void* address = const_cast<std::byte*>(data + entry.begin);
  const auto options = torch::TensorOptions().dtype(entry.type);
  if (entry.begin == entry.end) return torch::empty(entry.shape, options);
  if (entry.type == torch::kBool && std::any_of(data + entry.begin, data + entry.end,
                                                [](std::byte b) { return b > std::byte{1}; })) {
    throw Error(file + ": tensor '" + printable(entry.name, kLongestTensorName) +
                "' is BOOL but has bytes other than 0 and 1");
  }
  const size_t element = torch::elementSize(entry.type);
  if (reinterpret_cast<uintptr_t>(address) % element != 0) {
    // Files by other writers need not align their tensors.
    torch::Tensor copy = torch::empty(entry.shape, options);
    std::memcpy(copy.data_ptr(), address, entry.end - entry.begin);
    return copy;
  }
  return torch::from_blob(
      address, entry.shape, [mapped](void*) {}, options);
}

}  // namespace

const torch::Tensor* TensorFile::find(const std::string& name) const {
  for (const auto& [key, tensor] : tensors) {
    if (key == name) return &tensor;
  }
  return nullptr;
}

const torch::Tensor& TensorFile::at(const std::string& name) const {
  if (const torch::Tensor* tensor = find(name)) return *tensor;
  std::string names;
  for (const auto& [key, tensor] : tensors)
    names.append(names.empty() ? "" : ", ").append(printable(key, kLongestTensorName));
  throw Error("there is no tensor '" + name +
              "'; the file holds: " + (names.empty() ? "(none)" : names));
}

namespace {

constexpr int64_t kConverted = 1 << 24;  // elements of a tensor that are converted at a time

void write_elements(AtomicFile& out, const torch::Tensor& contiguous) {
  out.write({static_cast<const std::byte*>(contiguous.const_data_ptr()),
             static_cast<size_t>(contiguous.numel()) * contiguous.element_size()});
}

}  // namespace

void write_tensors(const std::filesystem::path& path, const TensorFile& file, Links links) {
  const auto type_of = [&](size_t i) {
    const auto& [name, tensor] = file.tensors[i];
    const auto other = file.stored_as.find(name);
    return other == file.stored_as.end() ? tensor.scalar_type() : other->second;
  };
  // Widest types first, as the reference implementation does: every tensor is then aligned.
  std::vector<size_t> order(file.tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](size_t i) { return c10::elementSize(type_of(i)); });

  std::vector<std::pair<uint64_t, uint64_t>> offsets(order.size());
  uint64_t position = 0;
  for (const size_t i : order) {
    const uint64_t bytes = file.tensors[i].second.numel() * c10::elementSize(type_of(i));
    offsets[i] = {position, position + bytes};
    position += bytes;
  }

  json header = json::object();
  if (!file.metadata.empty()) header["__metadata__"] = file.metadata;
  for (size_t i = 0; i < offsets.size(); ++i) {
    const auto& [name, tensor] = file.tensors[i];
    if (name == "__metadata__" || header.contains(name)) {
      throw Error("cannot write " + path.string() + ": tensor name '" + name + "' is " +
                  (name == "__metadata__" ? "reserved" : "used twice"));
    }
    const auto type = std::ranges::find(kTypes, type_of(i), &Type::scalar);
    if (type == std::end(kTypes)) {
      throw Error("cannot write " + path.string() + ": tensor '" + name + "' has type " +
                  torch::toString(type_of(i)) + "; known: " + type_names());
    }
    header[name] = {{"dtype", type->name},
                    {"shape", tensor.sizes().vec()},
                    {"data_offsets", {offsets[i].first, offsets[i].second}}};
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const json::type_error&) {
    throw Error("cannot write " + path.string() + ": a name or metadata value is not UTF-8");
  }
  text.append((8 - text.size() % 8) % 8, ' ');
  if (text.size() > kMaxHeader) {
    throw Error("cannot write " + path.string() + ": its header would be over 100 MB");
  }

  AtomicFile out(path, links);
  const uint64_t length = text.size();
  out.write(std::as_bytes(std::span(&length, 1)));
  out.write(text);
  for (const size_t i : order) {
    const torch::Tensor all = file.tensors[i].second.detach();
    if (type_of(i) == all.scalar_type()) {
      write_elements(out, all.cpu().contiguous());
      continue;
    }
    const torch::Tensor elements = all.flatten();
    for (const torch::Tensor& part : elements.split(kConverted))
      write_elements(out, part.cpu().to(type_of(i)).contiguous());
  }
  out.commit();
}

TensorFile read_tensors(const std::filesystem::path& path) {
  const std::string name = path.string();
  const auto mapped = std::make_shared<MappedFile>(path);
  const std::span<const std::byte> bytes = mapped->bytes();
  uint64_t length = 0;
  if (bytes.size() < sizeof(length)) {
    throw Error(name + " is no safetensors file: it has " + std::to_string(bytes.size()) +
                " bytes, fewer than the 8 of the header's length");
  }
  std::memcpy(&length, bytes.data(), sizeof(length));
  if (length > bytes.size() - sizeof(length) || length > kMaxHeader) {
    throw Error(name + ": the header should be " + std::to_string(length) +
                " bytes long, but the file has " + std::to_string(bytes.size()) +
                ": it is truncated or no safetensors file");
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + sizeof(length), length);
  const json header = parse_json(text, name + ": header");
  if (!header.is_object())
    throw Error(name + ": header should be a JSON object, not " + printable_json(header));

  TensorFile file;
  std::vector<Entry> entries;
  const uint64_t data_size = bytes.size() - sizeof(length) - length;
  for (const auto& [key, value] : header.items()) {
    if (key != "__metadata__") {
      entries.push_back(read_entry(key, value, data_size, name));
      continue;
    }
    if (!value.is_object())
      throw Error(name + ": __metadata__ should be a JSON object, not " + printable_json(value));
    for (const auto& [k, v] : value.items()) {
      if (!v.is_string())
        throw Error(name + ": __metadata__ " + printable(k, kLongestTensorName) +
                    " should be a string, not " + printable_json(v));
      file.metadata[k] = v.get<std::string>();
    }
  }
  check_contiguous(entries, data_size, name);
  const std::byte* data = bytes.data() + sizeof(length) + length;
  for (const Entry& entry : entries)
    file.tensors.emplace_back(entry.name, view(entry, data, mapped, name));
  return file;
}

}  // namespace lra
