// JPEG.
#include "lra/formats/image_files.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lra;
  fuzz::accepted([&] {
    const Image image = read_jpeg(fuzz::text_of(data, size), "a.jpg");
    fuzz::require(image.channels == 3, "JPEG is read as red, green, blue");
    fuzz::require(image.pixels.size() == static_cast<size_t>(image.width * image.height * 3),
                  "every pixel is there");
  });
  return 0;
}
