// The files of an archive, for Source::visit(), and what it has in common with those of a folder.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "lra/formats/archive.h"

namespace lra {

inline constexpr size_t kLongestName = 200;  // bytes of an entry's name in a message

/// Throws Error where the visit should stop.
void check_stop(const VisitOptions& options, const std::filesystem::path& path);

/// "._name", ".DS_Store"
bool is_left_by_file_manager(const std::string& name);

/// Source::visit() of an archive.
void visit_archive(const std::filesystem::path& path, const std::function<void(SourceFile&)>& use,
                   const VisitOptions& options);

}  // namespace lra
