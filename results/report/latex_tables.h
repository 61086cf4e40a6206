// The tables for a paper, each as wide as one of two columns.
#pragma once

#include <span>
#include <string>

#include "results/print/table.h"
#include "results/published/published.h"
#include "results/records/profile.h"
#include "results/records/result.h"

namespace lra {

/// accuracy_tables as "37.05±2.1", the ends of the intervals and the notes as comments; labelled
/// tab:lra-accuracy, from the second recipe on with its number.
std::string accuracy_latex(std::span<const Result> results,
                           std::span<const Published> references = published());

/// For each setting of memory_time_tables a table of peak memory and one of time, with the longer
/// side of its 95 % interval; labelled tab:lra-memory and tab:lra-time. Published rows, growth and
/// notes are comments.
std::string memory_time_latex(std::span<const Profile> profiles,
                              std::span<const Published> references = published());

/// Tables one after the other, as wide as the page; labelled tab:<label>, from the second on with
/// a number.
std::string wide_latex(std::span<const Table> tables, const std::string& label);

}  // namespace lra
