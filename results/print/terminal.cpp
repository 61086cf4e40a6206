#include "results/print/terminal.h"

#include <algorithm>
#include <numeric>
#include <optional>

namespace lra {
namespace {

constexpr size_t kGap = 2;        // between two columns
constexpr size_t kLongWord = 16;  // longer ones may be broken

using Widths = std::vector<size_t>;

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  for (size_t at = 0; (at = text.find_first_not_of(' ', at)) != text.npos;) {
    const size_t end = std::min(text.find(' ', at), text.size());
    words.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

// Cuts the beginning of at most `width` columns, and at least one character, off `text`.
std::string cut(std::string& text, size_t width) {
  size_t end = 0;
  while (end < text.size()) {
    size_t next = end + 1;
    while (next < text.size() && (static_cast<unsigned char>(text[next]) & 0xC0) == 0x80) ++next;
    if (end > 0 && display_width(text.substr(0, next)) > width) break;
    end = next;
  }
  const std::string head = text.substr(0, end);
  text.erase(0, end);
  return head;
}

size_t longest_word(const std::string& text) {
  size_t width = 0;
  for (const std::string& word : words_of(text)) width = std::max(width, display_width(word));
  return width;
}

// The greatest of `measure` over a column's header and cells.
template <class Measure>
Widths column_widths(const Table& table, Measure measure) {
  Widths widths;
  for (size_t c = 0; c < table.columns.size(); ++c) {
    size_t width = measure(table.columns[c].header);
    for (const auto& row : table.rows) width = std::max(width, measure(row[c]));
    widths.push_back(width);
  }
  return widths;
}

size_t line_width(const Widths& widths) {
  return std::accumulate(widths.begin(), widths.end(), kGap * (widths.size() - 1));
}

// Every cell there is, as one line of valid text.
Table cleaned(Table table) {
  for (Column& column : table.columns) column.header = one_line(column.header);
  for (auto& row : table.rows) {
    row.resize(table.columns.size());
    for (std::string& cell : row) cell = one_line(cell);
  }
  for (std::string& note : table.notes) note = one_line(note);
  return table;
}

void drop_uniform_columns(Table& table) {
  if (table.rows.size() < 2) return;
  std::string dropped;
  for (size_t c = table.columns.size(); --c > 0;) {
    const std::string& first = table.rows[0][c];
    if (!std::ranges::all_of(table.rows, [&](const auto& row) { return row[c] == first; }))
      continue;
    const std::string& header = table.columns[c].header;
    if (!header.empty() && !first.empty())
      dropped = header + " " + first + (dropped.empty() ? "" : ", ") + dropped;
    const auto at = static_cast<std::ptrdiff_t>(c);
    for (auto& row : table.rows) row.erase(row.begin() + at);
    table.columns.erase(table.columns.begin() + at);
  }
  if (!dropped.empty()) table.notes.insert(table.notes.begin(), "of all rows: " + dropped);
}

// Takes from the widest columns, none below its `least`, until a line has `width` columns.
void shrink(Widths& widths, const Widths& least, size_t width) {
  while (line_width(widths) > width) {
    size_t* widest = nullptr;
    for (size_t c = 0; c < widths.size(); ++c) {
      if (widths[c] > least[c] && (widest == nullptr || widths[c] > *widest)) widest = &widths[c];
    }
    if (widest == nullptr) return;
    --*widest;
  }
}

// Nothing where words would have to be broken that are not long, or stand in the first column.
std::optional<Widths> fitting_widths(const Table& table, size_t width) {
  Widths widths = column_widths(table, [](const std::string& text) { return display_width(text); });
  Widths least = column_widths(table, longest_word);
  shrink(widths, least, width);
  for (size_t c = 1; c < least.size(); ++c) least[c] = std::min(least[c], kLongWord);
  shrink(widths, least, width);
  if (line_width(widths) > width) return std::nullopt;
  return widths;
}

// A row of as many lines as its longest cell takes.
std::string row_text(const std::vector<std::string>& cells, const std::vector<Column>& columns,
                     const Widths& widths) {
  std::vector<std::vector<std::string>> lines;
  size_t height = 0;
  for (size_t c = 0; c < cells.size(); ++c) {
    lines.push_back(wrapped(cells[c], widths[c]));
    height = std::max(height, lines.back().size());
  }
  std::string result;
  for (size_t i = 0; i < height; ++i) {
    std::string line;
    for (size_t c = 0; c < lines.size(); ++c) {
      const std::string text = i < lines[c].size() ? lines[c][i] : "";
      const size_t have = display_width(text);
      const std::string space(widths[c] > have ? widths[c] - have : 0, ' ');
      if (c > 0) line.append(kGap, ' ');
      line += columns[c].align == Align::kLeft ? text + space : space + text;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    result += line + "\n";
  }
  return result;
}

// `first` and the text; further lines begin below it.
std::string indented(const std::string& text, size_t width, const std::string& first) {
  const size_t indent = display_width(first);
  std::string result;
  for (const std::string& line : wrapped(text, width > indent ? width - indent : 1))
    result += (result.empty() ? first : std::string(indent, ' ')) + line + "\n";
  return result;
}

// A row as lines of its own: its first cell, then every other that says something, under it.
std::string block_text(const std::vector<std::string>& cells, const std::vector<Column>& columns,
                       size_t width) {
  size_t label = 0;
  for (const Column& column : columns) label = std::max(label, display_width(column.header));
  std::string result = indented(cells[0], width, "");
  for (size_t c = 1; c < cells.size(); ++c) {
    if (cells[c].empty()) continue;
    const std::string& header = columns[c].header;
    const std::string space(label - display_width(header) + kGap, ' ');
    result += indented(cells[c], width, "  " + header + space);
  }
  return result;
}

}  // namespace

std::vector<std::string> wrapped(std::string_view text, size_t width) {
  if (width == 0 || display_width(text) <= width) return {std::string(text)};
  std::vector<std::string> lines;
  std::string line;
  const auto end_line = [&] {
    if (!line.empty()) lines.push_back(std::move(line));
    line.clear();
  };
  for (std::string word : words_of(text)) {
    if (!line.empty() && display_width(line) + 1 + display_width(word) > width) end_line();
    while (display_width(word) > width) {
      lines.push_back(cut(word, width));
      if (word.empty()) break;
    }
    if (!word.empty()) line += (line.empty() ? "" : " ") + word;
  }
  end_line();
  if (lines.empty()) lines.emplace_back();
  return lines;
}

std::string to_terminal(const Table& table, size_t width) {
  Table shown = cleaned(table);
  const auto natural = [&shown] {
    return line_width(
        column_widths(shown, [](const std::string& text) { return display_width(text); }));
  };
  if (width == 0 || shown.columns.empty()) return to_text(table);
  if (has_headers(shown) && natural() > width) drop_uniform_columns(shown);
  const std::optional<Widths> widths = fitting_widths(shown, width);
  std::string result = shown.title.empty() ? "" : indented(one_line(shown.title), width, "");
  if (widths && has_headers(shown)) {
    std::vector<std::string> headers, rules;
    for (size_t c = 0; c < widths->size(); ++c) {
      headers.push_back(shown.columns[c].header);
      rules.emplace_back((*widths)[c], '-');
    }
    result += row_text(headers, shown.columns, *widths) + row_text(rules, shown.columns, *widths);
  }
  for (const auto& row : shown.rows)
    result +=
        widths ? row_text(row, shown.columns, *widths) : block_text(row, shown.columns, width);
  for (const std::string& note : shown.notes) result += indented(note, width, "  * ");
  if (!shown.see.empty()) result += indented(see_text(shown), width, "  * ");
  return result;
}

bool fits(const Table& table, size_t width) {
  return width == 0 || line_width(column_widths(cleaned(table), [](const std::string& text) {
                         return display_width(text);
                       })) <= width;
}

std::string notes_text(const std::vector<std::string>& notes, size_t width) {
  std::string text = "Notes\n";
  for (size_t i = 0; i < notes.size(); ++i) {
    const std::string number = "  [" + std::to_string(i + 1) + "] ", note = one_line(notes[i]);
    text += width == 0 ? number + note + "\n" : indented(note, width, number);
  }
  return text;
}

}  // namespace lra
