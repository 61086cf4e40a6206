// Tables and paragraphs within the columns of a terminal.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "results/print/table.h"

namespace lra {

/// A table in `width` columns; 0 = as many as it takes, the same as to_text(). One that is wider
/// loses the columns in which every row says the same, named below it with what they say, then
/// wraps its cells between words, or within very long ones. Where even that is too wide, every row
/// is a block of lines.
std::string to_terminal(const Table& table, size_t width);

/// Whether a table needs no more than so many columns as it is.
bool fits(const Table& table, size_t width);

/// The notes that tables name by their numbers (gather_notes), under a heading.
std::string notes_text(const std::vector<std::string>& notes, size_t width);

/// The text as lines of at most `width` columns, broken between words; a longer word is broken too.
/// At least one line; 0 = all in one.
std::vector<std::string> wrapped(std::string_view text, size_t width);

}  // namespace lra
