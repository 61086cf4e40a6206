// Pathfinder: curves, distractors, discs. About 320 pairs of curves are begun for an image at
// 32 x 32; 11 of 12 of them end at the first random number.
#include <algorithm>
#include <cmath>

#include "attention_variants/base/error.h"
#include "lra/data/thread_loop.h"
#include "lra/tasks/pathfinder/paddles.h"

namespace lra::pathfinder {
namespace {

constexpr int kTries = 3;            // to place a first paddle or the next one
constexpr int kDistractorTries = 5;  // to draw a distractor

// Uniform in [0, 1), 53 bits.
double uniform(CounterRandom& random) {
  const uint64_t high = random.bits();
  return static_cast<double>((high << 21) | (random.bits() >> 11)) * 0x1p-53;
}

int below(CounterRandom& random, size_t n) {
  return static_cast<int>(random.below(static_cast<uint32_t>(n)));
}

// A paddle where it lies.
struct Placed {
  const Sprite* sprite = nullptr;
  Point start;
};

struct Curve {
  std::vector<Placed> paddles;
  Point pivot;        // the margin before the last paddle
  int direction = 0;  // of the last paddle
  Point tip() const { return paddles.back().start; }
};

// Draws the curves of one image.
class Drawing {
 public:
  Drawing(const Config& config, const Paddles& paddles, CounterRandom& random)
      : config_(config), paddles_(paddles), random_(random), empty_(config.side) {
    empty_.frame(config.padding);
  }

  // Both targets; false where there was no room for some paddle.
  bool draw_targets(std::array<Curve, 2>& targets, Mask& mask) {
    mask = empty_;
    if (!seed_first_target(targets[0])) return false;
    if (!seed_second_target(targets[0].tip(), targets[1])) return false;
    if (!config_.rules.mask_lags) {
      for (const Curve& target : targets) take_last(target, mask);
    }
    for (int i = 1; i < config_.target_paddles; ++i) {
      if (!extend(targets[0], mask) || !extend(targets[1], mask)) return false;
    }
    take_last(targets[1], mask);  // the first one's is never taken, as in the reference
    return true;
  }

  bool draw_distractor(Curve& curve, Mask& mask) {
    if (!seed_distractor(curve, mask)) return false;
    Mask trial = mask;
    if (!config_.rules.mask_lags) take_last(curve, trial);
    for (int i = 1; i < config_.distractor_paddles; ++i) {
      if (!extend(curve, trial)) return false;
    }
    take_last(curve, trial);
    mask = trial;
    return true;
  }

 private:
  static void take_last(const Curve& curve, Mask& mask) {
    mask.take(*curve.paddles.back().sprite, curve.paddles.back().start);
  }

  // Begins a curve there; false where its end or its pivot is not on the image.
  bool begin(Curve& curve, int degree_index, Point start) {
    const Seed& seed = paddles_.seed(degree_index);
    const Point head = paddles_.end(seed.to_head, start);
    const Point pivot = paddles_.end(seed.to_pivot, head);
    if (!empty_.contains(head) || !empty_.contains(pivot)) return false;
    curve.paddles.assign(1, {&seed.sprite, start});
    curve.pivot = pivot;
    curve.direction = degree_index;
    return true;
  }

  bool seed_first_target(Curve& curve) {
    for (int i = 0; i < kTries; ++i) {
      const int degree = below(random_, Paddles::kDegrees);
      const Seed& seed = paddles_.seed(degree);
      const int rows = seed.last.y - seed.first.y + 1, columns = seed.last.x - seed.first.x + 1;
      if (seed.barred || rows <= 0 || columns <= 0) return false;
      const int start = below(random_, static_cast<size_t>(rows * columns));
      if (begin(curve, degree, {seed.first.y + start / columns, seed.first.x + start % columns}))
        return true;
    }
    return false;
  }

  bool seed_second_target(Point first, Curve& curve) {
    for (int i = 0; i < kTries; ++i) {
      const int degree = below(random_, Paddles::kDegrees);
      const Step& way = paddles_.to_second(below(random_, Paddles::kDegrees));
      if (begin(curve, degree, way.nearest(first))) return true;
    }
    return false;
  }

  bool seed_distractor(Curve& curve, const Mask& mask) {
    for (int i = 0; i < kTries; ++i) {
      const int degree = below(random_, Paddles::kDegrees);
      const Seed& seed = paddles_.seed(degree);
      if (seed.barred || mask.free_share() < 0.01) return false;
      Mask framed = mask;
      framed.frame(1);
      const std::vector<Point> starts = paddles_.starts(seed, framed);
      if (starts.empty()) return false;
      const int start = below(random_, starts.size());
      if (begin(curve, degree, starts[static_cast<size_t>(start)])) return true;
    }
    return false;
  }

  // Adds a paddle and takes the room of the one before it; false where there is no room.
  bool extend(Curve& curve, Mask& mask) {
    const Direction& direction = paddles_.direction(curve.direction);
    const Point pivot = paddles_.end(direction.to_next_pivot, curve.pivot);
    if (!paddles_.chances(pivot, direction.weights, mask, sums_)) return false;
    for (int i = 0; i < kTries; ++i) {
      const double target = uniform(random_) * static_cast<double>(sums_.back());
      const auto chosen = static_cast<size_t>(
          std::ranges::upper_bound(sums_, target, {},
                                   [](uint64_t sum) { return static_cast<double>(sum); }) -
          sums_.begin());
      const RingPixel& pixel = paddles_.ring()[chosen];
      const Point start{pivot.y + pixel.offset.y, pivot.x + pixel.offset.x};
      if (config_.rules.refuse_overlap && !mask.has_room(pixel.sprite, start)) continue;
      take_last(curve, mask);
      curve.paddles.push_back({&pixel.sprite, start});
      curve.pivot = pivot;
      curve.direction = Paddles::direction_to(chosen);
      if (!config_.rules.mask_lags) take_last(curve, mask);
      return true;
    }
    return false;
  }

  const Config& config_;
  const Paddles& paddles_;
  CounterRandom& random_;
  Mask empty_;                  // nothing but the padding
  std::vector<uint64_t> sums_;  // [ring]
};

// The picture, before its values are spread over 0 to 255.
class Canvas {
 public:
  explicit Canvas(int side) : side_(side), values_(static_cast<size_t>(side * side)) {}

  void add(const Curve& curve, double contrast) {
    std::array<double, 256> levels;  // 32-bit, as the reference stores them
    for (size_t v = 0; v < 256; ++v)
      levels[v] = static_cast<float>(static_cast<double>(v) / 255 * contrast);
    for (const auto& [sprite, start] : curve.paddles) {
      Patch patch = sprite->line;
      patch.origin = {start.y - sprite->half, start.x - sprite->half};
      add(patch, levels);
    }
  }

  void add(const Patch& marker) {
    std::array<double, 256> levels;
    for (size_t v = 0; v < 256; ++v) levels[v] = static_cast<double>(v) / 255;
    add(marker, levels);
  }

  double brightest() const { return *std::ranges::max_element(values_); }

  // Spread over 0 to 255.
  std::vector<uint8_t> pixels() const {
    const auto [least, greatest] = std::ranges::minmax(values_);
    const double scale = 255 / (greatest > least ? greatest - least : 1);
    std::vector<uint8_t> result;
    for (const double value : values_) {
      const double spread = std::clamp((value - least) * scale, 0.0, 255.0);
      result.push_back(static_cast<uint8_t>(spread + 0.5));
    }
    return result;
  }

 private:
  // Where the patch lies, the greater value of each pixel stays.
  void add(const Patch& patch, const std::array<double, 256>& levels) {
    for (int y = 0; y < patch.height; ++y) {
      for (int x = 0; x < patch.width; ++x) {
        const Point p{patch.origin.y + y, patch.origin.x + x};
        if (p.y < 0 || p.y >= side_ || p.x < 0 || p.x >= side_) continue;
        double& value = values_[static_cast<size_t>(p.y * side_ + p.x)];
        value = std::max(value, levels[patch.at(y, x)]);
      }
    }
  }

  int side_;
  std::vector<double> values_;  // [side, side]
};

}  // namespace

Generator::Generator(Config config) : config_(std::move(config)) {
  for (const int margin : config_.margins) paddles_.emplace_back(config_, margin);
  markers_ = std::make_unique<Markers>(config_);
}

Generator::~Generator() = default;

Image Generator::draw(CounterRandom& random) const {
  Image image;
  image.label = below(random, 2);
  const auto origin = static_cast<size_t>(below(random, 2));
  const auto margin = static_cast<size_t>(below(random, paddles_.size()));
  image.margin = config_.margins[margin];

  Drawing drawing(config_, paddles_[margin], random);
  std::array<Curve, 2> targets;
  Mask mask(config_.side);
  do {
    ++image.attempts;
  } while (!drawing.draw_targets(targets, mask));

  Canvas canvas(config_.side);
  for (size_t i = 0; i < 2; ++i) {
    canvas.add(targets[i], config_.target_contrast);
    image.origins[i] = targets[i].paddles.front().start;
    image.terminals[i] = targets[i].tip();
  }
  for (int i = 0; i < config_.distractors; ++i) {
    Curve distractor;
    for (int attempt = 0; attempt < kDistractorTries; ++attempt) {
      ++image.distractor_attempts;
      if (!drawing.draw_distractor(distractor, mask)) continue;
      canvas.add(distractor, config_.distractor_contrast);
      ++image.distractors;
      break;
    }
  }
  const size_t terminal = image.label == 1 ? origin : 1 - origin;
  for (const Point center : {image.origins[origin], image.terminals[terminal]}) {
    canvas.add(markers_->at(center));
  }
  image.brightest = canvas.brightest();
  image.pixels = canvas.pixels();
  return image;
}

void generate(const GenerateOptions& options, const std::function<void(const Image&)>& accept) {
  const Generator generator(options.config);
  const size_t threads = thread_count(options.threads);
  // How many images are drawn at once decides what a stop waits for, never what is drawn.
  std::vector<Image> batch(64 * threads);
  for (int64_t done = 0; done < options.count;) {
    const auto count = std::min(batch.size(), static_cast<size_t>(options.count - done));
    parallel_for(count, threads, [&](size_t i) {
      if (options.stop != nullptr && *options.stop)
        throw Error("stopped while generating Pathfinder; nothing was written");
      CounterRandom random(options.seed, static_cast<uint64_t>(done) + i);
      batch[i] = generator.draw(random);
    });
    for (size_t i = 0; i < count; ++i) accept(batch[i]);
    done += static_cast<int64_t>(count);
    if (options.progress) options.progress(done);
  }
}

}  // namespace lra::pathfinder
