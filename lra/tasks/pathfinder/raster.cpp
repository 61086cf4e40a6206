#include "lra/tasks/pathfinder/raster.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numbers>

namespace lra {
namespace {

constexpr int kPrecision = 22;  // bits of a resizing weight, as in Pillow

double sinc(double t) {
  if (t == 0) return 1;
  return std::sin(t * std::numbers::pi) / (t * std::numbers::pi);
}

double filter_value(Resizer::Filter filter, double t) {
  if (filter == Resizer::Filter::kTriangle) return std::max(0.0, 1 - std::abs(t));
  return t >= -3 && t < 3 ? sinc(t) * sinc(t / 3) : 0;
}

uint8_t clip(int32_t sum) { return static_cast<uint8_t>(std::clamp(sum >> kPrecision, 0, 255)); }

// n / d rounded to the nearest integer, halves away from zero (Pillow's ROUND_UP) or towards it
// (ROUND_DOWN); d > 0.
int round_half_away(int n, int d) {
  return n >= 0 ? (2 * n + d) / (2 * d) : -((-2 * n + d) / (2 * d));
}
int round_half_toward(int n, int d) {
  return n >= 0 ? (2 * n + d - 1) / (2 * d) : -((-2 * n + d - 1) / (2 * d));
}

void draw_thin_line(Patch& image, Point from, Point to) {
  const int dy = std::abs(to.y - from.y), dx = std::abs(to.x - from.x);
  const int step_y = to.y < from.y ? -1 : 1, step_x = to.x < from.x ? -1 : 1;
  const bool flat = dx > dy;
  const int steps = std::max(dx, dy), minor = 2 * std::min(dx, dy);
  int error = minor - steps;
  for (int i = 0; i < steps; ++i) {
    image.at(from.y, from.x) = 255;
    if (error >= 0) {
      (flat ? from.y : from.x) += flat ? step_y : step_x;
      error -= 2 * steps;
    }
    error += minor;
    (flat ? from.x : from.y) += flat ? step_x : step_y;
  }
  image.at(to.y, to.x) = 255;
}

// Fills a convex polygon: on every row from its leftmost to its rightmost intersection.
void fill(Patch& image, const std::vector<Point>& corners) {
  const auto [top, bottom] = std::ranges::minmax(corners, {}, &Point::y);
  for (int y = top.y; y <= bottom.y; ++y) {
    int left = image.width, right = -1;
    for (size_t i = 0; i < corners.size(); ++i) {
      Point a = corners[i], b = corners[(i + 1) % corners.size()];
      if (a.y > b.y) std::swap(a, b);
      if (y < a.y || y > b.y) continue;
      if (a.y == b.y) {
        left = std::min({left, a.x, b.x});
        right = std::max({right, a.x, b.x});
        continue;
      }
      const int height = b.y - a.y;
      const int numerator = a.x * height + (y - a.y) * (b.x - a.x);  // of x over `height`
      left = std::min(left, round_half_away(numerator, height));
      right = std::max(right, round_half_toward(numerator, height));
    }
    for (int x = left; x <= right; ++x) image.at(y, x) = 255;
  }
}

void draw_wide_line(Patch& image, Point from, Point to, int width) {
  const int dy = to.y - from.y, dx = to.x - from.x;
  const double length = std::hypot(dx, dy);
  // Half the width to either side, the odd pixel on one of them. For the paddles of Pathfinder no
  // product below is within 0.005 of a half, so that the last bit of hypot() decides nothing.
  const double far = width / 2 / length, near = (width - 1) / 2 / length;
  const auto round = [](double value) {
    return static_cast<int>(value >= 0 ? std::ceil(value - 0.5) : -std::ceil(-value - 0.5));
  };
  const int far_y = round(far * dy), near_y = round(near * dy);
  const int far_x = round(far * dx), near_x = round(near * dx);
  fill(image, {{from.y + far_x, from.x - near_y},
               {to.y + far_x, to.x - near_y},
               {to.y - near_x, to.x + far_y},
               {from.y - near_x, from.x + far_y}});
}

}  // namespace

std::vector<Point> disc(int radius) {
  std::vector<Point> offsets;
  for (int dy = -radius; dy <= radius; ++dy) {
    for (int dx = -radius; dx <= radius; ++dx) {
      if (dy * dy + dx * dx <= radius * radius) offsets.push_back({dy, dx});
    }
  }
  return offsets;
}

Patch dilate(const Patch& image, const std::vector<Point>& offsets) {
  Patch result(image.origin, image.height, image.width);
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; ++x) {
      for (const Point offset : offsets) {
        if (!image.contains(y + offset.y, x + offset.x)) continue;
        result.at(y, x) = std::max(result.at(y, x), image.at(y + offset.y, x + offset.x));
      }
    }
  }
  return result;
}

void draw_line(Patch& image, Point from, Point to, int width) {
  if (width == 1) {
    draw_thin_line(image, from, to);
  } else {
    draw_wide_line(image, from, to, width);
  }
}

Resizer::Resizer(int in, int out, Filter filter) : taps_(static_cast<size_t>(out)) {
  const double scale = static_cast<double>(in) / out;
  const double support = (filter == Filter::kLanczos ? 3 : 1) * scale;
  for (int i = 0; i < out; ++i) {
    Taps& taps = taps_[static_cast<size_t>(i)];
    const double center = (i + 0.5) * scale;
    taps.first = std::max(0, static_cast<int>(center - support + 0.5));
    const int end = std::min(in, static_cast<int>(center + support + 0.5));
    std::vector<double> weights;
    double sum = 0;
    for (int j = taps.first; j < end; ++j) {
      weights.push_back(filter_value(filter, (j - center + 0.5) / scale));
      sum += weights.back();
    }
    for (const double weight : weights) {
      const double fixed = weight / sum * (1 << kPrecision);
      taps.weights.push_back(static_cast<int32_t>(fixed < 0 ? fixed - 0.5 : fixed + 0.5));
    }
  }
}

Patch Resizer::resize(const Patch& image, Point corner, int height, int width) const {
  // Horizontal pass: the rows of `image`, the columns of the result.
  Patch rows({image.origin.y, corner.x}, image.height, width);
  for (int x = 0; x < width; ++x) {
    const Taps& taps = taps_[static_cast<size_t>(corner.x + x)];
    const int begin = std::max(taps.first, image.origin.x);
    const int end =
        std::min(taps.first + static_cast<int>(taps.weights.size()), image.origin.x + image.width);
    for (int y = 0; y < image.height; ++y) {
      int32_t sum = 1 << (kPrecision - 1);
      for (int i = begin; i < end; ++i) {
        sum += taps.weights[static_cast<size_t>(i - taps.first)] * image.at(y, i - image.origin.x);
      }
      rows.at(y, x) = clip(sum);
    }
  }
  Patch result(corner, height, width);
  for (int y = 0; y < height; ++y) {
    const Taps& taps = taps_[static_cast<size_t>(corner.y + y)];
    const int begin = std::max(taps.first, rows.origin.y);
    const int end =
        std::min(taps.first + static_cast<int>(taps.weights.size()), rows.origin.y + rows.height);
    for (int x = 0; x < width; ++x) {
      int32_t sum = 1 << (kPrecision - 1);
      for (int i = begin; i < end; ++i) {
        sum += taps.weights[static_cast<size_t>(i - taps.first)] * rows.at(i - rows.origin.y, x);
      }
      result.at(y, x) = clip(sum);
    }
  }
  return result;
}

}  // namespace lra
