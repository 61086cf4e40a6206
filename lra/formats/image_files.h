// Images in memory, read from PNG and JPEG and written as PNG (libpng, libjpeg).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "attention_variants/base/error.h"

namespace lra {

struct Image {
  int64_t width = 0, height = 0;
  int64_t channels = 1;         // 1 = grey, 3 = red, green, blue
  std::vector<uint8_t> pixels;  // [height,width,channels]

  Image() = default;
  /// All black.
  Image(int64_t image_width, int64_t image_height, int64_t image_channels)
      : width(image_width),
        height(image_height),
        channels(image_channels),
        pixels(static_cast<size_t>(image_width * image_height * image_channels)) {}
};

/// Reads an 8-bit grey or RGB PNG of at most 4096 pixels a side; its stored values are taken as
/// they are, whatever gamma it names. Throws Error that begins with `where` on anything else, and
/// where it is cut short or damaged.
Image read_png(std::string_view bytes, const std::string& where);

/// The bytes of a PNG file.
std::string write_png(const Image& image);

/// Reads a JPEG of at most 4096 pixels a side and 100 scans as RGB with libjpeg's accurate integer
/// transform and smooth upsampling, which is what Pillow does. Throws Error that begins with
/// `where` where it is none, cut short or damaged.
Image read_jpeg(std::string_view bytes, const std::string& where);

}  // namespace lra
