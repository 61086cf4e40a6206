// Tables in long form, for other programs: every number of every row.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "results/print/table.h"

namespace lra {

/// A column's name, and the text of a row in it.
template <class Row>
struct LongColumn {
  const char* name;
  std::string (*text)(const Row& row);
};

template <class Row>
Table long_table(const char* title, std::span<const LongColumn<std::type_identity_t<Row>>> columns,
                 const std::vector<Row>& rows) {
  Table table{.title = title};
  for (const auto& column : columns) table.columns.push_back({column.name});
  for (const Row& row : rows) {
    std::vector<std::string>& cells = table.rows.emplace_back();
    for (const auto& column : columns) cells.push_back(column.text(row));
  }
  return table;
}

/// As exact_number().
inline std::string exact_integer(const std::optional<int64_t>& value) {
  return value ? fmt::format("{}", *value) : "";
}

}  // namespace lra
