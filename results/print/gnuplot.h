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
  circle,  // one point with its interval inside a circle, and its name beside it
  rings,   // in grey around points of other series: what is not to be trusted
  bars,    // parts of bars across: x is a part's end, y its row, the "interval" where it is on x
};

struct PlotSeries {
  std::string name;
  std::vector<std::array<double, 4>> points;  // x, y, and the ends of y's interval
  bool dashed = false;                        // of another package
  bool dotted = false;                        // published
  PlotStyle style = PlotStyle::marked;
  std::string attention = {};           // whose it is, which decides the colour; "" = its name
  std::optional<size_t> look = {};      // place among colours and symbols; absent: that in the plot
  size_t variant = 0;                   // of several dashed or dotted ones of one attention
  double radius = 0;                    // of a circle, as a part of the picture's width
  std::optional<std::string> key = {};  // its text in the key, "" = not there; absent: its name
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
  std::optional<PlotRange> y_range = {};
  std::vector<std::string> rows = {};  // of bars, from the top: what stands above each
  std::string data = {};               // of runs: how they are not the public ones, for alt_text()
};

/// Gives the series of one attention one look in all of these plots; parts of bars, which are of
/// none, keep theirs.
void share_looks(std::vector<Plot>& plots);

/// What a plot shows, in words: its title, and each series with its numbers, or first and last; of
/// bars each row with its parts.
std::string alt_text(const Plot& plot);

/// The script. Nothing in a title or name is run, expanded or taken for markup.
/// Circles need ranges of both axes, and are drawn with no key. Intervals are drawn where no series
/// has so many points that they would hide the lines. Points that are not finite, or beyond 1e30,
/// are left out.
std::string plot_script(const Plot& plot);

}  // namespace lra
