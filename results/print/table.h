// One table model and its printers (to_html stands in html.h). Cells are plain text; every printer
// escapes what its format would read as markup, so a record with hostile strings in it can do no
// more than look odd.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lra {

enum class Align { kLeft, kRight };

struct Column {
  std::string header;
  Align align = Align::kRight;
};

struct Table {
  std::string title;
  std::vector<Column> columns;
  // Each as long as `columns`; a missing cell prints empty.
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> notes;  // below the table, one line each
  std::vector<size_t> see = {};    // numbers of notes that stand at the end of the document
  std::set<std::pair<size_t, size_t>> bold = {};  // (row, column): the best of its column
};

/// Whether a column has a header; of facts, in two columns, none has.
bool has_headers(const Table& table);

/// A text as Markdown that shows it.
std::string markdown_text(std::string_view text);

/// "see [1], [3]"; "" where a table's notes are all its own.
std::string see_text(const Table& table);

/// Takes the notes that stand below several of these tables out of them, but for warnings, and
/// returns them in the order of their numbers, from 1, which the tables name.
std::vector<std::string> gather_notes(std::span<Table* const> tables);

/// For a terminal: columns padded to equal display width, control characters shown as '?'.
std::string to_text(const Table& table);

/// GitHub's Markdown: the title in bold above, notes as a list below.
std::string to_markdown(const Table& table);

/// RFC 4180: header line, CRLF, quotes where needed; a cell is one line. Title and notes are left
/// out. A text cell that a spreadsheet would run as a formula (it starts with = + - @ and is no
/// number) gets an apostrophe before it.
std::string to_csv(const Table& table);

/// Three significant digits, without an exponent where that is short: 0.731, 12.3, 1234, 1.20e-09.
std::string short_number(double value);

/// Two digits behind the point; "–" where there is none.
std::string as_percent(const std::optional<double>& percent);

/// " (and 3 more)" behind the first of so many; "" where there is one.
std::string and_more(size_t all);

/// "oom: nystrom at 512 (and 3 more)" of texts by what they share.
std::vector<std::string> first_of_each(const std::map<std::string, std::set<std::string>>& texts);

/// All digits, for other programs; "" where there is none.
std::string exact_number(const std::optional<double>& value);

/// Any bytes as one line of valid UTF-8: line breaks and tabs become spaces, control characters and
/// marks that reorder text '?'.
std::string one_line(std::string_view text);

/// Columns that a terminal takes for UTF-8 text: combining marks 0, wide East Asian characters and
/// emoji 2, a malformed byte 1.
size_t display_width(std::string_view text);

/// UTF-8 text in at most `width` columns, at least 3: what is longer keeps its two ends around "…".
std::string cut_in_the_middle(std::string_view text, size_t width);

}  // namespace lra
