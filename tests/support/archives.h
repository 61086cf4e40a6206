// Writes small archives for tests, bad ones too.
#pragma once

#include <archive.h>
#include <archive_entry.h>

#include <filesystem>
#include <string>
#include <vector>

#include "attention_variants/base/error.h"
#include "attention_variants/base/random.h"

namespace lra {

struct ArchiveEntry {
  std::string name, content;
  std::string link;   // where it leads; empty = no link
  bool hard = false;  // the link
  unsigned type = AE_IFREG;
};

/// Writes an archive of the format that its name ends in: .tar, .tar.gz, .tar.xz or .zip.
inline void write_archive(const std::filesystem::path& path,
                          const std::vector<ArchiveEntry>& entries) {
  archive* writer = archive_write_new();
  const std::string name = path.filename().string();
  if (name.ends_with(".zip")) {
    archive_write_set_format_zip(writer);
  } else {
    archive_write_set_format_pax_restricted(writer);
    if (name.ends_with(".gz")) archive_write_add_filter_gzip(writer);
    if (name.ends_with(".xz")) archive_write_add_filter_xz(writer);
  }
  archive_write_set_filter_option(writer, nullptr, "compression-level", "1");
  int status = archive_write_open_filename(writer, path.c_str());
  for (const ArchiveEntry& from : entries) {
    archive_entry* entry = archive_entry_new();
    archive_entry_set_pathname(entry, from.name.c_str());
    archive_entry_set_filetype(entry, from.link.empty() || from.hard ? from.type : AE_IFLNK);
    archive_entry_set_perm(entry, 0644);
    archive_entry_set_size(entry, static_cast<la_int64_t>(from.content.size()));
    if (!from.link.empty()) {
      if (from.hard) {
        archive_entry_set_hardlink(entry, from.link.c_str());
      } else {
        archive_entry_set_symlink(entry, from.link.c_str());
      }
    }
    if (status == ARCHIVE_OK) status = archive_write_header(writer, entry);
    archive_write_data(writer, from.content.data(), from.content.size());
    archive_entry_free(entry);
  }
  const char* reason = archive_error_string(writer);
  const std::string message = status == ARCHIVE_OK ? "" : reason != nullptr ? reason : "error";
  archive_write_close(writer);
  archive_write_free(writer);
  if (!message.empty()) throw Error("cannot write " + path.string() + ": " + message);
}

/// Letters, the same at every call.
inline std::string random_text(size_t size, uint64_t seed = 1) {
  CounterRandom random(seed, 0);
  std::string text(size, ' ');
  for (char& c : text) c = static_cast<char>('a' + random.below(26));
  return text;
}

}  // namespace lra
