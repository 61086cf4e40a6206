#include "lra/data/contact_sheet.h"

#include <algorithm>
#include <cmath>

namespace lra {
namespace {

constexpr uint8_t kGround = 72, kInk = 255;  // neither black nor white, as images often are
constexpr int64_t kWanted = 192;             // pixels a side
constexpr int64_t kGap = 8;
constexpr int64_t kDot = 4;                           // pixels a side of a digit's dot
constexpr int64_t kDigitWidth = 3, kDigitHeight = 5;  // dots
constexpr int64_t kMostColumns = 10;

// Rows from above, the leftmost dot in the highest of three bits.
constexpr uint8_t kDigits[10][kDigitHeight] = {
    {7, 5, 5, 5, 7}, {2, 6, 2, 2, 7}, {7, 1, 7, 4, 7}, {7, 1, 7, 1, 7}, {5, 5, 7, 1, 1},
    {7, 4, 7, 1, 7}, {7, 4, 7, 5, 7}, {7, 1, 1, 1, 1}, {7, 5, 7, 5, 7}, {7, 5, 7, 1, 7}};

// A square of one channel.
void fill(Image& image, int64_t x, int64_t y, int64_t side, int64_t channel, uint8_t value) {
  for (int64_t row = y; row < y + side; ++row) {
    for (int64_t column = x; column < x + side; ++column) {
      const int64_t pixel = row * image.width + column;
      image.pixels[static_cast<size_t>(pixel * image.channels + channel)] = value;
    }
  }
}

void draw_number(Image& image, int64_t x, int64_t y, int64_t number) {
  for (const char c : std::to_string(number)) {
    for (int64_t row = 0; row < kDigitHeight; ++row) {
      for (int64_t column = 0; column < kDigitWidth; ++column) {
        if ((kDigits[c - '0'][row] >> (kDigitWidth - 1 - column) & 1) == 0) continue;
        for (int64_t channel = 0; channel < image.channels; ++channel)
          fill(image, x + column * kDot, y + row * kDot, kDot, channel, kInk);
      }
    }
    x += (kDigitWidth + 1) * kDot;
  }
}

}  // namespace

Image contact_sheet(const Split& split, int64_t count) {
  count = std::min(count, split.size());
  if (count < 1) throw Error("there is no image to draw");
  const int64_t length = split.length(0);
  const auto side = static_cast<int64_t>(std::lround(std::sqrt(static_cast<double>(length))));
  const int64_t scale = std::max<int64_t>(1, (kWanted + side - 1) / std::max<int64_t>(1, side));
  const int64_t columns = std::min<int64_t>(
      kMostColumns, static_cast<int64_t>(std::ceil(std::sqrt(1.5 * static_cast<double>(count)))));
  const int64_t rows = (count + columns - 1) / columns;
  const int64_t width = side * scale + kGap,
                height = side * scale + kGap / 2 + kDigitHeight * kDot + kGap;
  Image sheet(columns * width + kGap, rows * height + kGap, split.inputs() == 3 ? 3 : 1);
  std::ranges::fill(sheet.pixels, kGround);
  std::vector<int64_t> ids(static_cast<size_t>(length));
  for (int64_t i = 0; i < count; ++i) {
    const int64_t x = kGap + i % columns * width, y = kGap + i / columns * height;
    for (int64_t channel = 0; channel < sheet.channels; ++channel) {
      if (split.length(i, channel) != length || side * side != length) {
        throw Error("sample " + std::to_string(i) + " is no square image like the first: it has " +
                    std::to_string(split.length(i, channel)) + " ids");
      }
      split.copy(i, channel, length, ids.data());
      for (int64_t j = 0; j < length; ++j) {
        fill(sheet, x + j % side * scale, y + j / side * scale, scale, channel,
             static_cast<uint8_t>(std::min<int64_t>(ids[static_cast<size_t>(j)], 255)));
      }
    }
    draw_number(sheet, x, y + side * scale + kGap / 2, split.label(i));
  }
  return sheet;
}

}  // namespace lra
