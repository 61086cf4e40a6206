// Tensor files, also as a split of prepared data.
#include "lra/formats/safetensors.h"

#include "lra/data/prepared.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lra;
  const std::filesystem::path path = fuzz::write("a.safetensors", fuzz::text_of(data, size));
  fuzz::accepted([&] {
    const TensorFile file = read_tensors(path);
    const std::filesystem::path again = fuzz::folder() / "b.safetensors";
    write_tensors(again, file);
    const TensorFile back = read_tensors(again);
    fuzz::require(back.metadata == file.metadata, "metadata comes back as written");
    for (const auto& [name, tensor] : file.tensors) {
      const torch::Tensor& other = back.at(name);
      fuzz::require(other.scalar_type() == tensor.scalar_type() && other.sizes() == tensor.sizes(),
                    "a tensor keeps its type and shape");
      // Compared as bytes: there may be NaN.
      const auto bytes = [](const torch::Tensor& t) {
        return std::string_view(static_cast<const char*>(t.const_data_ptr()), t.nbytes());
      };
      fuzz::require(bytes(other) == bytes(tensor), "a tensor comes back as written");
    }
  });
  fuzz::accepted([&] {
    const Split split(path, 1, 10, 16);
    std::vector<int64_t> ids;
    for (int64_t i = 0; i < split.size(); ++i) {
      ids.resize(static_cast<size_t>(split.length(i)));
      split.copy(i, 0, split.length(i), ids.data());
      fuzz::require(split.label(i) >= 0 && split.label(i) < 10, "labels are in range");
      for (const int64_t id : ids) fuzz::require(id >= 0 && id < 16, "ids are in range");
    }
  });
  return 0;
}
