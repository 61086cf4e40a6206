#include "results/print/html.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace lra {
namespace {

// Colours meet WCAG's contrast of 4.5 on their grounds. A dark page inverts the plots' light ones.
constexpr std::string_view kStyle = R"css(
:root { color-scheme: light dark; --ground: #ffffff; --text: #1f2328; --dim: #59636e; --line: #d1d9e0;
  --stripe: #f6f8fa; --link: #0550ae; --warn: #7d4e00; --warn-ground: #fff8c5; --heat: 5, 80, 174; }
@media (prefers-color-scheme: dark) {
  :root { --ground: #0d1117; --text: #e6edf3; --dim: #9198a1; --line: #3d444d; --stripe: #151b23;
    --link: #79b8ff; --warn: #f2cc60; --warn-ground: #2b2410; --heat: 56, 139, 253; }
  img.plot { filter: invert(1) hue-rotate(180deg); }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1120px; padding: 8px 16px 64px; background: var(--ground); color: var(--text);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 26px; line-height: 1.25; margin: 20px 0 4px; }
h2 { font-size: 20px; margin: 40px 0 8px; padding-bottom: 4px; border-bottom: 1px solid var(--line); }
h3 { font-size: 15px; margin: 24px 0 8px; }
a { color: var(--link); }
nav a { margin-right: 16px; }
p.dim, ul.notes, ol.notes { color: var(--dim); font-size: 13px; }
ul.notes, ol.notes { margin: 6px 0 0; padding-left: 18px; }
ol.notes { padding-left: 26px; }
.warn { color: var(--warn); background: var(--warn-ground); font-weight: 600; }
p.warn { padding: 8px 12px; border-radius: 6px; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { padding: 4px 10px; border-bottom: 1px solid var(--line); text-align: left; white-space: nowrap; vertical-align: top; }
thead th { border-bottom-width: 2px; vertical-align: bottom; }
tbody th { font-weight: inherit; position: sticky; left: 0; background: var(--ground); }
tbody tr:nth-child(even) th { background: var(--stripe); }
tbody tr:nth-child(even) { background: var(--stripe); }
.n { text-align: right; }
.wide { white-space: normal; min-width: 18em; max-width: 48em; }
.dense { white-space: normal; overflow-wrap: normal; padding: 4px 6px; }
table.facts td, table.facts th { white-space: normal; min-width: 0; }
table.facts th { min-width: 9em; }
.summary { margin: 16px 0; padding: 4px 16px 8px; background: var(--stripe); border: 1px solid var(--line); border-radius: 8px; }
.summary tbody tr, .summary tbody tr th { background: none; }
.summary tr:last-child > * { border-bottom: 0; }
table.heat td { background: rgba(var(--heat), var(--share)); text-align: right; min-width: 3.2em; }
table.heat tr { background: none; }
figure { margin: 12px 0; }
img.plot { display: block; width: 100%; max-width: 1000px; height: auto; }
.row { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 460px), 1fr)); gap: 16px; }
.row figure { margin: 0; }
img.pixels { image-rendering: pixelated; border: 1px solid var(--line); max-width: 100%; height: auto; }
pre { white-space: pre-wrap; font-size: 12px; max-height: 16em; overflow-y: auto; margin: 4px 0 16px; padding: 8px;
  background: var(--stripe); border: 1px solid var(--line); border-radius: 6px; }
@media (max-width: 600px) { body { padding: 8px 12px 48px; } h1 { font-size: 21px; } .dense { white-space: nowrap; } }
@media print {
  :root { --ground: #fff; --text: #000; --dim: #444; --line: #bbb; --stripe: #fff; --link: #000; --warn: #000; --warn-ground: #fff; --heat: 5, 80, 174; }
  img.plot { filter: none; max-width: 16cm; } nav { display: none; } body { max-width: none; font-size: 10pt; }
  .scroll { overflow: visible; } tbody th { position: static; } table { font-size: 7.5pt; } th, td { white-space: normal; padding: 2px 4px; }
  p.dim, ul.notes { font-size: 8pt; } h3 { font-size: 10pt; } .row { grid-template-columns: 1fr 1fr; }
  .dense { padding: 2px 3px; } .wide, .dense:not(.n) { min-width: 6em; overflow-wrap: anywhere; } img.plot { min-width: 0 !important; } pre { max-height: none; } figure, tr { break-inside: avoid; } h2, h3 { break-after: avoid; }
  table.heat td { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
)css";

constexpr size_t kManyColumns = 8;
constexpr size_t kManyLetters = 120;  // of a line of cells, that a page is not wide enough for
constexpr size_t kWideCell = 44;      // letters from which on a cell is broken into lines

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\'':
        result += "&#39;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

// RFC 4648. Boost's iterators would read beyond the end.
std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve(bytes.size() / 3 * 4 + 4);
  for (size_t at = 0; at < bytes.size(); at += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - at);
    uint32_t group = 0;
    for (size_t i = 0; i < 3; ++i)
      group = group << 8 | (i < count ? static_cast<unsigned char>(bytes[at + i]) : 0u);
    for (size_t i = 0; i < 4; ++i) text += i <= count ? kDigits[group >> (18 - 6 * i) & 0x3F] : '=';
  }
  return text;
}

// gnuplot paints a white ground, for where the file stands alone; here it is the page's.
std::string without_ground(std::string_view svg) {
  std::string text(svg);
  constexpr std::string_view kGround = "fill=\"#ffffff\"/>";
  const size_t canvas = text.find("<g id=\"gnuplot_canvas\">");
  const size_t at = text.find(kGround, canvas == std::string::npos ? 0 : canvas);
  if (canvas != std::string::npos && at != std::string::npos)
    text.replace(at, kGround.size(), "fill=\"none\"/>");
  return text;
}

// `dense`: of a table of many columns, whose cells may be broken at spaces; not inside an interval.
struct CellKind {
  const char* tag;
  const char* scope = "";  // of a header: whose it is
  bool bold = false;       // its first word: an interval behind it would need more room
};
std::string cell_html(const CellKind& kind, const std::string& text, Align align, bool dense) {
  std::string classes = align == Align::kRight ? "n" : "", html = html_text(text);
  const auto add = [&classes](const char* name) {
    classes += classes.empty() ? "" : " ";
    classes += name;
  };
  if (display_width(text) > kWideCell) {
    add("wide");
  } else if (dense) {
    add("dense");
    for (size_t at = 0; (at = html.find(", ", at)) != std::string::npos;)
      html.replace(at + 1, 1, "&nbsp;");
  }
  if (kind.bold) html.insert(std::min(html.find(' '), html.size()), "</b>").insert(0, "<b>");
  return fmt::format("<{0}{1}{2}>{3}</{0}>", kind.tag, kind.scope,
                     classes.empty() ? "" : fmt::format(" class=\"{}\"", classes), html);
}

size_t letters_of_a_line(const Table& table) {
  size_t sum = 0;
  for (size_t c = 0; c < table.columns.size(); ++c) {
    size_t most = display_width(table.columns[c].header);
    for (const auto& row : table.rows) {
      if (c < row.size()) most = std::max(most, std::min(display_width(row[c]), kWideCell));
    }
    sum += most;
  }
  return sum;
}

}  // namespace

std::string html_text(std::string_view text) { return escaped(one_line(text)); }

std::string html_lines(std::string_view text) {
  std::string result;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    if (at > 0) result += '\n';
    result += html_text(text.substr(at, end - at));
    at = end + 1;
  }
  return result;
}

std::string to_html(const Table& table) {
  std::string html = table.title.empty() ? "" : "<h3>" + html_text(table.title) + "</h3>\n";
  const bool facts = !has_headers(table);
  const bool dense =
      !facts && (table.columns.size() > kManyColumns || letters_of_a_line(table) > kManyLetters);
  html += fmt::format("<div class=\"scroll\" tabindex=\"0\"{}><table{}>\n",
                      table.title.empty() ? ""
                                          : fmt::format(" role=\"region\" aria-label=\"{}\"",
                                                        html_text(table.title)),
                      facts ? " class=\"facts\"" : "");
  if (!facts) {
    html += "<thead><tr>";
    for (const Column& column : table.columns)
      html +=
          cell_html({.tag = "th", .scope = " scope=\"col\""}, column.header, column.align, dense);
    html += "</tr></thead>\n";
  }
  html += "<tbody>\n";
  constexpr CellKind kRowHeader{.tag = "th", .scope = " scope=\"row\""}, kCell{.tag = "td"};
  for (size_t r = 0; r < table.rows.size(); ++r) {
    const auto& row = table.rows[r];
    html += "<tr>";
    for (size_t c = 0; c < table.columns.size(); ++c) {
      CellKind kind = c == 0 ? kRowHeader : kCell;
      kind.bold = table.bold.contains({r, c});
      html += cell_html(kind, c < row.size() ? row[c] : "", table.columns[c].align, dense);
    }
    html += "</tr>\n";
  }
  html += "</tbody></table></div>\n";
  if (table.notes.empty() && table.see.empty()) return html;
  html += "<ul class=\"notes\">\n";
  for (const std::string& note : table.notes) {
    html += fmt::format("<li{}>{}</li>\n", note.starts_with("WARNING") ? " class=\"warn\"" : "",
                        html_text(note));
  }
  std::string see;
  for (const size_t number : table.see)
    see +=
        fmt::format("{}<a href=\"#note-{}\">[{}]</a>", see.empty() ? "see " : ", ", number, number);
  if (!see.empty()) html += "<li>" + see + "</li>\n";
  return html + "</ul>\n";
}

std::string notes_html(const std::vector<std::string>& notes) {
  std::string html;
  for (size_t i = 0; i < notes.size(); ++i)
    html += fmt::format("<li id=\"note-{}\">{}</li>\n", i + 1, html_text(notes[i]));
  return html.empty() ? "" : "<ol class=\"notes\">\n" + html + "</ol>\n";
}

std::string svg_figure(std::string_view svg, std::string_view alt) {
  // Smaller than that its letters could not be read: the figure scrolls.
  int width = 0;
  constexpr std::string_view kWidth = " width=\"";
  if (const size_t at = svg.find(kWidth); at != std::string_view::npos)
    std::from_chars(svg.data() + at + kWidth.size(), svg.data() + svg.size(), width);
  return fmt::format(
      "<figure class=\"scroll\" tabindex=\"0\"><img class=\"plot\" style=\"min-width: {}px\" "
      "alt=\"{}\" src=\"data:image/svg+xml;base64,{}\"></figure>\n",
      std::clamp(width, 0, 2000) * 13 / 20, html_text(alt), base64(without_ground(svg)));
}

std::string png_figure(std::string_view png, std::string_view alt, int64_t width) {
  return fmt::format(
      "<figure><img class=\"pixels\" width=\"{}\" alt=\"{}\" "
      "src=\"data:image/png;base64,{}\"></figure>\n",
      width, html_text(alt), base64(png));
}

std::string figure_row(const std::vector<std::string>& figures) {
  if (figures.empty()) return "";
  std::string html = "<div class=\"row\">\n";
  for (const std::string& figure : figures) html += figure;
  return html + "</div>\n";
}

std::string html_page(std::string_view title, std::string_view body) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; "
      "style-src 'unsafe-inline'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<link rel=\"icon\" href=\"data:,\">\n<title>{}</title>\n<style>{}</style>\n</head>\n"
      "<body>\n{}</body>\n</html>\n",
      html_text(title), kStyle, body);
}

}  // namespace lra
