#include "results/print/circles.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "results/print/table.h"

namespace lra {
namespace {

struct Rectangle {
  double left = 0, right = 0, bottom = 0, top = 0;

  double overlap(const Rectangle& other) const {
    const double wide = std::min(right, other.right) - std::max(left, other.left),
                 high = std::min(top, other.top) - std::max(bottom, other.bottom);
    return wide > 0 && high > 0 ? wide * high : 0;
  }
  double area() const { return (right - left) * (top - bottom); }
};

double part_of(double value, const PlotRange& range, bool log) {
  if (!log) return (value - range.low) / (range.high - range.low);
  return std::log(value / range.low) / std::log(range.high / range.low);
}

// In pixels: a circle and its interval.
struct Mark {
  double x = 0, y = 0, radius = 0;
  Rectangle circle, interval;
};

Rectangle around(double x, double y, double half_width, double half_height) {
  return {x - half_width, x + half_width, y - half_height, y + half_height};
}

}  // namespace

CircleLabel on_picture(const Plot& plot, const PlotBox& box, double x, double y) {
  const double across = part_of(x, *plot.x_range, plot.log_x),
               up = part_of(y, *plot.y_range, plot.log_y);
  return {box.left + across * (box.right - box.left), box.bottom + up * (box.top - box.bottom)};
}

std::vector<CircleLabel> label_places(const Plot& plot, const PlotBox& box) {
  constexpr double kLetter = 6.6, kHalfLine = 8, kGap = 4;  // pixels of a font of 11 points
  std::vector<Mark> marks;
  for (const PlotSeries& series : plot.series) {
    const auto& [x, y, low, high] = series.points.front();
    const CircleLabel middle = on_picture(plot, box, x, y);
    Mark mark{.x = middle.x * plot.width,
              .y = middle.y * plot.height,
              .radius = series.radius * plot.width};
    mark.circle = around(mark.x, mark.y, mark.radius, mark.radius);
    mark.interval = {mark.x - 4, mark.x + 4, on_picture(plot, box, x, low).y * plot.height,
                     on_picture(plot, box, x, high).y * plot.height};
    marks.push_back(mark);
  }
  const Rectangle inside{box.left * plot.width, box.right * plot.width, box.bottom * plot.height,
                         box.top * plot.height};
  std::vector<CircleLabel> places;
  std::vector<Rectangle> taken;
  for (size_t i = 0; i < marks.size(); ++i) {
    const double half = kLetter / 2 * static_cast<double>(display_width(plot.series[i].name));
    const Mark& own = marks[i];
    const double aside = own.radius + kGap + half, above = own.radius + kGap + kHalfLine,
                 corner = 0.71 * own.radius + kGap;
    const std::array<std::pair<double, double>, 8> ways{{{aside, 0},
                                                         {-aside, 0},
                                                         {corner + half, corner},
                                                         {corner + half, -corner},
                                                         {-corner - half, corner},
                                                         {-corner - half, -corner},
                                                         {0, above},
                                                         {0, -above}}};
    Rectangle best;
    double least = std::numeric_limits<double>::infinity();
    for (const auto& [right, up] : ways) {
      const Rectangle name = around(own.x + right, own.y + up, half, kHalfLine);
      double cost = 4 * (name.area() - name.overlap(inside));
      for (const Mark& mark : marks) {
        // On the circle of another a name would be taken for that one's.
        const double weight = &mark == &own ? 1 : 4;
        cost += weight * name.overlap(mark.circle) + 2 * name.overlap(mark.interval);
      }
      for (const Rectangle& other : taken) cost += 3 * name.overlap(other);
      if (cost >= least) continue;
      least = cost;
      best = name;
    }
    taken.push_back(best);
    places.push_back(
        {(best.left + best.right) / 2 / plot.width, (best.bottom + best.top) / 2 / plot.height});
  }
  return places;
}

}  // namespace lra
