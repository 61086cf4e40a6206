// What stands in a table.
#pragma once

#include <string>
#include <vector>

#include "results/tables/published_table.h"

namespace lra {

inline std::string text_of(const std::vector<Table>& tables) {
  std::string text;
  for (const Table& table : tables) text += to_text(table) + "\n";
  return text;
}

// The cell in the row `name` under `header`.
inline std::string cell(const Table& table, const std::string& name, const std::string& header) {
  for (const auto& row : table.rows) {
    for (size_t c = 0; c < table.columns.size(); ++c) {
      if (row[0] == name && table.columns[c].header == header) return row.at(c);
    }
  }
  return "(no such cell)";
}

// The cell of the first row under `header`.
inline std::string first_cell(const Table& table, const std::string& header) {
  return cell(table, table.rows.at(0).at(0), header);
}

// The published number below an attention's row.
inline std::string published_beside(const Table& table, const std::string& name) {
  for (size_t r = 1; r < table.rows.size(); ++r) {
    if (table.rows[r][0] == name + kPublishedRow && table.rows[r - 1][0] == name)
      return table.rows[r][1];
  }
  return "(no such cell)";
}

}  // namespace lra
