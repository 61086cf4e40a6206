// The names of the files that a run leaves in its folder.
#pragma once

namespace lra {

inline constexpr const char* kConfigFile = "config.json";
inline constexpr const char* kMetricsFile = "metrics.jsonl";
inline constexpr const char* kPredictionsFile = "predictions-test.csv";
inline constexpr const char* kResultFile = "result.json";

}  // namespace lra
