#include "results/print/gnuplot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

#include "results/print/circles.h"
#include "results/print/table.h"

namespace lra {
namespace {

bool drawable(double value) { return std::abs(value) < kDrawable; }  // not NaN either

// A text inside gnuplot's single quotes, where nothing is run or expanded. Not all of its versions
// take two quotes for one everywhere.
std::string quoted(const std::string& text) {
  std::string curled = "'";
  for (const char c : one_line(text)) curled += c == '\'' ? std::string("’") : std::string(1, c);
  return curled + "'";
}

// Eight colours that also the colour-blind tell apart (Wong 2011, gnuplot's podo), then again with
// other symbols and dashes. The light ones are darkened, and wine stands for yellow, so that each
// has a contrast of 3 on white, and on a dark page, where pictures are inverted.
constexpr std::array<std::string_view, 8> kPalette = {"#000000", "#c48600", "#409bd4", "#009e73",
                                                      "#882255", "#0072b2", "#d55e00", "#c0709b"};
constexpr size_t kColours = kPalette.size();

std::string style_text(const PlotSeries& series, bool bars) {
  const bool line = series.style == PlotStyle::line || (series.style == PlotStyle::marked && !bars);
  if (line && series.points.size() == 1) return "1:2 with points pointsize 0.8 pointtype 7";
  switch (series.style) {
    case PlotStyle::circle:
      return "1:2:3:4 with yerrorbars linewidth 1.2 pointsize 0.4";
    case PlotStyle::marked:
      return bars ? "1:2:3:4 with yerrorlines linewidth 1.5 pointsize 0.6"
                  : "1:2 with lines linewidth 1.5";
    case PlotStyle::line:
      return "1:2 with lines linewidth 1.5";
    case PlotStyle::points:
      return "1:2:3:4 with yerrorbars linewidth 1.5 pointsize 1";
    case PlotStyle::rings:
      return "1:2 with points linewidth 1.2 pointsize 1.6 linecolor rgb '#808080' pointtype 6";
    case PlotStyle::bars:
      return "1:2:3:4:($2-0.15):($2+0.35) with boxxyerror";
    case PlotStyle::steps:
      break;
  }
  return "1:2 with steps linewidth 1.2 linecolor rgb '#808080'";
}

// Intervals are drawn where no series has so many points that they would hide the lines.
bool draws_intervals(const Plot& plot) {
  return std::ranges::all_of(plot.series, [](const PlotSeries& series) {
    return series.points.size() <= 24 || series.style == PlotStyle::rings;
  });
}

// The points that can be drawn, a line each.
std::string data_lines(const PlotSeries& series) {
  std::string lines;
  for (const auto& [x, y, low, high] : series.points) {
    if (!drawable(x) || !drawable(y)) continue;
    lines += fmt::format("{:.6g} {:.6g} {:.6g} {:.6g}\n", x, y, drawable(low) ? low : y,
                         drawable(high) ? high : y);
  }
  return lines;
}

// Colour, symbol and dashes of a series whose place is `i`: after the last colour they start again
// with other symbols and dashes.
std::string look_text(const PlotSeries& series, size_t i, bool bars) {
  const size_t round = i / kColours;
  std::string text;
  if (series.dashed || series.dotted) text += series.dotted ? " dashtype 3" : " dashtype 2";
  if (series.style == PlotStyle::steps || series.style == PlotStyle::rings) return text;
  const bool marks =
      series.style == PlotStyle::points || (series.style == PlotStyle::marked && bars);
  text += fmt::format(" linecolor {}", i % kColours + 1);
  if (marks) text += fmt::format(" pointtype {}", 1 + (i + 3 * round + 4 * series.variant) % 15);
  if (series.style == PlotStyle::circle) text += " pointtype 7";
  // Behind solid, and those of packages and papers; gnuplot has five, and lengths of one's own.
  if (round > 0 && !series.dashed && !series.dotted)
    text += round < 3 ? fmt::format(" dashtype {}", round + 3)
                      : fmt::format(" dashtype ({},4,2,4)", 8 * (round - 1));
  return text;
}

const std::string& key_text(const PlotSeries& series) {
  return series.key ? *series.key : series.name;
}

// The command that draws all series.
std::string plot_command(const Plot& plot) {
  const bool bars = draws_intervals(plot);
  std::string command;
  for (size_t i = 0; i < plot.series.size(); ++i) {
    const PlotSeries& series = plot.series[i];
    const std::string& key = key_text(series);
    command +=
        fmt::format("{}$d{} using {}{} {}", i == 0 ? "plot " : ", \\\n     ", i,
                    style_text(series, bars), look_text(series, series.look.value_or(i), bars),
                    key.empty() ? "notitle" : "title " + quoted(key));
  }
  return command;
}

std::string set(const std::string& what) { return "set " + what + "\n"; }

bool has_circles(const Plot& plot) {
  return std::ranges::any_of(
      plot.series, [](const PlotSeries& series) { return series.style == PlotStyle::circle; });
}

// Of a line of the title, as a part of the picture's height.
double title_line(const Plot& plot) { return 16.0 / plot.height; }

size_t key_count(const Plot& plot) {
  return static_cast<size_t>(std::ranges::count_if(
      plot.series, [](const PlotSeries& series) { return !key_text(series).empty(); }));
}

// Whether a key of many names stands beside the axes: long ones would leave them no room there, and
// below them their width is an estimate, in a PDF too small a one.
bool key_beside(const Plot& plot) {
  return key_count(plot) > kColours && plot.width >= 1000 &&
         std::ranges::all_of(
             plot.series, [](const PlotSeries& series) { return key_text(series).size() <= 30; });
}

// Letters of a name for which a key below the axes has room, at least: gnuplot leaves out the whole
// key where it has none for one name. Tried with gnuplot 5.4, 560 to 1000 pixels, font 6 to 11.
size_t key_letters(const Plot& plot, int font) {
  return static_cast<size_t>((plot.width - 110) / (0.72 * font));
}

size_t longest_key(const Plot& plot) {
  size_t longest = 0;
  for (const PlotSeries& series : plot.series)
    longest = std::max(longest, display_width(key_text(series)));
  return longest;
}

constexpr int kLeastFont = 8;

// That of a key below the axes: the plot's own, or a smaller one that has room for all names.
int key_font(const Plot& plot, int font) {
  const size_t longest = longest_key(plot);
  while (font > kLeastFont && key_letters(plot, font) < longest) --font;
  return font;
}

// With names that are too long for the smallest font cut in the middle: an attention's name stands
// at the beginning of them, and what tells its runs apart at the end.
Plot with_keys_that_fit(Plot plot) {
  const size_t room = key_letters(plot, kLeastFont);
  for (PlotSeries& series : plot.series) {
    const std::string name = one_line(key_text(series));
    if (display_width(name) > room) series.key = cut_in_the_middle(name, room);
  }
  return plot;
}

// Titles of the picture and its axes, and the key.
std::string title_settings(const Plot& plot) {
  std::string text;
  // Over the middle of the picture: a title stands over that of the axes, and runs out of it.
  const int font = plot.width < 1000 ? 11 : 9;  // small pictures are shown beside each other
  const double line = title_line(plot);
  for (size_t i = 0; i < plot.title.size(); ++i)
    text +=
        set(fmt::format("label {} {} at screen 0.5, screen {:g} center noenhanced font ',{}'",
                        i + 1, quoted(plot.title[i]), 1 - line * static_cast<double>(i + 1), font));
  text += set(fmt::format("tmargin {:g}", 1.5 + 1.1 * static_cast<double>(plot.title.size())));
  text += set("xlabel " + quoted(plot.x_title) + " noenhanced");
  text += set("ylabel " + quoted(plot.y_title) + " noenhanced");
  if (has_circles(plot)) return text + set("key off");
  text += set(key_beside(plot) ? "key outside right top vertical noenhanced font ',8'"
              : key_count(plot) > kColours
                  ? "key below height 1 width 1 samplen 2 noenhanced font ',8'"
                  : fmt::format("key below height 1 noenhanced font ',{}'", key_font(plot, font)));
  return text;
}

// The box of the axes stands where the names were placed by.
std::string circle_settings(const Plot& plot) {
  PlotBox box;
  // Below the lines of the title, and a gap.
  box.top =
      std::min(box.top, 1 - title_line(plot) * (static_cast<double>(plot.title.size()) + 0.8));
  std::string text = set(fmt::format("lmargin at screen {:g}", box.left)) +
                     set(fmt::format("rmargin at screen {:g}", box.right)) +
                     set(fmt::format("bmargin at screen {:g}", box.bottom)) +
                     set(fmt::format("tmargin at screen {:g}", box.top));
  const std::vector<CircleLabel> places = label_places(plot, box);
  for (size_t i = 0; i < plot.series.size(); ++i) {
    const PlotSeries& series = plot.series[i];
    const std::string_view colour = kPalette.at(series.look.value_or(i) % kColours);
    const CircleLabel middle =
        on_picture(plot, box, series.points.front()[0], series.points.front()[1]);
    text +=
        set(fmt::format("object {} circle at screen {:.4f},{:.4f} size screen {:.4f} behind "
                        "fillcolor rgb '{}' fillstyle transparent solid 0.3 border linecolor "
                        "rgb '{}'",
                        i + 1, middle.x, middle.y, series.radius, colour, colour));
    text +=
        set(fmt::format("label {} {} at screen {:.4f},{:.4f} center noenhanced front font ',11'",
                        100 + i, quoted(series.name), places[i].x, places[i].y));
  }
  return text;
}

// The names stand above their bars, where they need no margin.
std::string bar_settings(const Plot& plot) {
  const double rows = static_cast<double>(plot.rows.size());
  std::string text = "unset ytics\n" + set("border 1") + set("xtics nomirror") +
                     set("style fill solid 1 border rgb '#ffffff'") +
                     set(fmt::format("yrange [{:g}:-0.6]", rows - 0.5));
  for (size_t i = 0; i < plot.rows.size(); ++i)
    text += set(fmt::format("label {} {} at first 0, first {:g} left noenhanced front font ',11'",
                            100 + i, quoted(plot.rows[i]), static_cast<double>(i) - 0.4));
  return text;
}

std::string axis_settings(const Plot& plot) {
  std::string text = set("grid");
  if (plot.log_y) text += set("logscale y");
  text += set(plot.powers ? "format y '%.0e'" : "format y '%g'");
  if (plot.log_x) text += set("logscale x 2");
  if (!plot.x_marks.empty()) {
    std::string marks;
    for (const double x : plot.x_marks) marks += fmt::format("{}{:g}", marks.empty() ? "" : ",", x);
    text += set("xtics (" + marks + ")");
    text += set(
        fmt::format("xrange [{:g}:{:g}]", plot.x_marks.front() / 1.15, plot.x_marks.back() * 1.15));
  } else if (plot.x_range) {
    text += set(fmt::format("xrange [{:g}:{:g}]", plot.x_range->low, plot.x_range->high));
  }
  if (plot.y_range)
    text += set(fmt::format("yrange [{:g}:{:g}]", plot.y_range->low, plot.y_range->high));
  return plot.rows.empty() ? text : text + bar_settings(plot);
}

// gnuplot draws a key of more lines than a picture has room for over the axes.
Plot with_room_for_key(const Plot& given) {
  Plot plot = with_keys_that_fit(given);
  const size_t longest = longest_key(plot);
  constexpr int kLine = 13, kLetter = 6, kSample = 60, kMargins = 115;  // of the font of 8
  const bool beside = key_beside(plot);
  const int keys = static_cast<int>(key_count(plot)),
            column = kLetter * static_cast<int>(longest) + kSample,
            columns = beside ? 1 : std::max(1, (plot.width - kMargins) / column),
            lines = (keys + columns - 1) / columns,
            room = (beside ? plot.height - 40 : plot.height / 2) / kLine;
  if (!has_circles(plot)) plot.height += kLine * std::max(0, lines - room);
  return plot;
}

// Whether a series has the colour of an attention.
bool has_look(const PlotSeries& series) {
  return series.style != PlotStyle::steps && series.style != PlotStyle::rings &&
         series.style != PlotStyle::bars;
}

}  // namespace

void share_looks(std::vector<Plot>& plots) {
  std::map<std::string, size_t> looks;
  const auto whose = [](const PlotSeries& series) {
    return series.attention.empty() ? series.name : series.attention;
  };
  for (const Plot& plot : plots) {
    for (const PlotSeries& series : plot.series) {
      if (has_look(series)) looks[whose(series)];
    }
  }
  size_t next = 0;
  for (auto& [name, look] : looks) look = next++;
  for (Plot& plot : plots) {
    for (PlotSeries& series : plot.series) {
      if (has_look(series)) series.look = looks.at(whose(series));
    }
  }
}

std::string plot_script(const Plot& given) {
  const Plot plot = with_room_for_key(given);
  const std::string& name = plot.name;
  std::string script = fmt::format("# gnuplot {0}.gp: writes {0}.svg{1}\n", name,
                                   plot.pdf ? fmt::format(" and {}.pdf", name) : "");
  bool any = false;
  for (size_t i = 0; i < plot.series.size(); ++i) {
    const std::string lines = data_lines(plot.series[i]);
    any |= !lines.empty();
    script += fmt::format("$d{} << EOD\n{}EOD\n", i, lines);
  }
  script += set("encoding utf8") + title_settings(plot);
  for (size_t i = 0; i < kColours; ++i)
    script += set(fmt::format("linetype {} linecolor rgb '{}'", i + 1, kPalette[i]));
  script += set(fmt::format("linetype cycle {}", kColours)) + axis_settings(plot);
  if (any && has_circles(plot)) script += circle_settings(plot);
  if (!any) script += set("xrange [1:2]") + set("yrange [1:2]");
  const std::string command =
      any ? plot_command(plot) : "plot 1/0 title 'nothing that can be drawn'";
  const auto output = [&](const std::string& terminal, const char* extension) {
    return fmt::format("set terminal {}\nset output '{}.{}'\n{}\nset output\n", terminal, name,
                       extension, command);
  };
  script += output(
      fmt::format("svg size {},{} noenhanced background 'white'", plot.width, plot.height), "svg");
  if (plot.pdf)
    script += output(fmt::format("pdfcairo size {:g}in,{:g}in noenhanced", plot.width / 100.0,
                                 plot.height / 100.0),
                     "pdf");
  return script;
}

}  // namespace lra
