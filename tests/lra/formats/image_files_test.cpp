// PNG and JPEG, read and written; damaged files.
#include "lra/formats/image_files.h"

#include <gtest/gtest.h>

#include "tests/support/jpegs.h"
#include "tests/support/scratch.h"

namespace lra {
namespace {

TEST(ImageFiles, APngComesBackAsItWasWritten) {
  for (const int64_t channels : {1, 3}) {
    Image image(7, 5, channels);
    std::iota(image.pixels.begin(), image.pixels.end(), uint8_t{100});
    const Image back = read_png(write_png(image), "x");
    EXPECT_EQ(back.width, 7);
    EXPECT_EQ(back.height, 5);
    EXPECT_EQ(back.channels, channels);
    EXPECT_EQ(back.pixels, image.pixels);
  }
}

TEST(ImageFiles, JpegIsReadAsRgb) {
  Image image(32, 24, 3);
  for (size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = i % 3 == 0 ? 200 : 60;
  for (const JpegKind kind : {JpegKind::kBaseline, JpegKind::kProgressive}) {
    const Image back = read_jpeg(write_jpeg(image, kind), "x");
    ASSERT_EQ(back.pixels.size(), image.pixels.size());
    EXPECT_EQ(back.width, 32);
    EXPECT_EQ(back.height, 24);
    for (size_t i = 0; i < image.pixels.size(); ++i)
      EXPECT_NEAR(back.pixels[i], image.pixels[i], 4) << i;
  }
  Image grey(8, 8, 1);
  std::ranges::fill(grey.pixels, 100);
  EXPECT_EQ(read_jpeg(write_jpeg(grey), "x").pixels, std::vector<uint8_t>(8 * 8 * 3, 100));
}

// A few bytes of a scan may take a whole image's time.
TEST(ImageFiles, AJpegOfManyScansIsRefused) {
  const std::string grey = write_jpeg(Image(8, 8, 1), JpegKind::kManyScans),  // 64 scans
      coloured = write_jpeg(Image(8, 8, 3), JpegKind::kManyScans);            // 190
  EXPECT_EQ(error_text([&] { read_jpeg(grey, "a.jpg"); }), "(no error)");
  EXPECT_EQ(error_text([&] { read_jpeg(coloured, "a.jpg"); }),
            "a.jpg cannot be read as JPEG: it has more than 100 scans");
}

TEST(ImageFiles, ACutJpegIsNamed) {
  const std::string good = write_jpeg(Image(40, 40, 3));
  for (size_t size = 0; size + 1 < good.size(); ++size) {
    EXPECT_EQ(error_text([&] {
                read_jpeg(good.substr(0, size), "a.jpg");
              }).rfind("a.jpg cannot be read as JPEG: ", 0),
              0u)
        << size;
  }
}

TEST(ImageFiles, DamageIsNamed) {
  const std::string good = write_png(Image(40, 40, 1));
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_EQ(error_text([&] {
                read_png(good.substr(0, size), "a.png");
              }).rfind("a.png cannot be read as PNG: ", 0),
              0u)
        << size;
  }
  std::string damaged = good;
  damaged[good.find("IDAT") + 8] ^= 1;
  EXPECT_NE(error_text([&] { read_png(damaged, "a.png"); }), "(no error)");
  EXPECT_EQ(error_text([] { read_jpeg("", "a.jpg"); }).rfind("a.jpg cannot be read as JPEG: ", 0),
            0u);
}

}  // namespace
}  // namespace lra
