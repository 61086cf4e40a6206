#include "attention_variants/base/file_errors.h"

#include <cerrno>
#include <system_error>

namespace lra {

namespace fs = std::filesystem;

std::string advice_on(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return "; free some space there or choose another place";
    case EFBIG:
      return "; it passes the largest size that a file may have here: raise that limit (ulimit -f) "
             "or choose another place";
    case EACCES:
    case EPERM:
      return "; get the right to do so, or choose another place";
    case EROFS:
      return "; choose a place that can be written to";
    case ENAMETOOLONG:
      return "; choose a shorter name";
    case ELOOP:
      return "; its symbolic links lead in a circle: remove one";
    default:
      return "";
  }
}

Error system_error(const std::string& tried, const std::string& what, int error) {
  return Error("cannot " + tried + " " + what + ": " + std::generic_category().message(error) +
               advice_on(error));
}

std::string file_error_text(const fs::filesystem_error& error) {
  // "filesystem error: directory iterator cannot open directory: Permission denied [/x]"
  const std::string text = error.what(), reason = error.code().message();
  const size_t begin = text.find("cannot "), end = text.find(": " + reason);
  std::string tried = "cannot look at";
  if (begin != std::string::npos && end != std::string::npos && begin < end)
    tried = text.substr(begin, end - begin);
  const std::string advice = advice_on(error.code().value());
  return tried + " " + error.path1().string() + ": " + reason +
         (advice.empty() ? "; check the path" : advice);
}

std::string make_folders(const fs::path& folder) {
  std::error_code error, ignored;
  fs::create_directories(folder, error);
  if (!error) return "";
  for (fs::path at = folder; at.has_relative_path(); at = at.parent_path()) {
    if (fs::is_symlink(at, ignored) && !fs::exists(at, ignored)) {
      return at.string() + " is a symbolic link to " + fs::read_symlink(at, ignored).string() +
             ", which does not exist; make that folder or remove the link";
    }
  }
  return error.message() + advice_on(error.value());
}

}  // namespace lra
