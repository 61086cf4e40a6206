// A file that grows by whole lines.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace lra {

/// A file open for appending; made where there is none. Throws Error with path and reason.
class AppendFile {
 public:
  explicit AppendFile(std::filesystem::path path);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  /// All of the text, or an error and nothing of it.
  void append(std::string_view text);
  /// Cuts the file to so many bytes.
  void cut(int64_t size);
  /// Waits until the disk has it.
  void sync() const;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace lra
