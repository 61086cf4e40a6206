// Public data where it lies: a folder, or an archive (tar plain or compressed by gzip or xz, zip)
// read in place, without unpacking, through libarchive. Which of several copies of a file is read:
// copies.h.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "attention_variants/base/error.h"

namespace lra {

/// One regular file of a source, open while Source::visit() shows it. Content is read only if asked
/// for.
class SourceFile {
 public:
  SourceFile(std::string name, std::string where)
      : name_(std::move(name)), where_(std::move(where)) {}
  virtual ~SourceFile() = default;
  SourceFile(const SourceFile&) = delete;
  SourceFile& operator=(const SourceFile&) = delete;

  /// The path within the source, parts separated by '/': never absolute, never with "..".
  const std::string& name() const { return name_; }
  /// The last part of name().
  std::string base() const { return name_.substr(name_.rfind('/') + 1); }
  /// For messages: "aclImdb.tar.gz: aclImdb/train/pos/0_9.txt", or a path in a folder, with
  /// printable(name()) at the end.
  const std::string& where() const { return where_; }

  /// The next bytes, as many as there are and `out` has room for; 0 at the end. Throws Error naming
  /// source and file where the archive is cut short or damaged.
  virtual size_t read(std::span<char> out) = 0;
  /// All (remaining) bytes; throws Error where they are more than `limit`.
  std::string read_all(size_t limit);

 private:
  std::string name_, where_;
};

/// The lines of a file, without their ends ("\n" or "\r\n").
class SourceLines {
 public:
  explicit SourceLines(SourceFile& file) : file_(file) {}
  /// False at the end. Throws Error where a line is longer than 1 GiB.
  bool next(std::string& line);
  /// "where:number" of the line that next() gave last, counted from 1.
  std::string where() const { return file_.where() + ":" + std::to_string(number_); }

 private:
  SourceFile& file_;
  std::string buffer_;
  size_t at_ = 0;
  int64_t number_ = 0;
};

struct VisitOptions {
  /// Called now and then with (done, total), in bytes of the archive or files of the folder.
  std::function<void(int64_t, int64_t)> progress;
  /// Set by Ctrl-C: the visit ends with an Error. May be null.
  const std::atomic<bool>* stop = nullptr;
};

class Source {
 public:
  /// Throws Error where there is nothing at `path`.
  explicit Source(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }
  bool folder() const { return folder_; }

  /// Shows every regular file once: those of an archive as they are stored, to its last byte, so
  /// that every checksum there is (gzip, xz, zip) has been compared when this returns; those of a
  /// folder and its subfolders sorted by name. What the file managers of some systems leave
  /// behind ("._name", ".DS_Store") is passed over.
  ///
  /// Nothing is ever written to disk. No name is taken on trust either: an absolute path, a path
  /// with ".." and a link or device inside an archive are an Error. In a folder, links are
  /// followed.
  void visit(const std::function<void(SourceFile&)>& use, const VisitOptions& options = {}) const;

 private:
  std::filesystem::path path_;
  bool folder_ = false;
};

}  // namespace lra
