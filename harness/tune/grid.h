// The grid of a search: values of settings, all of a key against all of the others.
#pragma once

#include <string>
#include <vector>

namespace lra::tune {

/// A "key=value" word for each key of a grid, its value as JSON writes it.
using Point = std::vector<std::string>;

/// "optimizer.lr=0.001, schedule.warmup=100"
std::string point_text(const Point& point);

/// Whether two points set the same keys to the same values, in whatever order and however a number
/// is written.
bool same_point(const Point& a, const Point& b);

/// The setting that every cell has at false: a search chooses on dev alone.
inline constexpr const char* kTested = "evaluation.test";

/// The points of "key=value,value" words in the order given, the values of the last key first.
/// `sets` are those of --set. Throws UsageError where a word or a value is malformed or refused,
/// and where a setting is given twice: here, there, or by the search itself.
std::vector<Point> grid_points(const std::vector<std::string>& words,
                               const std::vector<std::string>& sets);

}  // namespace lra::tune
