#include "lra/formats/archive.h"

#include <archive.h>
#include <archive_entry.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <memory>
#include <system_error>
#include <vector>

#include "attention_variants/base/text.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLongestName = 200;  // bytes of an entry's name in a message

void check_stop(const VisitOptions& options, const fs::path& path) {
  if (options.stop != nullptr && *options.stop) {
    throw Error("stopped while reading " + path.string() + "; nothing was written");
  }
}

bool is_left_by_file_manager(const std::string& name) {
  const std::string base = name.substr(name.rfind('/') + 1);
  return base.starts_with("._") || base == ".DS_Store";
}

// ---- Folders ------------------------------------------------------------------------------------

class FolderFile : public SourceFile {
 public:
  FolderFile(const fs::path& folder, const std::string& name, const VisitOptions& options)
      : SourceFile(name, (folder / "").string() + printable(name)),
        path_(folder / name),
        options_(options) {}

  size_t read(std::span<char> out) override {
    check_stop(options_, where());
    if (!file_.is_open()) file_.open(path_, std::ios::binary);
    if (!file_.is_open() || file_.bad()) throw Error("cannot read " + where());
    file_.read(out.data(), static_cast<std::streamsize>(out.size()));
    if (file_.bad()) throw Error("cannot read " + where() + " to its end");
    return static_cast<size_t>(file_.gcount());
  }

 private:
  fs::path path_;
  std::ifstream file_;
  const VisitOptions& options_;
};

void list_files(const fs::path& folder, const std::string& prefix, std::vector<std::string>& out) {
  std::error_code error;
  fs::directory_iterator it(folder, error);
  if (error)
    throw Error("cannot read the folder " + printable(folder.string()) + ": " + error.message());
  for (; it != fs::directory_iterator(); it.increment(error)) {
    const std::string name = prefix + it->path().filename().string();
    if (it->is_directory(error) && !it->is_symlink(error)) {
      list_files(it->path(), name + "/", out);
    } else if (it->is_regular_file(error) && !is_left_by_file_manager(name)) {
      out.push_back(name);
    }
  }
  if (error)
    throw Error("cannot read the folder " + printable(folder.string()) + ": " + error.message());
}

void visit_folder(const fs::path& folder, const std::function<void(SourceFile&)>& use,
                  const VisitOptions& options) {
  std::vector<std::string> names;
  list_files(folder, "", names);
  std::ranges::sort(names);
  const auto total = static_cast<int64_t>(names.size());
  for (int64_t i = 0; i < total; ++i) {
    check_stop(options, folder);
    FolderFile file(folder, names[static_cast<size_t>(i)], options);
    use(file);
    if (options.progress) options.progress(i + 1, total);
  }
}

// ---- Archives -----------------------------------------------------------------------------------

// The bytes of a file, unpacked where they are gzip's: libarchive 3.6 does not compare gzip's
// checksums, zlib does.
class GzipInput {
 public:
  explicit GzipInput(const fs::path& path) : file_(gzopen(path.c_str(), "rb"), gzclose) {
    if (!file_) throw Error("cannot read " + path.string());
    gzbuffer(file_.get(), 1 << 18);
  }

  static la_ssize_t read(archive* reader, void* self, const void** out) {
    auto* input = static_cast<GzipInput*>(self);
    const int got = gzread(input->file_.get(), input->buffer_.data(),
                           static_cast<unsigned>(input->buffer_.size()));
    int code = Z_OK;
    const char* message = gzerror(input->file_.get(), &code);
    // A stream that ends too soon gives what there is, and then an error that is none to gzread.
    if (got < 0 || (got == 0 && code == Z_BUF_ERROR)) {
      input->error_ =
          code == Z_BUF_ERROR ? "gzip: unexpected end of file" : std::string("gzip: ") + message;
      archive_set_error(reader, EIO, "%s", input->error_.c_str());
      return ARCHIVE_FATAL;
    }
    *out = input->buffer_.data();
    return got;
  }

  int64_t position() const { return gzoffset(file_.get()); }
  /// What went wrong, "" if nothing: the formats above put words of their own over it.
  const std::string& error() const { return error_; }

 private:
  std::string error_;
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file_;
  std::vector<char> buffer_ = std::vector<char>(1 << 18);
};

bool is_gzip(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::array<char, 2> magic{};
  file.read(magic.data(), magic.size());
  return file.gcount() == 2 && magic[0] == '\x1f' && magic[1] == '\x8b';
}

class ArchiveReader {
 public:
  ArchiveReader(const fs::path& path, const VisitOptions& options)
      : path_(path), options_(options), reader_(archive_read_new(), archive_read_free) {
    if (!reader_) throw Error("libarchive cannot start: no memory");
    archive_read_support_filter_xz(reader_.get());
    archive_read_support_format_tar(reader_.get());
    archive_read_support_format_zip(reader_.get());
    // Without it a tar is read up to its end mark, which stands before the checksum of what it is
    // compressed by.
    archive_read_set_format_option(reader_.get(), "tar", "read_concatenated_archives", "1");
    std::error_code error;
    size_ = static_cast<int64_t>(fs::file_size(path, error));
    if (error) throw Error("cannot read " + path.string() + ": " + error.message());
    int status = ARCHIVE_OK;
    if (is_gzip(path)) {
      gzip_ = std::make_unique<GzipInput>(path);
      status = archive_read_open(reader_.get(), gzip_.get(), nullptr, GzipInput::read, nullptr);
    } else {
      status = archive_read_open_filename(reader_.get(), path.c_str(), 1 << 18);
    }
    if (status != ARCHIVE_OK) throw failure(status);
  }

  // The next entry, or null at the end.
  archive_entry* next() {
    archive_entry* entry = nullptr;
    const int status = archive_read_next_header(reader_.get(), &entry);
    if (status == ARCHIVE_EOF) return nullptr;
    if (status < ARCHIVE_WARN) throw failure(status);
    entry_ = name_of(entry);
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
        gzip_ ? gzip_->position() : archive_filter_bytes(reader_.get(), /*last filter*/ -1);
    options_.progress(std::min(done, size_), size_);
  }

 private:
  Error failure(int status) const {
    const char* text = archive_error_string(reader_.get());
    std::string message = path_.string();
    if (!entry_.empty()) message += ", at " + printable(entry_, kLongestName);
    message += ": ";
    if (gzip_ && !gzip_->error().empty()) {
      message += gzip_->error();
    } else {
      // libarchive puts names of entries into some of its messages.
      message +=
          text != nullptr ? printable(text, kLongestName) : "error " + std::to_string(status);
    }
    return Error(message + "; it is cut short or damaged, or no tar (plain, gzip, xz) or zip");
  }

  static std::string name_of(archive_entry* entry) {
    const char* name = archive_entry_pathname_utf8(entry);
    if (name == nullptr) name = archive_entry_pathname(entry);
    return name == nullptr ? "" : name;
  }

  const fs::path& path_;
  const VisitOptions& options_;
  std::unique_ptr<GzipInput> gzip_;  // before the reader, which closes it
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

void visit_archive(const fs::path& path, const std::function<void(SourceFile&)>& use,
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

}  // namespace

std::string SourceFile::read_all(size_t limit) {
  std::string bytes;
  size_t size = 0;
  for (size_t room = 1 << 13;; room *= 2) {
    bytes.resize(size + room);
    // Fills the room unless the file ends before.
    while (size < bytes.size()) {
      const size_t got = read(std::span(bytes).subspan(size));
      size += got;
      if (size > limit) {
        throw Error(where() + " should have at most " + std::to_string(limit) +
                    " bytes, it has more");
      }
      if (got > 0) continue;
      bytes.resize(size);
      return bytes;
    }
  }
}

bool SourceLines::next(std::string& line) {
  constexpr size_t kLongest = size_t{1} << 30;
  line.clear();
  for (;;) {
    const size_t end = buffer_.find('\n', at_);
    line.append(buffer_, at_, end == std::string::npos ? std::string::npos : end - at_);
    if (end != std::string::npos) {
      at_ = end + 1;
      break;
    }
    if (line.size() > kLongest) throw Error(where() + ": the next line is longer than 1 GiB");
    buffer_.resize(1 << 16);
    buffer_.resize(file_.read(buffer_));
    at_ = 0;
    if (buffer_.empty()) {
      if (line.empty()) return false;
      break;
    }
  }
  ++number_;
  if (line.ends_with('\r')) line.pop_back();
  return true;
}

Source::Source(fs::path path) : path_(std::move(path)) {
  std::error_code error;
  const fs::file_status status = fs::status(path_, error);
  folder_ = fs::is_directory(status);
  if (!fs::exists(status)) throw Error("there is no folder or archive " + path_.string());
  if (!folder_ && !fs::is_regular_file(status)) {
    throw Error(path_.string() + " is neither a folder nor an archive");
  }
}

void Source::visit(const std::function<void(SourceFile&)>& use, const VisitOptions& options) const {
  if (folder_) {
    visit_folder(path_, use, options);
  } else {
    visit_archive(path_, use, options);
  }
}

}  // namespace lra
