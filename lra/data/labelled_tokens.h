// Generated samples whose labels stand at positions.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "attention_variants/base/random.h"
#include "lra/data/task.h"

namespace lra {

struct LabelledTokens {
  std::vector<uint16_t> tokens;
  std::vector<int32_t> labels;  // of each token; -1 = none

  /// `length` tokens, all 0, without labels.
  explicit LabelledTokens(int64_t length)
      : tokens(static_cast<size_t>(length)), labels(static_cast<size_t>(length), -1) {}
  void set(int64_t position, uint16_t id) { tokens.at(static_cast<size_t>(position)) = id; }
  void label(int64_t position, int32_t label) { labels.at(static_cast<size_t>(position)) = label; }
};

/// Draws sample `index` of split `split` (an index of kSplits).
using DrawSample = std::function<LabelledTokens(CounterRandom&, size_t split, int64_t index)>;

/// The most samples of a split that is generated.
inline constexpr int64_t kMostSamples = 100'000'000;

/// The counts asked for in the order of kSplits, or `otherwise` where one is not given. Throws
/// UsageError where one is not from 1 to 100,000,000, or the options name a source: `task` can only
/// be generated.
std::array<int64_t, 3> generated_counts(const PrepareOptions& options, const std::string& task,
                                        const std::array<int64_t, 3>& otherwise);

/// Prepares data of which sample i of a split is drawn from a stream of its own, whatever the
/// splits' sizes. `manifest` holds task, vocabulary, classes and generator, and `settings` the
/// effective ones of that generator.
void write_labelled(const PrepareOptions& options, Manifest manifest, const json& settings,
                    const std::array<int64_t, 3>& counts, const DrawSample& draw);

/// "12 0 7"
std::string ids_text(std::span<const uint16_t> ids);

}  // namespace lra
