#include "attention_variants/base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "attention_variants/base/error.h"
#include "attention_variants/base/file_errors.h"
#include "attention_variants/base/text.h"

namespace lra {
namespace {

// A file that is mapped now. Of files beyond the list's length the names are not known.
struct Mapping {
  std::atomic<bool> taken{false};
  std::atomic<const std::byte*> begin{nullptr};  // null while it is being filled in
  size_t size = 0;
  char name[512] = {};
};
constexpr int kMappings = 128;
std::array<Mapping, kMappings> g_mappings;

int remember(std::span<const std::byte> bytes, const std::filesystem::path& path) {
  for (int i = 0; i < kMappings; ++i) {
    Mapping& mapping = g_mappings[static_cast<size_t>(i)];
    if (mapping.taken.exchange(true)) continue;
    const std::string name = printable(path.string(), sizeof mapping.name - 4);
    std::memcpy(mapping.name, name.c_str(), std::min(name.size() + 1, sizeof mapping.name));
    mapping.name[sizeof mapping.name - 1] = '\0';
    mapping.size = bytes.size();
    mapping.begin = bytes.data();
    return i;
  }
  return -1;
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) {
  // Of a pipe this does not wait for a writer.
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0) throw system_error("read", path.string(), errno);
  struct stat info {};
  const int failed = ::fstat(file, &info) != 0 ? errno : 0;
  void* address = nullptr;
  int unmapped = 0;
  if (failed == 0 && S_ISREG(info.st_mode) && info.st_size > 0) {  // mmap refuses a length of 0
    address = ::mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_SHARED, file, 0);
    if (address == MAP_FAILED) unmapped = errno;
  }
  ::close(file);
  if (failed != 0) throw system_error("read", path.string(), failed);
  if (S_ISDIR(info.st_mode)) throw system_error("read", path.string(), EISDIR);
  if (!S_ISREG(info.st_mode))
    throw Error("cannot read " + path.string() +
                ": it is no regular file; put the file itself there");
  if (unmapped != 0) throw system_error("map", path.string(), unmapped);
  if (address == nullptr) return;
  bytes_ = {static_cast<const std::byte*>(address), static_cast<size_t>(info.st_size)};
  slot_ = remember(bytes_, path);
}

MappedFile::~MappedFile() {
  if (slot_ >= 0) {
    Mapping& mapping = g_mappings[static_cast<size_t>(slot_)];
    mapping.begin = nullptr;
    mapping.taken = false;
  }
  // munmap takes a pointer to non-const though it changes nothing that is ours.
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

const char* mapped_file_at(const void* address) {
  const auto* byte = static_cast<const std::byte*>(address);
  for (const Mapping& mapping : g_mappings) {
    const std::byte* begin = mapping.begin;
    // The system maps whole pages.
    constexpr size_t kPage = 4096;
    if (begin != nullptr && byte >= begin &&
        byte < begin + (mapping.size + kPage - 1) / kPage * kPage)
      return mapping.name;
  }
  return nullptr;
}

}  // namespace lra
