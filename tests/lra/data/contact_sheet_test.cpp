// Sheets of samples to look at.
#include "lra/data/contact_sheet.h"

#include <gtest/gtest.h>

#include "lra/data/split.h"
#include "lra/formats/image_files.h"
#include "tests/support/scratch.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

class Sheet : public ::testing::Test {
 protected:
  Split split(const std::vector<std::vector<uint16_t>>& images) {
    SplitWriter writer;
    int64_t label = 0;
    for (const auto& ids : images) {
      writer.tokens(ids);
      writer.label(label++);
    }
    const fs::path path = scratch_.path() / "s.safetensors";
    writer.write(path, 256);
    return Split(path, 1, 10, 256);
  }
  Scratch scratch_;
};

TEST_F(Sheet, DrawsEachPixelEnlargedAndItsLabel) {
  std::vector<uint16_t> image(1024, 0);
  image[0] = 200;        // top left
  image[31] = 150;       // top right
  image[32 * 31] = 100;  // bottom left
  const Split three = split({image, image, image});
  const Image sheet = contact_sheet(three, 3);
  EXPECT_EQ(sheet.channels, 1);
  ASSERT_EQ(sheet.width, 8 + 3 * (6 * 32 + 8));
  const auto at = [&](int64_t x, int64_t y) {
    return sheet.pixels[static_cast<size_t>(y * sheet.width + x)];
  };
  for (int64_t i = 0; i < 3; ++i) {
    const int64_t x = 8 + i * 200;
    EXPECT_EQ(at(x, 8), 200);
    EXPECT_EQ(at(x + 5, 13), 200);
    EXPECT_EQ(at(x + 6, 8), 0);
    EXPECT_EQ(at(x + 191, 8), 150);
    EXPECT_EQ(at(x, 8 + 191), 100);
    EXPECT_EQ(at(x - 1, 8), 72);
    // The topmost row of the digits 0, 1 and 2: dots at the left for 0 and 2.
    EXPECT_EQ(at(x, 8 + 192 + 4), i == 1 ? 72 : 255);
    EXPECT_EQ(at(x + 4, 8 + 192 + 4), 255);
  }
  EXPECT_EQ(contact_sheet(three, 40).pixels, sheet.pixels);
}

TEST_F(Sheet, DrawsColours) {
  SplitWriter writer(3);
  for (const uint8_t value : {uint8_t{10}, uint8_t{20}, uint8_t{30}})
    writer.tokens(std::vector<uint8_t>(1024, value));
  writer.label(1);
  const fs::path path = scratch_.path() / "colours.safetensors";
  writer.write(path, 256);
  const Image sheet = contact_sheet(Split(path, 3, 10, 256), 1);
  EXPECT_EQ(sheet.channels, 3);
  const auto at = [&](int64_t x, int64_t y) {
    const auto pixel = sheet.pixels.begin() + 3 * (y * sheet.width + x);
    return std::vector<uint8_t>(pixel, pixel + 3);
  };
  EXPECT_EQ(at(8, 8), (std::vector<uint8_t>{10, 20, 30}));
  EXPECT_EQ(at(8 + 191, 8 + 191), (std::vector<uint8_t>{10, 20, 30}));
  EXPECT_EQ(at(0, 0), (std::vector<uint8_t>{72, 72, 72}));
}

TEST_F(Sheet, WhatIsNoSquareIsNamed) {
  EXPECT_EQ(error_text([&] {
              contact_sheet(split({{1, 2, 3}}), 1);
            }),
            "sample 0 is no square image like the first: it has 3 ids");
  EXPECT_EQ(error_text([&] {
              contact_sheet(split({{1}, {1, 2, 3, 4}}), 2);
            }),
            "sample 1 is no square image like the first: it has 4 ids");
  EXPECT_EQ(error_text([&] { contact_sheet(split({{1}}), 0); }), "there is no image to draw");
}

}  // namespace
}  // namespace lra
