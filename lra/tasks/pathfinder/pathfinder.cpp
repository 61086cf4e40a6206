// Pathfinder: the settings of LRA's data, and images as text. See pathfinder.h.
#include "lra/tasks/pathfinder/pathfinder.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "attention_variants/base/error.h"

namespace lra::pathfinder {

Config config(int64_t resolution, const std::string& difficulty) {
  const std::vector<std::string> difficulties = {"easy", "intermediate", "hard"};
  const auto it = std::ranges::find(difficulties, difficulty);
  if (it == difficulties.end()) throw unknown_name("difficulty", difficulty, difficulties);
  constexpr int kTargetPaddles[] = {6, 9, 14};

  Config config{.side = static_cast<int>(resolution)};
  config.target_paddles = kTargetPaddles[it - difficulties.begin()];
  config.distractor_paddles = config.target_paddles / 3;
  int distractor_paddles = 0;  // in all
  double paddle_contrast = 1;  // of targets; distractors are at full contrast
  config.padding = 1;
  config.continuity = 1.8;
  switch (resolution) {
    case 32:
      config.margins = {1};
      config.paddle_length = 2;
      config.paddle_thickness = 0.5;
      config.seed_distance = 7;
      config.marker_radius = 1.5;
      config.continuity = 1;
      distractor_paddles = 20;
      config.distractor_contrast = 2;
      paddle_contrast = 0.75;
      break;
    case 64:
      config.margins = {1};
      config.paddle_length = 5;
      config.paddle_thickness = 1;
      config.seed_distance = 12;
      config.marker_radius = 2.5;
      distractor_paddles = 22;
      config.distractor_contrast = 0.8;
      break;
    case 128:
      config.margins = {2, 3};
      config.paddle_length = 5;
      config.paddle_thickness = 1.5;
      config.seed_distance = 20;
      config.marker_radius = 3;
      distractor_paddles = 35;
      config.distractor_contrast = 0.9;
      break;
    case 256:
      config.padding = 22;
      config.margins = {3};
      config.paddle_length = 5;
      config.paddle_thickness = 2;
      config.seed_distance = 27;
      config.marker_radius = 5;
      distractor_paddles = 30;
      config.distractor_contrast = 1;
      break;
    default:
      throw UsageError("--resolution should be 32, 64, 128 or 256, not " +
                       std::to_string(resolution));
  }
  config.target_contrast = config.distractor_contrast * paddle_contrast;
  config.distractors = distractor_paddles / config.distractor_paddles;
  return config;
}

std::string render(std::span<const uint16_t> ids) {
  constexpr std::string_view kShades = " .:-=+*#%@";
  const auto side = static_cast<size_t>(std::lround(std::sqrt(static_cast<double>(ids.size()))));
  std::string text;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i > 0 && i % std::max<size_t>(side, 1) == 0) text += '\n';
    text += kShades[std::min<size_t>(ids[i], 255) * kShades.size() / 256];
  }
  return text;
}

}  // namespace lra::pathfinder
