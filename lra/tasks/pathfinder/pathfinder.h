// Pathfinder: two dashed curves among distractors; do the two discs sit on the ends of one curve?
// (Linsley et al. 2018, "Learning long-range spatial dependencies with horizontal gated recurrent
// units"; Long Range Arena, Tay et al. 2020, at 32 x 32, and at 128 x 128 as Path-X.)
//
// The generator follows github.com/drewlinsley/pathfinder with the settings of LRA's data, to the
// last bit wherever nothing is drawn at random. An image takes one core 0.08 ms at 32 x 32 (16 s
// for LRA's 200,000), 2.6 ms at 64 x 64, 4 ms at 128 x 128 and 5 ms at 256 x 256.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "attention_variants/base/random.h"
#include "lra/tasks/pathfinder/raster.h"

namespace lra {
struct PrepareOptions;
class SplitWriter;
}  // namespace lra

namespace lra::pathfinder {

/// Rules of the reference generator that are not obvious. Other rules make another task: they
/// are here to test the tests.
struct Rules {
  bool ceil_steps = true;      // steps end at the next higher pixel, not at the nearest
  bool ringing = true;         // Lanczos, not bilinear, resizing
  bool refuse_overlap = true;  // a paddle must not lie on others
  bool mask_lags = true;       // a contour's last paddle does not yet bar the way
};

/// The settings of one size and difficulty. Lengths are in pixels.
struct Config {
  int side = 0;
  int padding = 0;           // the outermost pixels, which no paddle may enter
  std::vector<int> margins;  // around paddles; one is drawn for each image
  int paddle_length = 0;
  double paddle_thickness = 0;
  int antialias = 2;         // paddles and discs are drawn so many times larger
  int seed_distance = 0;     // between the first paddles of the two curves
  double marker_radius = 0;  // of the discs
  double continuity = 0;     // the larger, the straighter the curves
  double target_contrast = 0, distractor_contrast = 0;
  int target_paddles = 0, distractor_paddles = 0;  // a curve
  int distractors = 0;                             // curves, at most
  Rules rules;
};

/// The settings of LRA's data: resolution 32, 64, 128 or 256; difficulty easy, intermediate or
/// hard. Throws UsageError that lists the valid ones.
Config config(int64_t resolution, const std::string& difficulty);

struct Image {
  std::vector<uint8_t> pixels;  // [side, side] grey values
  int label = 0;                // 1: the discs sit on the ends of one curve
  // How it came about. Index 0 is the curve that was begun first.
  std::array<Point, 2> origins, terminals;
  int margin = 0, distractors = 0;
  int64_t attempts = 0;             // pairs of curves begun
  int64_t distractor_attempts = 0;  // distractors begun
  double brightest = 0;  // before the grey values were spread over 0 to 255; 1 is a disc's
};

class Markers;
class Paddles;

/// Draws images of one configuration. Construction is slow; drawing may run on many threads.
class Generator {
 public:
  explicit Generator(Config config);
  ~Generator();
  Image draw(CounterRandom& random) const;

 private:
  Config config_;
  std::vector<Paddles> paddles_;  // one for each margin
  std::unique_ptr<const Markers> markers_;
};

/// What generate() draws. Image i comes from stream i under `seed`, so the result is the same for
/// any number of threads.
struct GenerateOptions {
  Config config;
  uint64_t seed = 0;
  int64_t count = 0;
  int64_t threads = 0;  // 0 = all cores
  std::function<void(int64_t)> progress;
  const std::atomic<bool>* stop = nullptr;
};

/// Calls `accept` for `count` images in their order. Throws Error where `stop` was set.
void generate(const GenerateOptions& options, const std::function<void(const Image&)>& accept);

/// How read_release() divides the images, as manifests and reports call it.
inline constexpr const char* kReleaseSplit = "permutation 42 (S4's), 80/10/10";

/// The images of LRA's release under `options.source` (a folder or an archive) at this size, split
/// as S4 and most others do.
struct Release {
  std::map<std::string, SplitWriter> splits;
  std::string part;                // "pathfinder32/curv_contour_length_14"
  std::string folder;              // its path within the source
  std::vector<std::string> notes;  // of other copies of it
  int64_t skipped = 0;             // images left out because their file is empty
};
Release read_release(const PrepareOptions& options, int64_t resolution,
                     const std::string& difficulty);

/// The image as rows of characters, a character a pixel.
std::string render(std::span<const uint16_t> ids);

}  // namespace lra::pathfinder
