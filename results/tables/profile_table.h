// Memory and time per length, from profile lines to tables.
#pragma once

#include <span>
#include <vector>

#include "results/print/table.h"
#include "results/published/published.h"
#include "results/records/profile.h"

namespace lra {

/// One table for each (scope, mode, batch, heads, head width, dtype, device, threads, machine,
/// protocol and its values): rows are attentions, columns lengths, a cell "MiB / ms" (peak memory,
/// median time; ~ where the time is noisy) or the status word; the last columns are how each grows
/// with N (exponents of a log-log fit with their 95 % intervals). Where the shapes are those of a
/// paper's table its rows follow, marked "(published, <machine>)", in its own units. Published
/// tables that fit no profile follow as tables of their own, if they time in ms; none does without
/// a profile.
std::vector<Table> memory_time_tables(std::span<const Profile> profiles,
                                      std::span<const Published> references = published());

/// Takes the published rows, or the columns of growth, out of such a table, for where there is no
/// room for them. A note says where they are.
void drop_published_rows(Table& table);
void drop_growth(Table& table);

/// More for each group as above, a table where it has something to say: peak memory, and median
/// time with its 95 % interval, each with its ratio to every baseline (the attention that the
/// papers' cost tables name as theirs) at the same length; from which length on each attention
/// stays below a baseline; operations, their rate and its part of the roofline; memory beside what
/// the variant's own account says, the process's peak and the optimizer's state; and this program
/// beside other packages.
std::vector<Table> profile_tables(std::span<const Profile> profiles,
                                  std::span<const Published> references = published());

/// The same numbers in long form for other programs, one row a cell, the published ones after.
Table memory_time_long(std::span<const Profile> profiles,
                       std::span<const Published> references = published());

/// Whether a paper's numbers may stand beside cells like this one.
bool comparable(const PublishedCost& cost, const Profile& front);

}  // namespace lra
