// What the tasks that read public data have in common.
#pragma once

#include <array>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lra/data/task.h"
#include "lra/formats/archive.h"

namespace lra {

/// Throws UsageError where an option is given that `task` does not have; `own` names those of
/// "lengths", "resolution", "difficulty", "settings", "synthetic" and "seed" that it has.
void refuse_other_options(const PrepareOptions& options, const std::string& task,
                          std::initializer_list<std::string_view> own);

/// Of a task that draws in some cases alone, as where it has no source: its "seed", or "".
constexpr std::string_view seed_if(bool drawn) { return drawn ? "seed" : ""; }

/// Progress and stop of a visit to `options.source`.
VisitOptions visit_options(const PrepareOptions& options);

/// The samples of each split that --train, --dev and --test ask for, in the order of kSplits, or
/// `otherwise` where one is not given. Throws UsageError where one is not from 1 to `most`.
std::array<int64_t, 3> split_counts(const PrepareOptions& options,
                                    const std::array<int64_t, 3>& otherwise, int64_t most);

/// Throws Error where a file gave no row or, with `limit` not negative, fewer than that.
void check_rows(int64_t rows, int64_t limit, const std::string& where, const std::string& split);

/// Throws UsageError where that many bytes of `what`, "100 images", are more than the memory of
/// `options`, in which they wait for their file: better refused than killed after hours.
void check_memory(const PrepareOptions& options, int64_t bytes, const std::string& what);

/// How many samples of dev and test stand in another split too, as the manifest says it; empty
/// where none does.
std::vector<std::string> notes_of_copies(const std::map<std::string, SplitWriter>& splits);

/// What the manifest says of rows read: "WARNING: ..." where a split is whole and has not as many
/// as the public data, `published` of train, dev and test; and how many stand in another split too.
std::vector<std::string> notes_of_rows(const std::map<std::string, SplitWriter>& splits,
                                       const PrepareOptions& options,
                                       const std::array<int64_t, 3>& published);

/// The last part of the source's path, for the manifest: "aclImdb.tar.xz".
std::string source_name(const PrepareOptions& options);

}  // namespace lra
