// What a terminal is told, and how much of it fits.
#pragma once

#include <cstddef>

namespace lra::host {

/// The columns of the terminal that a descriptor leads to; 0 where it leads to none.
size_t terminal_columns(int descriptor);

/// The rows of the terminal that standard output is; 24 where that is none, or does not say.
size_t terminal_rows();

/// --wide: tables are printed as wide as they are.
void set_wide(bool wide);

/// What a table on standard output may take: 0, as much as it needs, after --wide and where
/// standard output is no terminal.
size_t table_columns();

}  // namespace lra::host
