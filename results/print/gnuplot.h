// Plots as gnuplot scripts: their data stand in them, and running one writes an SVG and a PDF.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

namespace lra {

/// Larger values are not drawn: gnuplot's axes end where doubles do, and beyond this it may fail
/// altogether.
inline constexpr double kDrawable = 1e30;

enum class PlotStyle {
  marked,  // lines through marked points with intervals; lines alone where a series has many points
  line,
  points,  // with intervals
  steps,   // in grey: the edge of something
};

struct PlotSeries {
  std::string name;
  std::vector<std::array<double, 4>> points;  // x, y, and the ends of y's interval
  bool dashed = false;                        // a published or otherwise foreign one
  PlotStyle style = PlotStyle::marked;
};

struct PlotRange {
  double low = 0, high = 0;
};

struct Plot {
  std::string name;                // of the files, without extension
  std::vector<std::string> title;  // lines
  std::string x_title, y_title;
  bool log_x = true, log_y = true;
  bool powers = true;                // the labels of y as 1e-01, else as plain numbers
  std::vector<double> x_marks;       // where x has its labels; empty = gnuplot's choice
  std::optional<PlotRange> x_range;  // of the axis, where there are no marks; absent likewise
  std::vector<PlotSeries> series;
  int width = 1000, height = 640;  // pixels
  bool pdf = true;                 // beside the SVG
};

/// The script. Nothing in a title or name is run, expanded or taken for markup.
/// Intervals are drawn where no series has so many points that they would hide the lines. Points
/// that are not finite, or beyond 1e30, are left out.
std::string plot_script(const Plot& plot);

}  // namespace lra
