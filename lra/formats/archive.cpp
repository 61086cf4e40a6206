#include "lra/formats/archive.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <system_error>
#include <vector>

#include "attention_variants/base/file_errors.h"
#include "attention_variants/base/text.h"
#include "lra/formats/archive_entries.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

class FolderFile : public SourceFile {
 public:
  FolderFile(const fs::path& folder, const std::string& name, const VisitOptions& options)
      : SourceFile(name, (folder / "").string() + printable(name)),
        path_(folder / name),
        options_(options) {}

  size_t read(std::span<char> out) override {
    check_stop(options_, where());
    if (!file_.is_open()) {
      errno = 0;
      file_.open(path_, std::ios::binary);
      if (!file_.is_open()) throw system_error("read", where(), errno);
    }
    if (file_.bad()) throw Error("cannot read " + where());
    file_.read(out.data(), static_cast<std::streamsize>(out.size()));
    if (file_.bad()) throw Error("cannot read " + where() + " to its end");
    return static_cast<size_t>(file_.gcount());
  }

 private:
  fs::path path_;
  std::ifstream file_;
  const VisitOptions& options_;
};

// Links are followed; `above`: the folders that this one lies in, as they truly are.
void list_files(const fs::path& folder, const std::string& prefix, std::vector<fs::path> above,
                const VisitOptions& options, std::vector<std::string>& out) {
  std::error_code error;
  above.push_back(fs::canonical(folder, error));
  fs::directory_iterator it(folder, error);
  if (error) throw system_error("read", "the folder " + printable(folder.string()), error.value());
  for (; it != fs::directory_iterator(); it.increment(error)) {
    check_stop(options, folder);
    const std::string name = prefix + it->path().filename().string();
    if (it->is_directory(error)) {
      if (it->is_symlink(error) && std::ranges::count(above, fs::canonical(it->path(), error)) > 0)
        throw Error(printable(it->path().string()) +
                    " is a link to a folder that it lies in; remove it");
      list_files(it->path(), name + "/", above, options, out);
    } else if (it->is_regular_file(error) && !is_left_by_file_manager(name)) {
      out.push_back(name);
    } else if (it->is_symlink(error) && !it->exists(error)) {
      throw Error(printable(it->path().string()) +
                  " is a link to what is not there; mend or remove it");
    }
  }
  if (error) throw system_error("read", "the folder " + printable(folder.string()), error.value());
}

void visit_folder(const fs::path& folder, const std::function<void(SourceFile&)>& use,
                  const VisitOptions& options) {
  std::vector<std::string> names;
  list_files(folder, "", {}, options, names);
  std::ranges::sort(names);
  const auto total = static_cast<int64_t>(names.size());
  for (int64_t i = 0; i < total; ++i) {
    check_stop(options, folder);
    FolderFile file(folder, names[static_cast<size_t>(i)], options);
    use(file);
    if (options.progress) options.progress(i + 1, total);
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
  if (status.type() == fs::file_type::not_found)
    throw Error("there is no folder or archive " + path_.string());
  if (error) throw system_error("read", path_.string(), error.value());
  if (!folder_ && !fs::is_regular_file(status)) {
    throw Error(path_.string() + " is neither a folder nor an archive");
  }
  if (!folder_ && access(path_.c_str(), R_OK) != 0)
    throw system_error("read", path_.string(), errno);
}

void Source::visit(const std::function<void(SourceFile&)>& use, const VisitOptions& options) const {
  if (folder_) {
    visit_folder(path_, use, options);
  } else {
    visit_archive(path_, use, options);
  }
}

}  // namespace lra
