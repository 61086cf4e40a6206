// What lra data does with folders of prepared data. A `path` is one task's folder, or that which
// prepare was told to write to; each call throws Error where it holds no prepared data.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "lra/data/task.h"

namespace lra {

/// Makes DIR/<task> and prints what it holds. Throws Interrupted after Ctrl-C.
void prepare_folder(const std::string& name, const PrepareOptions& options);

/// Checks every hash and sample, and prints what the folders hold; throws Error that names what is
/// wrong.
void verify_folders(const std::filesystem::path& path);

/// Prints the first `count` samples of a split of each task.
void show_samples(const std::filesystem::path& path, const std::string& split_name, int64_t count);

/// Writes the first `count` images of a split as a PNG to `file`; throws UsageError where there is
/// more than one task, or none of images.
void draw_samples(const std::filesystem::path& path, const std::string& split_name, int64_t count,
                  const std::filesystem::path& file);

/// Writes each task's data back in its public format, to `out`/<task>; throws Error where it has
/// none.
void export_folders(const std::filesystem::path& path, const std::filesystem::path& out);

}  // namespace lra
