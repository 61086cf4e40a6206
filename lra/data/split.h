// Split files: `tokens` (U8 or U16 [total]), `offsets` (I64 [count * inputs + 1]) and `labels` (I64
// [count]); the tokens of input j of sample i are tokens[offsets[i * inputs + j] .. offsets[i *
// inputs + j + 1]). Where labels stand at positions there are `position_labels` (I32 [total]) in
// place of `labels`, -1 where a token has none.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "attention_variants/torch.h"

namespace lra {

/// One split, mapped into memory.
class Split {
 public:
  Split() = default;
  /// Opens and checks one split file (offsets ascending, labels below `classes`, at least one of a
  /// sample, ids below `vocabulary`); throws Error that names the file.
  Split(const std::filesystem::path& path, int64_t inputs, int64_t classes, int64_t vocabulary);

  int64_t size() const { return count_; }
  int64_t inputs() const { return inputs_; }
  /// Of a split whose labels stand at samples.
  int64_t label(int64_t index) const { return labels_[index]; }
  bool has_position_labels() const { return position_labels_ != nullptr; }
  /// Copies up to `limit` labels of a sample's positions to `out`, -1 where there is none, and
  /// returns how many.
  int64_t copy_labels(int64_t index, int64_t limit, int64_t* out) const;
  /// The number of tokens of one input of one sample.
  int64_t length(int64_t index, int64_t input = 0) const;
  /// The tokens of one input, uint8 or uint16 [length]: a part of the mapped file, for reading
  /// alone.
  torch::Tensor tokens(int64_t index, int64_t input = 0) const;
  std::vector<uint16_t> ids(int64_t index, int64_t input = 0) const;
  /// Copies up to `limit` tokens of one input to `out` and returns how many.
  int64_t copy(int64_t index, int64_t input, int64_t limit, int64_t* out) const;
  /// The split with ids[i] in place of every id i, and nothing where that is 0; in memory.
  Split mapped(const std::vector<uint16_t>& ids) const;

 private:
  void check_labels(const std::filesystem::path& path, int64_t classes) const;

  torch::Tensor tokens_, offsets_tensor_, labels_tensor_;
  const int64_t* offsets_ = nullptr;
  const int64_t* labels_ = nullptr;           // of samples
  const int32_t* position_labels_ = nullptr;  // or of tokens
  int64_t count_ = 0, inputs_ = 1;
};

/// Collects samples and writes a split file.
class SplitWriter {
 public:
  explicit SplitWriter(int64_t inputs = 1) : inputs_(inputs) {}
  /// One call an input, `inputs` calls a sample, then label(), or labels() in all samples.
  void tokens(std::span<const uint16_t> ids);
  void tokens(std::span<const uint8_t> ids);
  void label(int64_t label);
  /// Of each token of a sample of one input, -1 where there is none.
  void labels(std::span<const int32_t> labels);
  int64_t size() const {
    return position_labels_.empty() ? std::ssize(labels_) : std::ssize(offsets_) - 1;
  }
  /// Room for so many tokens, where their number is known.
  void reserve(int64_t tokens) { narrow_.reserve(static_cast<size_t>(tokens)); }
  /// A hash of each sample's tokens.
  std::vector<size_t> hashes() const;
  /// Writes atomically, as U8 where `vocabulary` <= 256.
  void write(const std::filesystem::path& path, int64_t vocabulary) const;

 private:
  void widen();

  int64_t inputs_;
  std::vector<uint8_t> narrow_;  // the tokens, as long as all are below 256
  std::vector<uint16_t> wide_;   // all tokens, from the first above that on
  std::vector<int64_t> offsets_{0}, labels_;
  std::vector<int32_t> position_labels_;
};

}  // namespace lra
