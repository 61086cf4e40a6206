#include "harness/attend/predict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "attention_variants/python_host.h"
#include "harness/host/temporary_folder.h"
#include "harness/training/evaluation.h"
#include "lra/data/task.h"

namespace lra {
namespace {

// Of a run whose images are squares: with another number of pixels each would stand elsewhere.
void check_pixels(int64_t pixels, int64_t length) {
  const auto squares = [](int64_t n) {
    const auto side = static_cast<int64_t>(std::lround(std::sqrt(static_cast<double>(n))));
    return side * side == n;
  };
  if (squares(length) ? pixels == length : squares(pixels)) return;
  throw Error(squares(length)
                  ? fmt::format("the image should have {} pixels, not {}", length, pixels)
                  : fmt::format("an image is a square, not {} pixels", pixels));
}

// The samples, all of label 0.
SplitWriter read_lines(const Task& task, std::span<const std::string> lines, int64_t length,
                       const std::string& from) {
  SplitWriter split(task.sequences());
  for (size_t i = 0; i < lines.size(); ++i) {
    try {
      for (const std::vector<uint16_t>& ids : sample_of_line(task, lines[i])) {
        if (task.image) check_pixels(std::ssize(ids), length);
        split.tokens(ids);
      }
      split.label(0);
    } catch (const Error& error) {
      throw Error(
          fmt::format("{}{}line {}: {}", from, from.empty() ? "" : ", ", i + 1, error.what()));
    }
  }
  return split;
}

// Of how many samples an input has more than `most` tokens.
int64_t count_longer(const Split& split, int64_t most) {
  int64_t count = 0;
  for (int64_t i = 0; i < split.size(); ++i) {
    int64_t longest = 0;
    for (int64_t j = 0; j < split.inputs(); ++j) longest = std::max(longest, split.length(i, j));
    count += longest > most ? 1 : 0;
  }
  return count;
}

}  // namespace

PredictedLines predict(const TrainedModel& run, std::span<const std::string> lines,
                       torch::Device device, const std::string& from) {
  Config config = run.config;
  Settings& settings = config.settings;
  const Reading reading = settings.input.reading();
  const Task written = task(config.task, {.colours = reading.colours});
  if (written.position_labels || predicts_tokens(settings.training.objective)) {
    throw UsageError(
        fmt::format("the run predicts {} and no classes of samples; lra evaluate says how well",
                    written.position_labels ? "labels at positions of " + config.task : "tokens"));
  }
  settings.evaluation.drop_last = false;
  const int64_t length = settings.input.length, most = settings.input.kept();
  PredictedLines result;
  if (lines.empty()) return result;
  const SplitWriter samples = read_lines(written, lines, length, from);
  const host::TemporaryFolder folder(host::temporary_place());
  const std::filesystem::path file = folder.path() / "lines.safetensors";
  samples.write(file, written.vocabulary);
  Split split(file, written.sequences(), written.classes, written.vocabulary);
  if (reading.brackets == Brackets::drop) split = split.mapped(written.without_brackets.ids);
  result.cut = count_longer(split, most);
  seed_generators(config.seed);
  const Evaluation made = evaluate(*run.model, split, config, device, "lines");
  for (size_t i = 0; i < made.predicted.size(); ++i)
    result.lines.push_back({.predicted = made.predicted[i], .confidence = made.confidence[i]});
  return result;
}

std::string lines_csv(const PredictedLines& predictions) {
  std::string text = "index,predicted,confidence\n";
  for (size_t i = 0; i < predictions.lines.size(); ++i) {
    const PredictedClass& line = predictions.lines[i];
    text += fmt::format("{},{},{:.5f}\n", i, line.predicted, line.confidence);
  }
  return text;
}

}  // namespace lra
