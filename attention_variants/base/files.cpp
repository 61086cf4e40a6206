#include "attention_variants/base/files.h"

#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <system_error>
#include <vector>

#include "attention_variants/base/file_errors.h"
#include "attention_variants/base/json_fault.h"
#include "attention_variants/base/sha256.h"
#include "attention_variants/base/text.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

// A file descriptor that closes itself.
class Descriptor {
 public:
  Descriptor(const fs::path& path, int flags) : value_(::open(path.c_str(), flags | O_CLOEXEC)) {}
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return value_; }

 private:
  int value_;
};

// A pipe without a writer is not waited for: whoever left it as a file would never know.
void check_has_writer(const Descriptor& file, const fs::path& path) {
  struct stat info {};
  if (::fstat(file.get(), &info) != 0 || !S_ISFIFO(info.st_mode)) return;
  constexpr int kMilliseconds = 3000;
  pollfd ready{.fd = file.get(), .events = POLLIN, .revents = 0};
  if (::poll(&ready, 1, kMilliseconds) == 0)
    throw Error("cannot read " + path.string() + ": it is a pipe, and no one writes to it");
  ::fcntl(file.get(), F_SETFL, ::fcntl(file.get(), F_GETFL) & ~O_NONBLOCK);
}

// Calls `use(chunk)` for consecutive pieces of the file.
template <class Use>
void for_each_chunk(const fs::path& path, Use use) {
  const Descriptor file(path, O_RDONLY | O_NONBLOCK);
  if (file.get() < 0) throw system_error("read", path.string(), errno);
  check_has_writer(file, path);
  std::vector<char> buffer(1 << 20);
  for (;;) {
    const ssize_t got = ::read(file.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw system_error("read", path.string(), errno);
    if (got == 0) return;
    use(std::string_view(buffer.data(), static_cast<size_t>(got)));
  }
}

std::string partial_prefix(const fs::path& path) {
  std::string prefix = ".";
  prefix += path.filename().string();
  prefix += ".partial-";
  return prefix;
}

fs::path partial_name(const fs::path& path) {
  static std::atomic<uint64_t> counter{0};
  return path.parent_path() /
         (partial_prefix(path) + std::to_string(::getpid()) + "-" + std::to_string(counter++));
}

// Locks a partial file or folder just made. False where another process took it for a leftover and
// removed it before it was locked; the descriptor is closed then.
bool lock_new(int descriptor) {
  ::flock(descriptor, LOCK_EX);
  struct stat info {};
  if (::fstat(descriptor, &info) == 0 && info.st_nlink > 0) return true;
  ::close(descriptor);
  return false;
}

// The new name, too, should survive a power failure; file systems without that refuse here.
void sync_parent(const fs::path& path) {
  const Descriptor folder(path.has_parent_path() ? path.parent_path() : fs::path("."),
                          O_RDONLY | O_DIRECTORY);
  if (folder.get() >= 0) ::fsync(folder.get());
}

// A writer process holds a lock on its partial file until it ends, so a partial file that can be
// locked was left by a writer that died.
void remove_dead_partials(const fs::path& path) {
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  const std::string prefix = partial_prefix(path);
  std::error_code ignored;
  for (fs::directory_iterator it(folder, ignored), end; it != end; it.increment(ignored)) {
    if (it->path().filename().string().rfind(prefix, 0) != 0) continue;
    const Descriptor leftover(it->path(), O_RDONLY);
    if (leftover.get() >= 0 && ::flock(leftover.get(), LOCK_EX | LOCK_NB) == 0) {
      remove_tree(it->path());
    }
  }
}

}  // namespace

fs::path link_target(fs::path path) {
  std::error_code ignored;
  for (int links = 0; fs::is_symlink(path, ignored); ++links) {
    constexpr int kMost = 40;  // as Linux
    if (links == kMost) throw system_error("write", path.string(), ELOOP);
    path = path.parent_path() / fs::read_symlink(path, ignored);  // an absolute one stands alone
  }
  return path;
}

std::string read_file(const fs::path& path) {
  std::string text;
  for_each_chunk(path, [&](std::string_view chunk) { text += chunk; });
  return text;
}

json parse_json(std::string_view text, const std::string& where) {
  const JsonFault fault = json_fault(text, /*most_depth=*/64);
  if (fault.kind == JsonFault::Kind::too_deep)
    throw Error(where + ": JSON is nested more than 64 deep");
  if (fault.kind == JsonFault::Kind::key_twice)
    throw Error(where + ": key '" + printable(fault.key, 100) + "' stands twice");
  try {
    return json::parse(text.begin(), text.end());
  } catch (const json::exception& error) {  // parse_error; out_of_range for a number like 1e999
    // "[json.exception.parse_error.101] parse error at line 1, column 2: ..." without its tag. It
    // quotes the text as it stands, and however long it is.
    const std::string_view message = error.what();
    const size_t tag = message.find("] ");
    throw Error(where + " is not valid JSON: " +
                printable(tag == std::string_view::npos ? message : message.substr(tag + 2), 300));
  }
}

json read_json_object(const std::filesystem::path& path, const std::string& what,
                      const std::string& advice) {
  const std::string text = read_file(path);
  json value;
  try {
    value = parse_json(text, path.string());
  } catch (const Error& error) {
    throw Error(error.what() + advice);
  }
  if (value.is_object()) return value;
  throw Error(path.string() + " is not " + what + advice);
}

json read_json(const fs::path& path) { return parse_json(read_file(path), path.string()); }

void remove_tree(const fs::path& path) {
  const auto remove_one = [](const char* name, const struct stat*, int, struct FTW*) {
    return ::remove(name);
  };
  ::nftw(path.c_str(), remove_one, /*open descriptors=*/16, FTW_DEPTH | FTW_PHYS);
}

AtomicFolder::AtomicFolder(fs::path target) : target_(std::move(target)) {
  if (target_.has_parent_path()) {
    const std::string trouble = make_folders(target_.parent_path());
    if (!trouble.empty()) throw Error("cannot write " + target_.string() + ": " + trouble);
  }
  remove_dead_partials(target_);
  for (;;) {
    partial_ = partial_name(target_);
    if (::mkdir(partial_.c_str(), 0777) != 0) {
      if (errno == EEXIST) continue;
      throw system_error("write", target_.string(), errno);
    }
    descriptor_ = ::open(partial_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor_ < 0 && errno != ENOENT) throw system_error("write", target_.string(), errno);
    if (descriptor_ >= 0 && lock_new(descriptor_)) return;
  }
}

AtomicFolder::~AtomicFolder() {
  if (!partial_.empty()) remove_tree(partial_);
  ::close(descriptor_);
}

void AtomicFolder::commit() {
  ::fsync(descriptor_);
  if (::rename(partial_.c_str(), target_.c_str()) != 0)
    throw system_error("write", target_.string(), errno);
  partial_.clear();
  sync_parent(target_);
}

AtomicFile::AtomicFile(fs::path path, Links links) : path_(std::move(path)) {
  std::error_code ignored;
  // Renaming over a link replaces the link, not its target.
  if (links == Links::follow) path_ = link_target(std::move(path_));
  const fs::file_status status = fs::symlink_status(path_, ignored);
  if (fs::is_directory(status)) throw system_error("write", path_.string(), EISDIR);
  if (links == Links::follow && fs::exists(status) && !fs::is_regular_file(status)) {
    // A device or a pipe is written to, never replaced.
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor_ < 0 && errno == ENXIO)
      throw Error("cannot write " + path_.string() + ": it is a pipe, and no one reads it");
    if (descriptor_ < 0) throw system_error("write", path_.string(), errno);
    ::fcntl(descriptor_, F_SETFL, ::fcntl(descriptor_, F_GETFL) & ~O_NONBLOCK);
    return;
  }
  remove_dead_partials(path_);
  for (;;) {
    partial_ = partial_name(path_);
    descriptor_ = ::open(partial_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ < 0 && errno == EEXIST) continue;
    if (descriptor_ < 0) throw system_error("write", path_.string(), errno);
    if (lock_new(descriptor_)) break;
  }
  // Whoever may read it may read what takes its place, and no one else.
  if (fs::is_regular_file(status))
    ::fchmod(descriptor_, static_cast<mode_t>(status.permissions() & fs::perms::mask));
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  if (!partial_.empty()) ::unlink(partial_.c_str());
  ::close(descriptor_);
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw system_error("write", path_.string(), errno);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

void AtomicFile::write(std::string_view text) { write(std::as_bytes(std::span(text))); }

void AtomicFile::commit() {
  if (!partial_.empty()) {
    if (::fsync(descriptor_) != 0) throw system_error("write", path_.string(), errno);
    if (::rename(partial_.c_str(), path_.c_str()) != 0)
      throw system_error("write", path_.string(), errno);
    partial_.clear();
    sync_parent(path_);
  }
  const int closed = ::close(descriptor_);
  descriptor_ = -1;
  if (closed != 0 && errno != EINTR) throw system_error("write", path_.string(), errno);
}

void write_file(const fs::path& path, std::string_view text, Links links) {
  AtomicFile file(path, links);
  file.write(text);
  file.commit();
}

void write_json(const fs::path& path, const json& value, Links links) {
  write_file(path,
             value.dump(2, ' ', /*ensure_ascii=*/false, json::error_handler_t::replace) + "\n",
             links);
}

std::string sha256(std::string_view bytes) {
  Sha256 hash;
  hash.add(bytes);
  return hash.finish();
}

std::string sha256_file(const fs::path& path) {
  Sha256 hash;
  for_each_chunk(path, [&](std::string_view chunk) { hash.add(chunk); });
  return hash.finish();
}

}  // namespace lra
