// The pages of memory in which tensors lie on CPUs.
#pragma once

#include <filesystem>
#include <string>

namespace lra::host {

/// Keeps freed memory with the process, and lets its heap grow by many pages at a time. Call from
/// main(), before the first tensor.
void keep_freed_pages();

/// Asks the system for huge pages for all that the heap has grown by since the last call. Where it
/// gives them ("always" or "madvise"), tensors take a fraction of the entries of the processor's
/// tables, and of the page faults.
void ask_for_huge_pages();

/// What the system's setting is: "always", "madvise" or "never"; "" where it has none.
std::string huge_pages_setting(const std::filesystem::path& root = "/");

}  // namespace lra::host
