// Circles with their names beside them, in gnuplot's words.
#pragma once

#include <vector>

#include "results/print/gnuplot.h"

namespace lra {

/// Where the axes of a plot of circles stand, as parts of the picture.
struct PlotBox {
  double left = 0.1, right = 0.97, bottom = 0.13, top = 0.83;
};

struct CircleLabel {
  double x = 0, y = 0;  // of its middle, as parts of the picture
};

/// Places for the names of circles that cover no circle, interval or other name, where there is
/// room; in the order of the series.
std::vector<CircleLabel> label_places(const Plot& plot, const PlotBox& box);

/// A point of the axes as a part of the picture.
CircleLabel on_picture(const Plot& plot, const PlotBox& box, double x, double y);

}  // namespace lra
