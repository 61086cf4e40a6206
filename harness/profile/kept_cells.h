// Whether a cell that a file holds may go on there.
#pragma once

#include <filesystem>

#include "results/records/profile.h"

namespace lra::profile {

/// A record has one processor, program, set of kernels, file of an attention and protocol: what
/// others measured does not go on in `file`, nor pass for what would be measured now. Throws Error
/// that says what differs.
void check_same_work(const Profile& known, const Profile& now, const std::filesystem::path& file);

/// Of a package's cell: its passes are of one version of what it says it runs on. Throws Error
/// where `pass`, which is to go into `known`, has another.
void check_same_package(const Profile& known, const Profile& pass,
                        const std::filesystem::path& file);

/// How the passes of `known` were measured, as "with pinned threads", where `method`,
/// Profile::method of passes to come, or the machine `here` has that otherwise; "" where not.
std::string kept_method_difference(const Profile& known, const json& method, const Machine& here);

/// Passes of one cell are all pinned, or none, flush as much and have such pages: throws Error
/// where those of `known` are not as `method` and `here` have it.
void check_same_method(const Profile& known, const json& method, const Machine& here,
                       const std::filesystem::path& file);

}  // namespace lra::profile
