// PNG. The first byte: odd = checksums are repaired, so that mutations get past them.
#include <zlib.h>

#include "lra/formats/image_files.h"
#include "tests/fuzz/fuzz.h"

namespace {

void repair(std::string& png) {
  const auto number = [&](size_t at) {
    uint32_t value = 0;
    for (size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<uint8_t>(png[at + i]);
    return value;
  };
  // Length, type, content and checksum of each chunk; the checksum is of type and content.
  for (size_t at = 8; at + 12 <= png.size();) {
    const size_t length = number(at);
    if (length > png.size() - at - 12) return;
    const auto* type = reinterpret_cast<const Bytef*>(png.data() + at + 4);
    const auto sum = static_cast<uint32_t>(crc32(0, type, static_cast<uInt>(length + 4)));
    for (size_t i = 0; i < 4; ++i)
      png[at + 8 + length + i] = static_cast<char>(sum >> (24 - 8 * i) & 255);
    at += 12 + length;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lra;
  if (size == 0) return 0;
  std::string bytes(fuzz::text_of(data + 1, size - 1));
  if (data[0] % 2 == 1) repair(bytes);
  fuzz::accepted([&] {
    const Image image = read_png(bytes, "a.png");
    fuzz::require(
        image.pixels.size() == static_cast<size_t>(image.width * image.height * image.channels),
        "every pixel is there");
    // Large ones would take all the time.
    if (image.pixels.size() > 1 << 16) return;
    fuzz::require(read_png(write_png(image), "a.png").pixels == image.pixels,
                  "a PNG comes back as it was written");
  });
  return 0;
}
