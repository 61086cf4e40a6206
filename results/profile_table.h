// Memory and time per length, from profile lines to tables.
#pragma once

#include <span>
#include <vector>

#include "results/published.h"
#include "results/records.h"
#include "results/tables.h"

namespace lra {

/// One table for each (scope, mode, batch, heads, head width, dtype, device, threads, machine):
/// rows are attentions, columns lengths, a cell "MiB / ms" (peak memory, median time) or the status
/// word; the last column is how both grow with N (exponents of a log-log fit). Where the shapes are
/// those of a paper's table its rows follow, marked "(published, <machine>)", in its own units.
/// Published tables that fit no profile follow as tables of their own, if they time in ms; none
/// does without a profile.
std::vector<Table> memory_time_tables(std::span<const Profile> profiles,
                                      std::span<const Published> references = published());

/// Two tables for each group as above, with more detail: peak memory in MiB, and median time in ms
/// with its 95 % interval; each with its ratio to the baseline (the attention that the papers' cost
/// tables name as theirs) at the same length.
std::vector<Table> profile_tables(std::span<const Profile> profiles,
                                  std::span<const Published> references = published());

/// The same numbers in long form for other programs, one row a cell, the published ones after.
Table memory_time_long(std::span<const Profile> profiles,
                       std::span<const Published> references = published());

}  // namespace lra
