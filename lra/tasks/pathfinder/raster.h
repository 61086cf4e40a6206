// Drawing as Pillow and scipy do it, to the last bit: lines, grey dilation, Lanczos resizing of
// 8-bit images.
//
// Sources: Pillow's Draw.c and Resample.c (line8, ImagingDrawWideLine, the 8-bit resampling), scipy
// 1.2's misc.imresize and bytescale. What is rounded is an integer or a quotient of integers,
// except the weights of the resizing: their sin() would have to be wrong by 1e-9 to change one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lra {

struct Point {
  int y = 0, x = 0;
  bool operator==(const Point&) const = default;
};

/// An 8-bit image, row by row, that knows where its first pixel stands in a larger one; what lies
/// outside of it is 0.
struct Patch {
  Point origin;
  int height = 0, width = 0;
  std::vector<uint8_t> pixels;  // [height, width]

  Patch() = default;
  Patch(Point corner, int rows, int columns)
      : origin(corner),
        height(rows),
        width(columns),
        pixels(static_cast<size_t>(rows) * static_cast<size_t>(columns)) {}
  /// By coordinates within the patch.
  uint8_t& at(int y, int x) { return pixels[index(y, x)]; }
  uint8_t at(int y, int x) const { return pixels[index(y, x)]; }
  bool contains(int y, int x) const { return y >= 0 && y < height && x >= 0 && x < width; }

 private:
  size_t index(int y, int x) const {
    return static_cast<size_t>(y) * static_cast<size_t>(width) + static_cast<size_t>(x);
  }
};

/// The offsets (dy, dx) with dy^2 + dx^2 <= radius^2, row by row.
std::vector<Point> disc(int radius);

/// Grey dilation: every pixel becomes the greatest of those at `offsets` from it; what is outside
/// the image does not count.
Patch dilate(const Patch& image, const std::vector<Point>& offsets);

/// Draws a line of value 255 from `from` to `to`, both included: Bresenham's for width 1, Pillow's
/// filled rectangle for wider ones. The line must lie within the image.
void draw_line(Patch& image, Point from, Point to, int width);

/// Resizing of square images along both axes, `in` pixels a side to `out`.
class Resizer {
 public:
  enum class Filter { kLanczos, kTriangle };
  Resizer(int in, int out, Filter filter);

  /// The part of the result that covers rows y0.. and columns x0.. of `height` and `width`; `image`
  /// holds all of the input that is not 0.
  Patch resize(const Patch& image, Point corner, int height, int width) const;

 private:
  struct Taps {
    int first = 0;                 // input index of the first weight
    std::vector<int32_t> weights;  // of 2^22
  };
  std::vector<Taps> taps_;  // [out]
};

}  // namespace lra
