// The manifest of prepared data.
#include "attention_variants/base/files.h"
#include "lra/data/prepared.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lra;
  static const bool made = std::filesystem::create_directory(fuzz::folder() / "toy");
  fuzz::require(made, "the folder is there");
  const std::filesystem::path path = fuzz::write("toy/manifest.json", fuzz::text_of(data, size));
  fuzz::accepted([&] {
    const json value = Manifest::read(path).to_json();
    fuzz::write("toy/manifest.json", value.dump());
    fuzz::require(Manifest::read(path).to_json() == value, "a manifest comes back as written");
  });
  Manifest other;
  other.task = "toy";
  other.options = {{"seed", 0}};
  // It names what differs, or the file that is not there.
  fuzz::require(!fuzz::accepted([&] { already_prepared(fuzz::folder(), other); }),
                "what is not there is not prepared");
  return 0;
}
