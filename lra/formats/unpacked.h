// What compressed archives unpack to, and where a tar ends.
#pragma once

#include <archive.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace lra {

/// How messages on an archive end.
inline constexpr const char* kDamaged =
    "; it is cut short or damaged, or no tar (plain, gzip, xz) or zip";

/// The bytes of a compressed file, a block at a time, for archive_read_open().
class Unpacked {
 public:
  virtual ~Unpacked() = default;
  Unpacked(const Unpacked&) = delete;
  Unpacked& operator=(const Unpacked&) = delete;

  /// libarchive's callback; `self` is an Unpacked.
  static la_ssize_t read(archive* reader, void* self, const void** out);
  /// How much of the file has been read, in bytes.
  virtual int64_t position() const = 0;
  /// What went wrong, "" if nothing: the formats above put words of their own over it.
  const std::string& error() const { return error_; }
  /// Whether what has been read ends with a tar's end mark, two blocks of zeros.
  bool ends_as_tar() const;

 protected:
  Unpacked() = default;
  /// The next block and its size; 0 at the end, fail() after an error.
  virtual la_ssize_t next(const void** out) = 0;
  la_ssize_t fail(std::string error);

 private:
  std::string error_;
  int64_t zeros_ = 0;  // that the bytes read end with
};

/// Null where the file is compressed by neither gzip nor xz. Throws Error that names the file.
std::unique_ptr<Unpacked> unpacked(const std::filesystem::path& path);

/// Whether a file that is not compressed ends as a tar does.
bool file_ends_as_tar(const std::filesystem::path& path);

/// Whether a file has what ends a zip, the end of its central directory (PKWARE's APPNOTE, 4.3.16).
bool file_ends_as_zip(const std::filesystem::path& path);

}  // namespace lra
