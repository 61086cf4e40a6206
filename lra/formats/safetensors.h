// The one file format for tensors: safetensors (8-byte little-endian header length, JSON header,
// raw bytes). Source: https://github.com/huggingface/safetensors (format section).
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "attention_variants/base/files.h"
#include "attention_variants/torch.h"

namespace lra {

/// Named tensors in file order, and the string-to-string map under "__metadata__".
struct TensorFile {
  std::vector<std::pair<std::string, torch::Tensor>> tensors;
  std::map<std::string, std::string> metadata;
  /// Of those to be written in another type than they have in memory.
  std::map<std::string, torch::ScalarType> stored_as = {};

  /// The tensor of that name, or nullptr.
  const torch::Tensor* find(const std::string& name) const;
  /// The tensor of that name; throws Error that names it.
  const torch::Tensor& at(const std::string& name) const;
};

/// Writes atomically (AtomicFile). Tensors may be on any device and of any stride; BOOL, U8, U16,
/// I8, I16, I32, I64, F16, BF16, F32 and F64 are known.
void write_tensors(const std::filesystem::path& path, const TensorFile& file,
                   Links links = Links::follow);

/// Maps the file and returns tensors that read straight from it (do not write to them); the mapping
/// lives as long as any of them. Every offset, size and shape is checked against the file: a
/// truncated or corrupted file throws Error with its path and what is wrong.
TensorFile read_tensors(const std::filesystem::path& path);

}  // namespace lra
