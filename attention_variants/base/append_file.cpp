#include "attention_variants/base/append_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "attention_variants/base/file_errors.h"

namespace lra {

AppendFile::AppendFile(std::filesystem::path path)
    : path_(std::move(path)),
      descriptor_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666)) {
  if (descriptor_ < 0) throw system_error("write", path_.string(), errno);
}

AppendFile::~AppendFile() { ::close(descriptor_); }

void AppendFile::append(std::string_view text) {
  struct stat before {};
  const bool known = ::fstat(descriptor_, &before) == 0 && S_ISREG(before.st_mode);
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor_, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int error = errno;
      if (known && ::ftruncate(descriptor_, before.st_size) != 0) {
        // Then half a line stays, which readers of such files expect of a crash, too.
      }
      throw system_error("write", path_.string(), error);
    }
    text.remove_prefix(static_cast<size_t>(written));
  }
}

void AppendFile::cut(int64_t size) {
  if (::ftruncate(descriptor_, size) != 0) throw system_error("write", path_.string(), errno);
}

void AppendFile::sync() const { ::fsync(descriptor_); }

}  // namespace lra
