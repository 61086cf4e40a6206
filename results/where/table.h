// Where a step's time goes, as tables.
#pragma once

#include <cstddef>
#include <vector>

#include "results/print/table.h"
#include "results/where/record.h"

namespace lra {

/// By kind of work, by part of the model, and the `most` ops that take longest, each with its share
/// of a step and, where its work is known, the rates reached. Shares are of the recorded step
/// without what the recording took.
std::vector<Table> where_tables(const Where& record, size_t most);

}  // namespace lra
