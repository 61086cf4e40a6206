// Pages of HTML that need nothing but themselves: no script, no network, style and pictures inside.
// Whatever stands in a record is escaped, and a policy in every page's head forbids scripts and
// foreign addresses to whatever might slip through.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "results/print/table.h"

namespace lra {

/// Text as HTML, for content and quoted attributes: one line of valid UTF-8, no control characters.
std::string html_text(std::string_view text);

/// The same, but lines stay lines.
std::string html_lines(std::string_view text);

/// A table under its title, notes below; it scrolls by itself where the page is narrow. Notes that
/// begin with "WARNING" stand out.
std::string to_html(const Table& table);

/// The notes that tables name by their numbers (gather_notes), as a list; "" without any.
std::string notes_html(const std::vector<std::string>& notes);

/// A picture inside the page: the bytes of an SVG file, or of a PNG enlarged without smoothing to
/// `width` pixels. `alt` says what it shows.
std::string svg_figure(std::string_view svg, std::string_view alt);
std::string png_figure(std::string_view png, std::string_view alt, int64_t width);

/// Pictures beside each other where there is room.
std::string figure_row(const std::vector<std::string>& figures);

/// A whole page. `title` is text, `body` HTML.
std::string html_page(std::string_view title, std::string_view body);

}  // namespace lra
