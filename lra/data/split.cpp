#include "lra/data/split.h"

#include <algorithm>

#include "attention_variants/base/error.h"
#include "lra/formats/safetensors.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPositionLabels = "position_labels";

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

}  // namespace

Split::Split(const fs::path& path, int64_t inputs, int64_t classes, int64_t vocabulary)
    : inputs_(inputs) {
  const TensorFile file = read_tensors(path);
  tokens_ = column(file, "tokens", path, {torch::kUInt8, torch::kUInt16});
  offsets_tensor_ = column(file, "offsets", path, {torch::kInt64});
  if (offsets_tensor_.numel() == 0)
    throw Error(path.string() + ": offsets should begin with 0, but there are none");
  const bool at_positions = file.find(kPositionLabels) != nullptr;
  labels_tensor_ = at_positions ? column(file, kPositionLabels, path, {torch::kInt32})
                                : column(file, "labels", path, {torch::kInt64});
  if (file.tensors.size() != 3) {
    throw Error(path.string() + " should hold tokens, offsets and labels alone");
  }
  if (at_positions) position_labels_ = labels_tensor_.const_data_ptr<int32_t>();
  if (!at_positions) labels_ = labels_tensor_.const_data_ptr<int64_t>();
  count_ = at_positions ? (offsets_tensor_.numel() - 1) / inputs : labels_tensor_.numel();
  offsets_ = offsets_tensor_.const_data_ptr<int64_t>();
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
  check_labels(path, classes);
  if (const int64_t id = highest_id(tokens_); id >= vocabulary) {
    throw Error(path.string() + ": token ids should be below " + std::to_string(vocabulary) +
                ", but there is " + std::to_string(id));
  }
}

void Split::check_labels(const fs::path& path, int64_t classes) const {
  const auto check = [&](int64_t sample, int64_t label, int64_t least) {
    if (label >= least && label < classes) return;
    throw Error(path.string() + ": label of sample " + std::to_string(sample) +
                " should be from 0 to " + std::to_string(classes - 1) + ", not " +
                std::to_string(label));
  };
  if (!has_position_labels()) {
    for (int64_t i = 0; i < count_; ++i) check(i, labels_[i], 0);
    return;
  }
  if (inputs_ != 1 || labels_tensor_.numel() != tokens_.numel()) {
    throw Error(path.string() + ": labels at positions should be one a token of one input, not " +
                std::to_string(labels_tensor_.numel()) + " of " + std::to_string(tokens_.numel()) +
                " tokens of " + std::to_string(inputs_) + " inputs");
  }
  for (int64_t i = 0; i < count_; ++i) {
    bool labelled = false;
    for (int64_t at = offsets_[i]; at < offsets_[i + 1]; ++at) {
      check(i, position_labels_[at], -1);
      labelled = labelled || position_labels_[at] >= 0;
    }
    if (!labelled) throw Error(path.string() + ": sample " + std::to_string(i) + " has no label");
  }
}

int64_t Split::copy_labels(int64_t index, int64_t limit, int64_t* out) const {
  const int64_t count = std::min(limit, length(index));
  std::copy_n(position_labels_ + offsets_[index], count, out);
  return count;
}

int64_t Split::length(int64_t index, int64_t input) const {
  const int64_t* offset = offsets_ + index * inputs_ + input;
  return offset[1] - offset[0];
}

torch::Tensor Split::tokens(int64_t index, int64_t input) const {
  return tokens_.narrow(0, offsets_[index * inputs_ + input], length(index, input));
}

std::vector<uint16_t> Split::ids(int64_t index, int64_t input) const {
  std::vector<int64_t> wide(static_cast<size_t>(length(index, input)));
  copy(index, input, std::ssize(wide), wide.data());
  return {wide.begin(), wide.end()};
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

Split Split::mapped(const std::vector<uint16_t>& ids) const {
  if (has_position_labels()) throw Error("tokens with labels of their own cannot be left out");
  Split result = *this;
  result.tokens_ = torch::empty_like(tokens_);
  result.offsets_tensor_ = offsets_tensor_.clone();
  auto* const offsets = result.offsets_tensor_.data_ptr<int64_t>();
  const auto map = [&]<class T>(const T* from, T* to) {
    int64_t kept = 0;
    for (int64_t sequence = 0; sequence < count_ * inputs_; ++sequence) {
      for (int64_t i = offsets_[sequence]; i < offsets_[sequence + 1]; ++i) {
        if (const uint16_t id = ids.at(from[i]); id != 0) to[kept++] = static_cast<T>(id);
      }
      offsets[sequence + 1] = kept;
    }
    return kept;
  };
  const int64_t kept =
      tokens_.scalar_type() == torch::kUInt8
          ? map(tokens_.const_data_ptr<uint8_t>(), result.tokens_.data_ptr<uint8_t>())
          : map(tokens_.const_data_ptr<uint16_t>(), result.tokens_.data_ptr<uint16_t>());
  result.tokens_ = result.tokens_.narrow(0, 0, kept);
  result.offsets_ = offsets;
  return result;
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

void SplitWriter::labels(std::span<const int32_t> labels) {
  position_labels_.insert(position_labels_.end(), labels.begin(), labels.end());
  if (inputs_ != 1 || !labels_.empty() || std::ssize(position_labels_) != offsets_.back())
    throw Error("labels at positions are one a token, in all samples, of one input");
}

std::vector<size_t> SplitWriter::hashes() const {
  std::vector<size_t> hashes;
  std::u16string ids;  // of either width: equal samples of two splits are equal
  for (int64_t i = 0; i < size(); ++i) {
    size_t hash = 0;
    for (int64_t j = i * inputs_; j < (i + 1) * inputs_; ++j) {
      const auto begin = static_cast<size_t>(offsets_[static_cast<size_t>(j)]),
                 end = static_cast<size_t>(offsets_[static_cast<size_t>(j) + 1]);
      const auto take = [&](const auto& values) {
        const auto at = values.begin() + static_cast<std::ptrdiff_t>(begin);
        ids.assign(at, at + static_cast<std::ptrdiff_t>(end - begin));
      };
      wide_.empty() ? take(narrow_) : take(wide_);
      hash = hash * 31 + std::hash<std::u16string>()(ids);
    }
    hashes.push_back(hash);
  }
  return hashes;
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
  const torch::Tensor tokens =
      wide_.empty() ? list(narrow_, torch::kUInt8) : list(wide_, torch::kUInt16);
  TensorFile file{.tensors = {{"tokens", tokens}, {"offsets", list(offsets_, torch::kInt64)}},
                  .metadata = {},
                  .stored_as = {{"tokens", vocabulary > 256 ? torch::kUInt16 : torch::kUInt8}}};
  if (position_labels_.empty()) {
    file.tensors.emplace_back("labels", list(labels_, torch::kInt64));
  } else {
    file.tensors.emplace_back(kPositionLabels, list(position_labels_, torch::kInt32));
  }
  write_tensors(path, file);
}

}  // namespace lra
