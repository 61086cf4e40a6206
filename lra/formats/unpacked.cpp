#include "lra/formats/unpacked.h"

#include <archive_entry.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <span>
#include <vector>

#include "attention_variants/base/error.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

using Archive = std::unique_ptr<archive, int (*)(archive*)>;

constexpr int64_t kEndMark = 1024;  // a tar ends with two blocks of zeros

// How many zeros a block ends with.
int64_t zeros_at_end(std::span<const char> block) {
  const auto last = std::ranges::find_if(block.rbegin(), block.rend(), [](char c) { return c; });
  return last - block.rbegin();
}

// libarchive 3.6 does not compare gzip's checksums, zlib does.
class Gunzipped : public Unpacked {
 public:
  explicit Gunzipped(const fs::path& path) : file_(gzopen(path.c_str(), "rb"), gzclose) {
    if (!file_) throw Error("cannot read " + path.string());
    gzbuffer(file_.get(), 1 << 18);
  }
  int64_t position() const override { return gzoffset(file_.get()); }

 protected:
  la_ssize_t next(const void** out) override {
    const int got = gzread(file_.get(), buffer_.data(), static_cast<unsigned>(buffer_.size()));
    int code = Z_OK;
    const char* message = gzerror(file_.get(), &code);
    // A stream that ends too soon gives what there is, and then an error that is none to gzread.
    if (got == 0 && code == Z_BUF_ERROR) return fail("gzip: unexpected end of file");
    if (got < 0) return fail(std::string("gzip: ") + message);
    *out = buffer_.data();
    return got;
  }

 private:
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file_;
  std::vector<char> buffer_ = std::vector<char>(1 << 18);
};

class Unxz : public Unpacked {
 public:
  explicit Unxz(const fs::path& path) : reader_(archive_read_new(), archive_read_free) {
    if (!reader_) throw Error("libarchive cannot start: no memory");
    archive_read_support_filter_xz(reader_.get());
    archive_read_support_format_raw(reader_.get());
    archive_entry* entry = nullptr;
    if (archive_read_open_filename(reader_.get(), path.c_str(), 1 << 18) != ARCHIVE_OK ||
        archive_read_next_header(reader_.get(), &entry) != ARCHIVE_OK)
      throw Error(path.string() + ": " + archive_error_string(reader_.get()) + kDamaged);
  }
  int64_t position() const override {
    return archive_filter_bytes(reader_.get(), /*last filter*/ -1);
  }

 protected:
  la_ssize_t next(const void** out) override {
    size_t size = 0;
    la_int64_t offset = 0;
    // Not archive_read_data(), which loses what comes before an error.
    const int status = archive_read_data_block(reader_.get(), out, &size, &offset);
    if (status == ARCHIVE_EOF) return 0;
    if (status < ARCHIVE_OK) return fail(std::string("xz: ") + archive_error_string(reader_.get()));
    return static_cast<la_ssize_t>(size);
  }

 private:
  Archive reader_;
};

// The first bytes of a file.
std::string magic_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string magic(6, '\0');
  file.read(magic.data(), static_cast<std::streamsize>(magic.size()));
  magic.resize(static_cast<size_t>(file.gcount()));
  return magic;
}

}  // namespace

la_ssize_t Unpacked::read(archive* reader, void* self, const void** out) {
  auto* input = static_cast<Unpacked*>(self);
  const la_ssize_t got = input->next(out);
  if (got < 0) {
    archive_set_error(reader, EIO, "%s", input->error_.c_str());
  } else {
    const int64_t zeros = zeros_at_end({static_cast<const char*>(*out), static_cast<size_t>(got)});
    input->zeros_ = zeros == got ? input->zeros_ + zeros : zeros;
  }
  return got;
}

bool Unpacked::ends_as_tar() const { return zeros_ >= kEndMark; }

la_ssize_t Unpacked::fail(std::string error) {
  error_ = std::move(error);
  return ARCHIVE_FATAL;
}

std::unique_ptr<Unpacked> unpacked(const fs::path& path) {
  const std::string magic = magic_of(path);
  if (magic.starts_with("\x1f\x8b")) return std::make_unique<Gunzipped>(path);
  if (magic == std::string("\xfd\x37zXZ\0", 6)) return std::make_unique<Unxz>(path);
  return nullptr;
}

bool file_ends_as_tar(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  file.seekg(-kEndMark, std::ios::end);
  std::vector<char> end(kEndMark);
  file.read(end.data(), kEndMark);
  return file.gcount() == kEndMark && zeros_at_end(end) == kEndMark;
}

bool file_ends_as_zip(const fs::path& path) {
  constexpr std::string_view kMark = "PK\5\6";
  constexpr size_t kRecord = 22, kLongestComment = 0xFFFF;  // whose length is the record's last
  std::error_code error;
  const uintmax_t size = fs::file_size(path, error);
  if (error) return false;
  std::string end(std::min<uintmax_t>(size, kRecord + kLongestComment), '\0');
  std::ifstream file(path, std::ios::binary);
  file.seekg(-static_cast<std::streamoff>(end.size()), std::ios::end);
  if (!file.read(end.data(), static_cast<std::streamsize>(end.size()))) return false;
  for (size_t at = end.rfind(kMark); at != std::string::npos;
       at = at == 0 ? std::string::npos : end.rfind(kMark, at - 1)) {
    if (at + kRecord > end.size()) continue;
    const auto byte = [&](size_t i) { return static_cast<unsigned char>(end[at + i]); };
    const size_t comment = byte(kRecord - 2) + 256U * byte(kRecord - 1);
    if (at + kRecord + comment <= end.size()) return true;
  }
  return false;
}

}  // namespace lra
