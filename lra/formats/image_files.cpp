#include "lra/formats/image_files.h"

#include <png.h>

#include <csetjmp>
#include <cstdio>  // before jpeglib.h, which needs it

#include <jpeglib.h>

#include <jerror.h>

#include <cstring>

namespace lra {
namespace {

constexpr uint32_t kLargest = 4096;
// Ordinary progressive files have about ten; each may take a whole image's time in a few bytes.
constexpr int kMostScans = 100;

// Both libraries report an error by a call that must not return. Exceptions cannot pass through
// their C frames, so each call keeps its message and jumps back to where setjmp() stands; between
// the two no object is made that would need its destructor.

struct PngReader {
  std::string_view rest;
  char message[200] = "";
};

[[noreturn]] void png_failed(png_structp png, png_const_charp message) {
  auto* reader = static_cast<PngReader*>(png_get_error_ptr(png));
  std::snprintf(reader->message, sizeof(reader->message), "%s", message);
  png_longjmp(png, 1);
}

void png_ignore(png_structp, png_const_charp) {}

void png_take(png_structp png, png_bytep out, size_t size) {
  auto* reader = static_cast<PngReader*>(png_get_io_ptr(png));
  if (reader->rest.size() < size) png_error(png, "unexpected end of file");
  std::memcpy(out, reader->rest.data(), size);
  reader->rest.remove_prefix(size);
}

// False, with the reason in `reader`, where it cannot be read. `image` is the caller's, so that a
// jump leaves none of it behind.
bool read_png_into(PngReader& reader, Image& image, std::vector<png_bytep>& rows) {
  png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reader, png_failed, png_ignore);
  png_infop info = png == nullptr ? nullptr : png_create_info_struct(png);
  if (info == nullptr) {
    png_destroy_read_struct(&png, nullptr, nullptr);
    std::strcpy(reader.message, "no memory");
    return false;
  }
  if (setjmp(png_jmpbuf(png)) != 0) {
    png_destroy_read_struct(&png, &info, nullptr);
    return false;
  }
  png_set_read_fn(png, &reader, png_take);
  png_set_user_limits(png, kLargest, kLargest);
  png_read_info(png, info);
  const int type = png_get_color_type(png, info);
  if (png_get_bit_depth(png, info) != 8 ||
      (type != PNG_COLOR_TYPE_GRAY && type != PNG_COLOR_TYPE_RGB)) {
    png_error(png, "it should be 8-bit grey or RGB");
  }
  png_set_interlace_handling(png);
  png_read_update_info(png, info);
  image = Image(png_get_image_width(png, info), png_get_image_height(png, info),
                type == PNG_COLOR_TYPE_GRAY ? 1 : 3);
  rows.resize(static_cast<size_t>(image.height));
  for (size_t y = 0; y < rows.size(); ++y) {
    rows[y] = image.pixels.data() + y * static_cast<size_t>(image.width * image.channels);
  }
  png_read_image(png, rows.data());
  png_read_end(png, nullptr);
  png_destroy_read_struct(&png, &info, nullptr);
  return true;
}

struct JpegErrors {
  jpeg_error_mgr base;
  std::jmp_buf jump;
  char message[JMSG_LENGTH_MAX];
};

[[noreturn]] void jpeg_failed(j_common_ptr info) {
  auto* errors = reinterpret_cast<JpegErrors*>(info->err);
  info->err->format_message(info, errors->message);
  std::longjmp(errors->jump, 1);
}

// A warning is how libjpeg says that data are cut short or damaged: it would continue with grey
// pixels.
void jpeg_warned(j_common_ptr info, int level) {
  if (level < 0) jpeg_failed(info);
}

void jpeg_progressed(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMostScans) return;
  auto* errors = reinterpret_cast<JpegErrors*>(info->err);
  std::snprintf(errors->message, sizeof(errors->message), "it has more than %d scans", kMostScans);
  std::longjmp(errors->jump, 1);
}

bool read_jpeg_into(std::string_view bytes, JpegErrors& errors, Image& image) {
  jpeg_decompress_struct jpeg;
  jpeg.err = jpeg_std_error(&errors.base);
  errors.base.error_exit = jpeg_failed;
  errors.base.emit_message = jpeg_warned;
  jpeg_create_decompress(&jpeg);
  if (setjmp(errors.jump) != 0) {
    jpeg_destroy_decompress(&jpeg);
    return false;
  }
  jpeg_progress_mgr progress{};
  progress.progress_monitor = jpeg_progressed;
  jpeg.progress = &progress;
  jpeg_mem_src(&jpeg, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  jpeg_read_header(&jpeg, TRUE);
  if (jpeg.image_width > kLargest || jpeg.image_height > kLargest) {
    ERREXIT(&jpeg, JERR_IMAGE_TOO_BIG);
  }
  jpeg.out_color_space = JCS_RGB;
  jpeg.dct_method = JDCT_ISLOW;
  jpeg.do_fancy_upsampling = TRUE;
  jpeg_start_decompress(&jpeg);
  image = Image(jpeg.output_width, jpeg.output_height, 3);
  while (jpeg.output_scanline < jpeg.output_height) {
    JSAMPROW row = image.pixels.data() + size_t{jpeg.output_scanline} * jpeg.output_width * 3;
    jpeg_read_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_decompress(&jpeg);
  jpeg_destroy_decompress(&jpeg);
  return true;
}

}  // namespace

Image read_png(std::string_view bytes, const std::string& where) {
  PngReader reader{.rest = bytes};
  Image image;
  std::vector<png_bytep> rows;
  if (!read_png_into(reader, image, rows)) {
    throw Error(where + " cannot be read as PNG: " + reader.message);
  }
  return image;
}

std::string write_png(const Image& image) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  png.width = static_cast<uint32_t>(image.width);
  png.height = static_cast<uint32_t>(image.height);
  png.format = image.channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(png);
  std::string bytes(size, '\0');
  if (png_image_write_to_memory(&png, bytes.data(), &size, /*convert_to_8_bit=*/0,
                                image.pixels.data(), /*row_stride=*/0, nullptr) == 0) {
    throw Error(std::string("cannot write a PNG: ") + png.message);
  }
  bytes.resize(size);
  return bytes;
}

Image read_jpeg(std::string_view bytes, const std::string& where) {
  JpegErrors errors{};
  Image image;
  if (!read_jpeg_into(bytes, errors, image)) {
    throw Error(where + " cannot be read as JPEG: " + errors.message);
  }
  return image;
}

}  // namespace lra
