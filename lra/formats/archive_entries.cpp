#include "lra/formats/archive_entries.h"

#include <archive.h>
#include <archive_entry.h>

#include <locale.h>

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "attention_variants/base/text.h"
#include "lra/formats/unpacked.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

// libarchive converts names to the encoding of the thread's locale, of which "C" has ASCII alone.
class Utf8Names {
 public:
  Utf8Names() : utf8_(newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr)) {}
  ~Utf8Names() {
    if (utf8_ != nullptr) freelocale(utf8_);
  }
  Utf8Names(const Utf8Names&) = delete;
  Utf8Names& operator=(const Utf8Names&) = delete;

  int next_header(archive* reader, archive_entry** entry) const {
    if (utf8_ == nullptr) return archive_read_next_header(reader, entry);
    const locale_t before = uselocale(utf8_);
    const int status = archive_read_next_header(reader, entry);
    uselocale(before);
    return status;
  }
  // In UTF-8, or in the archive's own bytes; "" where there is none.
  std::string of(archive_entry* entry) const {
    const locale_t before = utf8_ == nullptr ? nullptr : uselocale(utf8_);
    const char* name = archive_entry_pathname_utf8(entry);
    if (name == nullptr) name = archive_entry_pathname(entry);
    if (before != nullptr) uselocale(before);
    return name == nullptr ? "" : name;
  }

 private:
  locale_t utf8_;
};

class ArchiveReader {
 public:
  ArchiveReader(const fs::path& path, const VisitOptions& options)
      : path_(path), options_(options), reader_(archive_read_new(), archive_read_free) {
    if (!reader_) throw Error("libarchive cannot start: no memory");
    archive_read_support_format_tar(reader_.get());
    archive_read_support_format_zip(reader_.get());
    // Without it a tar is read up to its end mark, which stands before the checksum of what it is
    // compressed by.
    archive_read_set_format_option(reader_.get(), "tar", "read_concatenated_archives", "1");
    std::error_code error;
    size_ = static_cast<int64_t>(fs::file_size(path, error));
    if (error) throw Error("cannot read " + path.string() + ": " + error.message());
    int status = ARCHIVE_OK;
    unpacked_ = unpacked(path);
    if (unpacked_) {
      status = archive_read_open(reader_.get(), unpacked_.get(), nullptr, Unpacked::read, nullptr);
    } else {
      status = archive_read_open_filename(reader_.get(), path.c_str(), 1 << 18);
    }
    if (status != ARCHIVE_OK) throw failure(status);
  }

  // The next entry, or null at the end.
  archive_entry* next() {
    archive_entry* entry = nullptr;
    const int status = names_.next_header(reader_.get(), &entry);
    if (status == ARCHIVE_EOF) {
      check_end();
      return nullptr;
    }
    if (status < ARCHIVE_WARN) throw failure(status);
    entry_.clear();
    const std::string name = names_.of(entry);
    if (name.empty() && status == ARCHIVE_WARN) throw failure(status);
    entry_ = name;
    if (archive_entry_is_encrypted(entry) != 0)
      throw Error(path_.string() + ", at " + printable(entry_, kLongestName) +
                  ": it is encrypted; give the folder, or an archive without a password");
    return entry;
  }

  const std::string& entry() const { return entry_; }

  size_t read(std::span<char> out) {
    check_stop(options_, path_);
    const la_ssize_t got = archive_read_data(reader_.get(), out.data(), out.size());
    // Warnings too: that is how a wrong checksum of a zip's entry comes.
    if (got < 0) throw failure(static_cast<int>(got));
    report();
    return static_cast<size_t>(got);
  }

  // Passes over what has not been read of this entry. Zip compares an entry's checksum only where
  // all of it is read.
  void skip() {
    if (archive_format(reader_.get()) == ARCHIVE_FORMAT_ZIP) {
      std::vector<char> rest(1 << 16);
      while (read(rest) > 0) {
      }
    } else if (const int status = archive_read_data_skip(reader_.get()); status < ARCHIVE_OK) {
      throw failure(status);
    }
    report();
  }

  void report() const {
    if (!options_.progress) return;
    const int64_t done =
        unpacked_ ? unpacked_->position() : archive_filter_bytes(reader_.get(), /*last filter*/ -1);
    options_.progress(std::min(done, size_), size_);
  }

 private:
  // libarchive takes a tar or a zip for whole where it ends between two entries.
  void check_end() const {
    const int format = archive_format(reader_.get()) & ARCHIVE_FORMAT_BASE_MASK;
    if (format == ARCHIVE_FORMAT_ZIP && !unpacked_ && !file_ends_as_zip(path_))
      throw Error(path_.string() + ": it has no end of a zip's directory" + kDamaged);
    if (format != ARCHIVE_FORMAT_TAR) return;
    if (unpacked_ ? unpacked_->ends_as_tar() : file_ends_as_tar(path_)) return;
    throw Error(path_.string() + ": it has no end mark (two blocks of zeros)" + kDamaged);
  }

  Error failure(int status) const {
    const char* text = archive_error_string(reader_.get());
    std::string message = path_.string();
    if (!entry_.empty()) message += ", at " + printable(entry_, kLongestName);
    message += ": ";
    if (unpacked_ && !unpacked_->error().empty()) {
      message += unpacked_->error();
    } else {
      // libarchive puts names of entries into some of its messages.
      message +=
          text != nullptr ? printable(text, kLongestName) : "error " + std::to_string(status);
    }
    return Error(message + kDamaged);
  }

  const fs::path& path_;
  const VisitOptions& options_;
  const Utf8Names names_;
  std::unique_ptr<Unpacked> unpacked_;  // null: not compressed. Before the reader, which closes it
  std::unique_ptr<archive, int (*)(archive*)> reader_;
  std::string entry_;
  int64_t size_ = 0;
};

class ArchiveFile : public SourceFile {
 public:
  ArchiveFile(ArchiveReader& reader, const std::string& name, const fs::path& path)
      : SourceFile(name, path.string() + ": " + printable(name)), reader_(reader) {}
  size_t read(std::span<char> out) override { return reader_.read(out); }

 private:
  ArchiveReader& reader_;
};

// The entry's path without leading and doubled "./"; throws Error where it leads out of the
// archive.
std::string safe_name(const std::string& name, const fs::path& path) {
  const auto refuse = [&](const std::string& reason) {
    throw Error(path.string() + ": entry '" + printable(name, kLongestName) + "' " + reason +
                "; such archives are not read");
  };
  if (name.empty()) refuse("has no name");
  if (name.front() == '/') refuse("has an absolute path");
  std::string safe;
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('/', begin), name.size());
    const std::string part = name.substr(begin, end - begin);
    if (part == "..") refuse("leads out of the archive");
    if (!part.empty() && part != ".") safe += (safe.empty() ? "" : "/") + part;
    begin = end + 1;
  }
  return safe;
}

}  // namespace

void check_stop(const VisitOptions& options, const std::filesystem::path& path) {
  if (options.stop != nullptr && *options.stop) {
    throw Error("stopped while reading " + path.string() + "; nothing was written");
  }
}

bool is_left_by_file_manager(const std::string& name) {
  const std::string base = name.substr(name.rfind('/') + 1);
  return base.starts_with("._") || base == ".DS_Store";
}

void visit_archive(const std::filesystem::path& path, const std::function<void(SourceFile&)>& use,
                   const VisitOptions& options) {
  ArchiveReader reader(path, options);
  for (archive_entry* entry = reader.next(); entry != nullptr; entry = reader.next()) {
    check_stop(options, path);
    const std::string name = safe_name(reader.entry(), path);
    const auto type = archive_entry_filetype(entry);
    if (archive_entry_hardlink(entry) != nullptr || type == AE_IFLNK) {
      throw Error(path.string() + ": entry '" + printable(name, kLongestName) +
                  "' is a link; links in archives are not followed: unpack it and give the folder");
    }
    if (type != AE_IFREG && type != AE_IFDIR) {
      throw Error(path.string() + ": entry '" + printable(name, kLongestName) +
                  "' is a device or a pipe; such archives are not read");
    }
    if (type == AE_IFREG && !is_left_by_file_manager(name)) {
      ArchiveFile file(reader, name, path);
      use(file);
    }
    reader.skip();
  }
}

}  // namespace lra
