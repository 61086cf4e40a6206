// Files that are read as memory.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace lra {

/// A file mapped read-only into memory; throws Error where that fails, and where it is no regular
/// file.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
  int slot_ = -1;  // in the list for mapped_file_at()
};

/// The name of the mapped file that an address lies in, fit to be printed; null where there is
/// none. Reading beyond the end of a file that became shorter is a SIGBUS, whose handler asks: this
/// allocates nothing and waits for nothing.
const char* mapped_file_at(const void* address);

}  // namespace lra
