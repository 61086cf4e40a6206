// NumPy's array files.
#include "lra/formats/npy.h"

#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lra;
  fuzz::accepted([&] {
    const NpyArray array = read_npy(fuzz::text_of(data, size), "a.npy");
    const auto items = static_cast<size_t>(array.items());
    fuzz::require(items <= array.data.size(), "an item takes a byte or more");
    fuzz::require(npy_strings(array, "a.npy").size() == items, "every item is there");
  });
  return 0;
}
