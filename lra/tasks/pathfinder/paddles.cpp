#include "lra/tasks/pathfinder/paddles.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace lra::pathfinder {
namespace {

constexpr double kPi = std::numbers::pi;
constexpr double kFullWeight = 1ull << 36;
constexpr uint8_t kFree = 76;  // of 255: the greatest value not above 0.3

Resizer::Filter filter_of(const Rules& rules) {
  return rules.ringing ? Resizer::Filter::kLanczos : Resizer::Filter::kTriangle;
}

double radians(int degrees) { return degrees * kPi / 180; }

double reversed(double angle) { return angle < 0 ? angle + kPi : angle - kPi; }

// [a] the greatest value b for which a / 255 + b / 255 is below 1.8. The reference adds 32-bit
// quotients in 64 bits, which decides where a + b is 459.
std::array<uint8_t, 256> greatest_partners() {
  std::array<uint8_t, 256> greatest{};
  const auto value = [](int v) { return static_cast<double>(static_cast<float>(v / 255.0)); };
  for (int a = 0; a < 256; ++a) {
    int b = std::min(255, 459 - a);
    while (value(a) + value(b) >= 1.8) --b;
    greatest[static_cast<size_t>(a)] = static_cast<uint8_t>(b);
  }
  return greatest;
}

const std::array<uint8_t, 256> kGreatestPartners = greatest_partners();

}  // namespace

Step::Step(double angle, double length)
    : dy(length * std::sin(angle)), dx(length * std::cos(angle)) {}

Point Step::up(Point start) const {
  return {static_cast<int>(std::ceil(start.y + dy)), static_cast<int>(std::ceil(start.x + dx))};
}

Point Step::nearest(Point start) const {
  return {static_cast<int>(std::nearbyint(start.y + dy)),
          static_cast<int>(std::nearbyint(start.x + dx))};
}

double Mask::free_share() const {
  const auto free = std::ranges::count_if(values_, [](uint8_t value) { return value <= kFree; });
  return static_cast<double>(free) / static_cast<double>(values_.size());
}

void Mask::frame(int width) {
  for (int y = 0; y < side_; ++y) {
    for (int x = 0; x < side_; ++x) {
      if (std::min({y, x, side_ - 1 - y, side_ - 1 - x}) < width) at(y, x) = 255;
    }
  }
}

void Mask::take(const Sprite& sprite, Point start) {
  for (const Sprite::Entry& entry : sprite.room) {
    const int y = start.y + entry.dy, x = start.x + entry.dx;
    if (contains(y, x)) at(y, x) = std::max(at(y, x), entry.value);
  }
}

bool Mask::has_room(const Sprite& sprite, Point start) const {
  for (const Sprite::Entry& entry : sprite.room) {
    if (entry.value <= kGreatestPartners[255]) break;  // as are all that follow
    const int y = start.y + entry.dy, x = start.x + entry.dx;
    if (contains(y, x) && at(y, x) > kGreatestPartners[entry.value]) return false;
  }
  return true;
}

Paddles::Paddles(const Config& config, int margin)
    : config_(config), margin_(margin), around_(disc(margin)) {
  for (int i = 0; i < kDegrees; ++i) seeds_.push_back(make_seed(radians(i - 180)));
  for (const Point offset : make_ring()) {
    const double angle = std::atan2(offset.y, offset.x);
    ring_.push_back({offset, sprite(reversed(angle))});
    ring_angles_.push_back(angle);
  }
  const auto add = [&](double angle) {
    directions_.push_back({angle, Step(angle, config.paddle_length + 2 * margin), weights(angle)});
  };
  for (int i = 0; i < kDegrees; ++i) add(radians(i - 180));
  for (const double angle : ring_angles_) add(angle);
  for (int i = 0; i < kDegrees; ++i) to_second_.emplace_back(radians(i), config.seed_distance);
}

Sprite Paddles::sprite(double angle) const {
  const int half =
      config_.paddle_length + static_cast<int>(std::ceil(config_.paddle_thickness)) + margin_;
  const int scale = config_.antialias, side = 2 * half + 1, large = 2 * half * scale + 1;
  const Resizer resizer(large, side, filter_of(config_.rules));
  const Point center{half * scale, half * scale};
  Patch canvas({0, 0}, large, large);
  draw_line(canvas, center, end(Step(angle, config_.paddle_length * scale), center),
            static_cast<int>(config_.paddle_thickness * scale));
  Sprite result{half,
                resizer.resize(canvas, {0, 0}, side, side),
                resizer.resize(dilate(canvas, disc(margin_ * scale)), {0, 0}, side, side),
                {}};
  for (int y = 0; y < side; ++y) {
    for (int x = 0; x < side; ++x) {
      if (const uint8_t value = result.mask.at(y, x); value > 0)
        result.room.push_back({y - half, x - half, value});
    }
  }
  std::ranges::stable_sort(result.room, std::ranges::greater(), &Sprite::Entry::value);
  return result;
}

Seed Paddles::make_seed(double angle) const {
  const int reach = config_.paddle_length + margin_;
  Seed seed{.sprite = sprite(angle),
            .to_head = Step(angle, config_.paddle_length),
            .to_pivot = Step(reversed(angle), reach)};
  // The reference paints the mask into a square of 2 reach + 1, with the start one pixel past its
  // centre, and dilates by that.
  for (const Sprite::Entry& entry : seed.sprite.room) {
    const Point offset{entry.dy + 1, entry.dx + 1};
    if (entry.value == 255 && std::max(std::abs(offset.y), std::abs(offset.x)) <= reach)
      seed.needed.push_back(offset);
  }
  // What happens at the border happens on a small image too.
  const Mask small(std::min(config_.side, 4 * reach));
  for (int y = 0; y < small.side(); ++y) {
    for (int x = 0; x < small.side(); ++x) {
      seed.barred |= std::ranges::none_of(
          seed.needed, [&](Point offset) { return small.contains(y + offset.y, x + offset.x); });
    }
  }
  if (seed.barred) return seed;
  const auto [top, bottom] = std::ranges::minmax(seed.needed, {}, &Point::y);
  const auto [left, right] = std::ranges::minmax(seed.needed, {}, &Point::x);
  const int inner = 2 * config_.seed_distance, end = config_.side - 1 - inner;
  seed.first = {inner - top.y, inner - left.x};
  seed.last = {end - bottom.y, end - right.x};
  return seed;
}

std::vector<Point> Paddles::make_ring() const {
  const double radius = config_.paddle_length + margin_;
  const double degrees_per_pixel = 360.0 / (2 * radius * kPi);
  std::vector<Point> ring;
  for (int i = 0; i * degrees_per_pixel < 360; ++i) {
    const double angle = i * degrees_per_pixel * kPi / 180;
    ring.push_back({static_cast<int>(std::floor(radius * std::sin(angle))),
                    static_cast<int>(std::floor(radius * std::cos(angle)))});
  }
  std::ranges::sort(ring, {}, [](Point p) { return std::pair(p.y, p.x); });
  ring.erase(std::unique(ring.begin(), ring.end()), ring.end());
  return ring;
}

std::vector<uint64_t> Paddles::weights(double angle) const {
  std::vector<uint64_t> result;
  for (const double ring_angle : ring_angles_) {
    double turn = std::abs(ring_angle - angle);
    turn = std::min(turn, 2 * kPi - turn);
    const double cosine = std::cos(std::min(config_.continuity * turn, kPi / 2));
    result.push_back(static_cast<uint64_t>(std::nearbyint(cosine * cosine * kFullWeight)));
  }
  return result;
}

bool Paddles::chances(Point pivot, const std::vector<uint64_t>& weights, const Mask& mask,
                      std::vector<uint64_t>& sums) const {
  sums.assign(ring_.size(), 0);
  uint64_t sum = 0;  // at most 51 * 255 * 2^36, so that a double holds it exactly
  for (size_t i = 0; i < ring_.size(); ++i) {
    const int y = pivot.y + ring_[i].offset.y, x = pivot.x + ring_[i].offset.x;
    if (weights[i] > 0 && mask.contains(y, x)) {
      uint8_t taken = 0;
      for (const Point offset : around_) {
        if (mask.contains(y + offset.y, x + offset.x))
          taken = std::max(taken, mask.at(y + offset.y, x + offset.x));
      }
      sum += weights[i] * (255u - taken);
    }
    sums[i] = sum;
  }
  return static_cast<double>(sum) >= 1e-4 * 255 * kFullWeight;
}

std::vector<Point> Paddles::starts(const Seed& seed, const Mask& mask) const {
  std::vector<Point> starts;
  if (seed.barred) return starts;
  const int side = mask.side();
  Mask taken(side), barred(side);
  for (int y = 0; y < side; ++y) {
    for (int x = 0; x < side; ++x) taken.at(y, x) = mask.at(y, x) > kFree;
  }
  for (const Point offset : seed.needed) {
    const int left = std::max(0, -offset.x), right = std::min(side, side - offset.x);
    for (int y = std::max(0, -offset.y); y < std::min(side, side - offset.y); ++y) {
      const uint8_t* from = &taken.at(y + offset.y, left + offset.x);
      uint8_t* to = &barred.at(y, left);
      for (int x = 0; x < right - left; ++x) to[x] |= from[x];
    }
  }
  for (int y = 0; y < side; ++y) {
    for (int x = 0; x < side; ++x) {
      if (barred.at(y, x) == 0) starts.push_back({y, x});
    }
  }
  return starts;
}

Markers::Markers(const Config& config)
    : side_(config.side),
      scale_(config.antialias),
      radius_(config.marker_radius),
      resizer_(side_ * scale_, side_, filter_of(config.rules)) {}

Patch Markers::at(Point center) const {
  // The disc on the larger canvas, in the smallest patch that holds it.
  const Point large{center.y * scale_, center.x * scale_};
  const double radius = radius_ * scale_;
  const int reach = static_cast<int>(std::ceil(radius)), end = side_ * scale_ - 1;
  const Point first{std::max(0, large.y - reach), std::max(0, large.x - reach)};
  const Point last{std::min(end, large.y + reach), std::min(end, large.x + reach)};
  Patch disc(first, last.y - first.y + 1, last.x - first.x + 1);
  for (int y = 0; y < disc.height; ++y) {
    for (int x = 0; x < disc.width; ++x) {
      const int dy = first.y + y - large.y, dx = first.x + x - large.x;
      if (dy * dy + dx * dx <= radius * radius) disc.at(y, x) = 255;
    }
  }
  // Resizing spreads it by three pixels; one more for rounding.
  const int spread = static_cast<int>(std::ceil(radius_)) + 4;
  const Point corner{std::max(0, center.y - spread), std::max(0, center.x - spread)};
  return resizer_.resize(disc, corner, std::min(side_ - 1, center.y + spread) - corner.y + 1,
                         std::min(side_ - 1, center.x + spread) - corner.x + 1);
}

}  // namespace lra::pathfinder
