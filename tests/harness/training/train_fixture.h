// What the tests of lra train share.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "harness/training/run_folder.h"
#include "lra/formats/safetensors.h"
#include "tests/harness/program.h"

namespace lra {

/// What two runs of one configuration must share: everything but clocks and memory.
inline json comparable(const std::filesystem::path& run) {
  json result = read_json(run / kResultFile);
  result.erase("training");
  return {{"result", result},
          {"log", log_without_clocks(run)},
          {"predictions", read_file(run / kPredictionsFile)}};
}

/// The tensors of a checkpoint, byte for byte.
inline std::string tensor_bytes(const std::filesystem::path& path) {
  std::string bytes;
  for (const auto& [name, tensor] : read_tensors(path).tensors) {
    const auto whole = tensor.contiguous();
    bytes += name + ":" + std::string(static_cast<const char*>(whole.data_ptr()), whole.nbytes());
  }
  return bytes;
}

/// Writes to `to` the checkpoint `from` with what `change` makes of its run's progress, and, as
/// older ones, without a digest of that.
template <class Change>
void change_progress(const std::filesystem::path& from, const std::filesystem::path& to,
                     const Change& change) {
  TensorFile file = read_tensors(from);
  for (auto& [name, tensor] : file.tensors) tensor = tensor.clone();  // from the file to memory
  json at = json::parse(file.metadata.at("progression"));
  change(at);
  file.metadata["progression"] = at.dump();
  file.metadata.erase("metadata_sha256");
  write_tensors(to, file);
}

/// Runs of a tiny ListOps, in a folder of their own.
class TrainTest : public testing::Test {
 protected:
  void SetUp() override { prepare_tiny_listops(data_); }
  std::vector<std::string> words(const std::string& run,
                                 const std::string& attention = "nystrom[num_landmarks=8]",
                                 int64_t steps = 12) const {
    return tiny_train(data_, scratch_.path() / run, attention, steps);
  }
  std::filesystem::path run(const std::string& name) const { return scratch_.path() / name; }

  Scratch scratch_;
  std::filesystem::path data_ = scratch_.path() / "data";
};

}  // namespace lra
