// Writes small JPEG files for tests.
#pragma once

#include <cstdio>  // before jpeglib.h, which needs it

#include <jpeglib.h>

#include <cstdlib>
#include <string>

#include "lra/formats/image_files.h"

namespace lra {

/// kManyScans: a progressive one with a scan for each of a block's 64 coefficients and component.
enum class JpegKind { kBaseline, kProgressive, kManyScans };

/// The bytes of a JPEG file of quality 90.
inline std::string write_jpeg(const Image& image, JpegKind kind = JpegKind::kBaseline) {
  jpeg_compress_struct jpeg;
  jpeg_error_mgr errors;
  jpeg.err = jpeg_std_error(&errors);  // ends the program at an error: tests write good images
  jpeg_create_compress(&jpeg);
  unsigned char* buffer = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&jpeg, &buffer, &size);
  jpeg.image_width = static_cast<JDIMENSION>(image.width);
  jpeg.image_height = static_cast<JDIMENSION>(image.height);
  jpeg.input_components = static_cast<int>(image.channels);
  jpeg.in_color_space = image.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, 90, TRUE);
  if (kind == JpegKind::kProgressive) jpeg_simple_progression(&jpeg);
  std::vector<jpeg_scan_info> scans;
  if (kind == JpegKind::kManyScans) {
    const int components = jpeg.num_components;
    scans.push_back({.comps_in_scan = components, .component_index = {0, 1, 2}});
    for (int component = 0; component < components; ++component) {
      for (int i = 1; i < 64; ++i) {
        scans.push_back({.comps_in_scan = 1,
                         .component_index = {component},
                         .Ss = i,
                         .Se = i,
                         .Ah = 0,
                         .Al = 0});
      }
    }
    jpeg.scan_info = scans.data();
    jpeg.num_scans = static_cast<int>(scans.size());
  }
  jpeg_start_compress(&jpeg, TRUE);
  std::vector<uint8_t> pixels = image.pixels;  // libjpeg takes rows that it may write to
  while (jpeg.next_scanline < jpeg.image_height) {
    JSAMPROW row = pixels.data() +
                   size_t{jpeg.next_scanline} * static_cast<size_t>(image.width * image.channels);
    jpeg_write_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_compress(&jpeg);
  std::string bytes(reinterpret_cast<const char*>(buffer), size);
  jpeg_destroy_compress(&jpeg);
  std::free(buffer);
  return bytes;
}

}  // namespace lra
