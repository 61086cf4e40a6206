// Pathfinder: everything about paddles that depends on the configuration alone, computed once, and
// the room they take. Coordinates are (row y, column x); an angle a points to (sin a, cos a).
#pragma once

#include <vector>

#include "lra/tasks/pathfinder/pathfinder.h"

namespace lra::pathfinder {

/// How far a way of some length under some angle leads. The sum with the start is rounded in
/// doubles: that sin(pi) is 1.2e-16 does move pixels near the border, as in the reference. Relied
/// upon for the same images on every machine: sin and cos are right to the last bit at multiples of
/// 30 degrees; at all other angles no sum is near an integer.
struct Step {
  double dy = 0, dx = 0;
  Step() = default;
  Step(double angle, double length);
  /// The next pixel down and to the right of the end.
  Point up(Point start) const;
  /// The pixel nearest to the end, halves to the even one.
  Point nearest(Point start) const;
};

/// A paddle as it is drawn, its start at (half, half) of both patches.
struct Sprite {
  int half = 0;
  Patch line, mask;  // [2 half + 1, 2 half + 1]: what is seen, and the room it takes
  struct Entry {
    int dy, dx;  // from the start
    uint8_t value;
  };
  std::vector<Entry> room;  // the mask where it is not 0, the greatest values first
};

/// The room taken on a square image, 0 to 255.
class Mask {
 public:
  explicit Mask(int side) : side_(side), values_(static_cast<size_t>(side * side)) {}
  int side() const { return side_; }
  bool contains(int y, int x) const {
    return static_cast<unsigned>(y) < static_cast<unsigned>(side_) &&
           static_cast<unsigned>(x) < static_cast<unsigned>(side_);
  }
  bool contains(Point p) const { return contains(p.y, p.x); }
  uint8_t& at(int y, int x) { return values_[static_cast<size_t>(y * side_ + x)]; }
  uint8_t at(int y, int x) const { return values_[static_cast<size_t>(y * side_ + x)]; }
  /// The share of pixels that count as free: at most 0.3 taken.
  double free_share() const;
  /// Takes every pixel within `width` of the border.
  void frame(int width);
  /// Takes the room of a paddle that starts there, as far as it lies on the image.
  void take(const Sprite& sprite, Point start);
  /// Whether a paddle may start there: what it takes and what is taken is nowhere 1.8 or more, a
  /// full pixel being 1.
  bool has_room(const Sprite& sprite, Point start) const;

 private:
  int side_;
  std::vector<uint8_t> values_;  // [side, side]
};

/// A first paddle, of one degree.
struct Seed {
  Sprite sprite;
  Step to_head, to_pivot;     // from its start to its end, from there to the pivot
  std::vector<Point> needed;  // pixels that must be free around a start, if they are on the image
  /// For some pixel none of `needed` is on the image: the reference then finds no start at all.
  bool barred = false;
  Point first, last;  // the rectangle of starts of the first target; empty where first > last
};

/// A pixel where the next paddle may start, seen from the pivot; it points back at the pivot.
struct RingPixel {
  Point offset;
  Sprite sprite;
};

/// A direction in which a curve goes on: those of first paddles (number d is d - 180 degrees), then
/// those from the pivot to each pixel of the ring.
struct Direction {
  double angle = 0;
  Step to_next_pivot;
  std::vector<uint64_t> weights;  // [ring] of each pixel as the next start, 2^36 straight ahead
};

class Paddles {
 public:
  static constexpr int kDegrees = 360;

  Paddles(const Config& config, int margin);

  const Seed& seed(int degree_index) const { return seeds_[static_cast<size_t>(degree_index)]; }
  const std::vector<RingPixel>& ring() const { return ring_; }
  const Direction& direction(int index) const { return directions_[static_cast<size_t>(index)]; }
  /// The number of the direction to a pixel of the ring.
  static int direction_to(size_t ring_index) { return kDegrees + static_cast<int>(ring_index); }
  /// From the first target's start to the second's, by degree from 0.
  const Step& to_second(int degree) const { return to_second_[static_cast<size_t>(degree)]; }

  /// The pixel where a step ends.
  Point end(const Step& step, Point start) const {
    return config_.rules.ceil_steps ? step.up(start) : step.nearest(start);
  }
  /// [ring] the weights after a paddle under `angle`: cos^2 of `continuity` times the turn.
  std::vector<uint64_t> weights(double angle) const;
  /// Running sums of the chances to start the next paddle at each pixel of the ring around `pivot`,
  /// given what is taken; false where there is as good as none.
  bool chances(Point pivot, const std::vector<uint64_t>& weights, const Mask& mask,
               std::vector<uint64_t>& sums) const;
  /// The pixels where a first paddle of this seed may start, row by row.
  std::vector<Point> starts(const Seed& seed, const Mask& mask) const;

 private:
  Sprite sprite(double angle) const;
  Seed make_seed(double angle) const;
  std::vector<Point> make_ring() const;

  Config config_;
  int margin_;
  std::vector<Point> around_;  // within the margin's radius
  std::vector<Seed> seeds_;
  std::vector<RingPixel> ring_;  // by (y, x)
  std::vector<double> ring_angles_;
  std::vector<Direction> directions_;
  std::vector<Step> to_second_;
};

/// The discs on the ends of curves, centred on the upper left corner of a pixel.
class Markers {
 public:
  explicit Markers(const Config& config);
  /// All of one that is not 0, as far as it lies on the image.
  Patch at(Point center) const;

 private:
  int side_, scale_;
  double radius_;  // in pixels of the image
  Resizer resizer_;
};

}  // namespace lra::pathfinder
