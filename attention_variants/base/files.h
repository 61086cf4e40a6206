// Files that appear whole or not at all, and their fingerprints.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "attention_variants/base/fields.h"

namespace lra {

/// Reads a whole file; throws Error naming it.
std::string read_file(const std::filesystem::path& path);

/// Parses JSON; throws Error with `where`, line and column on malformed text, and on a key that
/// stands twice in one object.
json parse_json(std::string_view text, const std::string& where);

/// Reads a JSON file; throws Error with file, line and column on malformed text.
json read_json(const std::filesystem::path& path);

/// Reads a JSON file that holds an object. Throws Error where it cannot be read, and where its text
/// is malformed or no object, that it is not `what`, with what to do: "; remove it".
json read_json_object(const std::filesystem::path& path, const std::string& what,
                      const std::string& advice);

/// Where a path leads over its links, whether there is a file yet or not.
std::filesystem::path link_target(std::filesystem::path path);

/// What becomes of a symbolic link in the place of a file to be written.
enum class Links {
  follow,  // what it points to is written: the user named it
  replace  // it is replaced: the name is ours, and may not lead out of our folder
};

/// Writes beside `path`, syncs, then renames over it, so that a reader (or a crash) sees the old
/// file or the new one. On any failure (disk full, say) removes the partial file and throws Error
/// with the path and the reason.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path, Links links = Links::follow);
  ~AtomicFile();  // without commit(): removes what was written
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  void commit();

 private:
  std::filesystem::path path_, partial_;
  int descriptor_ = -1;
};

/// A folder that appears whole or not at all: fill path(), then commit() renames it to `target`,
/// which must not exist (or be empty). Without commit() it is removed, and what a killed process
/// left behind is removed by the next one.
class AtomicFolder {
 public:
  explicit AtomicFolder(std::filesystem::path target);
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;
  const std::filesystem::path& path() const { return partial_; }
  void commit();

 private:
  std::filesystem::path target_, partial_;
  int descriptor_ = -1;
};

/// Removes a file, or a folder with everything in it; nothing happens where there is none. Unlike
/// std::filesystem::remove_all it works whatever the order of libraries: LibTorch 2.11 exports a
/// broken copy of that.
void remove_tree(const std::filesystem::path& path);

/// AtomicFile in one call.
void write_file(const std::filesystem::path& path, std::string_view text,
                Links links = Links::follow);
void write_json(const std::filesystem::path& path, const json& value, Links links = Links::follow);

/// SHA-256 as 64 lower-case hexadecimal digits.
std::string sha256(std::string_view bytes);
std::string sha256_file(const std::filesystem::path& path);

}  // namespace lra
