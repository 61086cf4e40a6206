// What a run predicted for every example of the test split: predictions-test.csv.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace lra {

struct Predictions {
  std::vector<int32_t> labels, predicted;  // an entry an example, in the split's order
  std::vector<float> confidence;  // probability of what was predicted, 0..1; empty: not recorded
  // Where an example is a labelled position: its row in the split, rising, and where it stands.
  std::vector<int32_t> samples, positions;

  int64_t size() const { return static_cast<int64_t>(labels.size()); }
  int64_t correct() const;
  /// The different labels, rising.
  std::vector<int32_t> classes() const;
  /// The fraction of the most frequent label; 0 without an example.
  double majority() const;
};

/// Reads "index,label,predicted" or "index,label,predicted,confidence" lines below their header,
/// the latter with ",sample,position" at their end too, the index counting from 0. Throws
/// std::runtime_error that names the line, what was expected and what was found.
Predictions parse_predictions(std::string_view text);

}  // namespace lra
