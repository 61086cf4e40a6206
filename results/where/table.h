// Where a step's time goes, as tables.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "results/print/table.h"
#include "results/where/record.h"

namespace lra {

/// By kind of work, by part of the model, and the `most` ops that take longest, each with its share
/// of a step and, where its work is known, the rates reached. Shares are of the recorded step
/// without what the recording took.
std::vector<Table> where_tables(const Where& record, size_t most);

/// The last of them alone, under this title.
Table where_ops_table(const std::string& title, const Where& record, size_t most);

/// For each group of steps (where_groups) two tables, by kind of work and by part of the model:
/// rows are attentions, the shortest step first, a cell "4.5 (50.0 %)": ms of a step and its share.
std::vector<Table> where_group_tables(std::span<const Where> records);

/// The same, each group's followed by the `most` ops of each of its steps that take longest.
std::vector<Table> where_detail_tables(std::span<const Where> records, size_t most);

/// One row an op, and one a step for what is in no op, with every number, for other programs.
Table where_long(std::span<const Where> records);

}  // namespace lra
