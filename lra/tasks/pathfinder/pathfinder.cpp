// Pathfinder: the settings of LRA's data, and images as text. See pathfinder.h.
#include "lra/tasks/pathfinder/pathfinder.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "attention_variants/base/error.h"
#include "lra/data/shades.h"

namespace lra::pathfinder {

namespace {

// What depends on the resolution alone; see Config.
struct Sizes {
  int64_t resolution;
  int padding, least_margin, largest_margin;
  int paddle_length;
  double paddle_thickness;
  int seed_distance;
  double marker_radius, continuity;
  int distractor_paddles;      // in all
  double distractor_contrast;  // of distractors, which are at full contrast
  double paddle_contrast;      // of targets, as a share of that
};

constexpr Sizes kSizes[] = {{.resolution = 32,
                             .padding = 1,
                             .least_margin = 1,
                             .largest_margin = 1,
                             .paddle_length = 2,
                             .paddle_thickness = 0.5,
                             .seed_distance = 7,
                             .marker_radius = 1.5,
                             .continuity = 1,
                             .distractor_paddles = 20,
                             .distractor_contrast = 2,
                             .paddle_contrast = 0.75},
                            {.resolution = 64,
                             .padding = 1,
                             .least_margin = 1,
                             .largest_margin = 1,
                             .paddle_length = 5,
                             .paddle_thickness = 1,
                             .seed_distance = 12,
                             .marker_radius = 2.5,
                             .continuity = 1.8,
                             .distractor_paddles = 22,
                             .distractor_contrast = 0.8,
                             .paddle_contrast = 1},
                            {.resolution = 128,
                             .padding = 1,
                             .least_margin = 2,
                             .largest_margin = 3,
                             .paddle_length = 5,
                             .paddle_thickness = 1.5,
                             .seed_distance = 20,
                             .marker_radius = 3,
                             .continuity = 1.8,
                             .distractor_paddles = 35,
                             .distractor_contrast = 0.9,
                             .paddle_contrast = 1},
                            {.resolution = 256,
                             .padding = 22,
                             .least_margin = 3,
                             .largest_margin = 3,
                             .paddle_length = 5,
                             .paddle_thickness = 2,
                             .seed_distance = 27,
                             .marker_radius = 5,
                             .continuity = 1.8,
                             .distractor_paddles = 30,
                             .distractor_contrast = 1,
                             .paddle_contrast = 1}};

}  // namespace

Config config(int64_t resolution, const std::string& difficulty) {
  const std::vector<std::string> difficulties = {"easy", "intermediate", "hard"};
  const auto it = std::ranges::find(difficulties, difficulty);
  if (it == difficulties.end()) throw unknown_name("difficulty", difficulty, difficulties);
  const auto* const sizes = std::ranges::find(kSizes, resolution, &Sizes::resolution);
  if (sizes == std::end(kSizes)) {
    throw UsageError("--resolution should be 32, 64, 128 or 256, not " +
                     std::to_string(resolution));
  }
  constexpr int kTargetPaddles[] = {6, 9, 14};

  Config config{.side = static_cast<int>(resolution), .padding = sizes->padding};
  for (int margin = sizes->least_margin; margin <= sizes->largest_margin; ++margin)
    config.margins.push_back(margin);
  config.paddle_length = sizes->paddle_length;
  config.paddle_thickness = sizes->paddle_thickness;
  config.seed_distance = sizes->seed_distance;
  config.marker_radius = sizes->marker_radius;
  config.continuity = sizes->continuity;
  config.distractor_contrast = sizes->distractor_contrast;
  config.target_contrast = sizes->distractor_contrast * sizes->paddle_contrast;
  config.target_paddles = kTargetPaddles[it - difficulties.begin()];
  config.distractor_paddles = config.target_paddles / 3;
  config.distractors = sizes->distractor_paddles / config.distractor_paddles;
  return config;
}

std::string render(std::span<const uint16_t> ids) {
  const auto side = static_cast<size_t>(std::lround(std::sqrt(static_cast<double>(ids.size()))));
  return shades(ids, std::max<size_t>(side, 1));
}

}  // namespace lra::pathfinder
