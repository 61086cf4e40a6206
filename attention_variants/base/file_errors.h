// What to say of a file that could not be used.
#pragma once

#include <filesystem>
#include <string>

#include "attention_variants/base/error.h"

namespace lra {

/// What to do about an error of the system (errno), as "; free some space there or choose another
/// place"; "" where its name says enough.
std::string advice_on(int error);

/// "cannot read x.json: Permission denied", and what to do: of `tried`, "read", and errno.
Error system_error(const std::string& tried, const std::string& what, int error);

/// One line of what std::filesystem threw: what was tried, the path, the reason and what to do.
std::string file_error_text(const std::filesystem::filesystem_error& error);

/// Makes a folder and those above it. "" where it is there then, else the reason; of a symbolic
/// link that leads nowhere it says so.
std::string make_folders(const std::filesystem::path& folder);

}  // namespace lra
