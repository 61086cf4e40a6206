// Whether a cell that a file holds may go on there.
#pragma once

#include <filesystem>

#include "results/records/profile.h"

namespace lra::profile {

/// A record has one program, one set of kernels, one file of an attention and one protocol: what
/// others measured does not go on in `file`, nor pass for what would be measured now. Throws Error
/// that says what differs.
void check_same_work(const Profile& known, const Profile& now, const std::filesystem::path& file);

/// How the passes of `known` were measured, as "with pinned threads", where `method`,
/// Profile::method of passes to come, has that otherwise; "" where it has not.
std::string other_method(const Profile& known, const json& method);

/// Passes of one cell are all pinned, or none, and flush as much: throws Error where those of
/// `known` are not as `method` has it.
void check_same_method(const Profile& known, const json& method, const std::filesystem::path& file);

}  // namespace lra::profile
