#include "lra/formats/copies.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "attention_variants/base/sha256.h"
#include "attention_variants/base/text.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRelease = "lra_release/";
constexpr size_t kLongestPath = 200;  // bytes of a path in a message

// Hashes what is read of another file.
class HashedFile : public SourceFile {
 public:
  explicit HashedFile(SourceFile& file) : SourceFile(file.name(), file.where()), file_(file) {}

  size_t read(std::span<char> out) override {
    broken_ = true;  // unless it comes back
    const size_t got = file_.read(out);
    broken_ = false;
    hash_.add({out.data(), got});
    return got;
  }
  /// Whether the source itself could not be read, or was stopped.
  bool broken() const { return broken_; }
  /// Of the whole file: reads the rest.
  std::string sha256() {
    std::vector<char> rest(1 << 16);
    while (read(rest) > 0) {
    }
    return hash_.finish();
  }

 private:
  SourceFile& file_;
  Sha256 hash_;
  bool broken_ = false;
};

// A folder's path without its parts "lra_release".
std::string beyond_release(std::string path) {
  path = "/" + path + "/";
  const std::string part = std::string("/") + kRelease;
  for (size_t at = path.find(part); at != std::string::npos; at = path.find(part))
    path.erase(at, part.size() - 1);
  return path;
}

}  // namespace

Copies::Copies(const Source& source, bool compare) : source_(source.path()), compare_(compare) {
  const fs::path own = fs::absolute(source_ / "").lexically_normal().parent_path();
  if (source.folder()) prefix_ = own.filename().string() + "/";
}

std::string Copies::path(size_t folder, const std::string& key) const {
  return folders_[folder].empty() ? key : folders_[folder] + "/" + key;
}

bool Copies::inner(size_t folder) const {
  const std::string whole = "/" + prefix_ + folders_[folder] + "/";
  return whole.find(std::string("/") + kRelease + kRelease) != std::string::npos;
}

void Copies::refuse(const std::string& key, const Hit& first, const Hit& second) const {
  const std::string one = printable(path(first.folder, key), kLongestPath),
                    two = printable(path(second.folder, key), kLongestPath);
  if (first.folder == second.folder) throw Error(source_.string() + " holds " + one + " twice");
  throw Error(fmt::format("{} holds two files {} ({} and {}); give the folder of one of them",
                          source_.string(), printable(key.substr(key.rfind('/') + 1), kLongestPath),
                          one, two));
}

void Copies::add(SourceFile& file, const std::string& copy, const std::string& key,
                 const Use& use) {
  const auto at = std::ranges::find(folders_, copy);
  const auto folder = static_cast<size_t>(at - folders_.begin());
  if (at == folders_.end()) folders_.push_back(copy);
  File& known = files_[key];
  const bool is_inner = inner(folder);
  for (const Hit& hit : known.hits) {
    if (hit.folder == folder || (is_inner && inner(hit.folder)))
      refuse(key, hit, {.folder = folder, .sha256 = {}});
  }
  const bool first = known.hits.empty();
  Hit& hit = known.hits.emplace_back(Hit{.folder = folder, .sha256 = {}});
  if (!compare_) {
    known.used = folder;
    return use(file);
  }
  HashedFile hashed(file);
  if (first || is_inner) {
    known.used = folder;
    known.error = nullptr;
    try {
      use(hashed);
    } catch (const Error&) {
      if (is_inner || hashed.broken()) throw;
      known.error = std::current_exception();
      failed_.push_back(key);
    }
  }
  hit.sha256 = hashed.sha256();
}

// That of the doubled files, or the number of folders where none is doubled.
size_t Copies::chosen_folder() const {
  size_t chosen = folders_.size();
  for (const auto& [key, file] : files_) {
    if (file.hits.size() < 2) continue;
    const auto best =
        std::ranges::find_if(file.hits, [this](const Hit& hit) { return inner(hit.folder); });
    if (best == file.hits.end()) refuse(key, file.hits[0], file.hits[1]);
    for (const Hit& hit : file.hits) {
      if (beyond_release(folders_[hit.folder]) != beyond_release(folders_[best->folder]))
        refuse(key, file.hits[0], file.hits[1]);
    }
    if (chosen != folders_.size() && chosen != best->folder) {
      throw Error(fmt::format("{} holds some files twice in {} and others in {}; give one folder",
                              source_.string(), printable(folders_[chosen], kLongestPath),
                              printable(folders_[best->folder], kLongestPath)));
    }
    chosen = best->folder;
  }
  return chosen;
}

std::string Copies::compared(size_t chosen, size_t other) const {
  std::vector<std::string> here, there, changed;  // keys
  for (const auto& [key, file] : files_) {
    const auto of = [&hits = file.hits](size_t folder) {
      return std::ranges::find(hits, folder, &Hit::folder);
    };
    const auto one = of(chosen), two = of(other);
    const auto none = file.hits.end();
    if (one != none && two == none) here.push_back(key);
    if (one == none && two != none) there.push_back(key);
    if (one != none && two != none && one->sha256 != two->sha256) changed.push_back(key);
  }
  const std::string read = printable(folders_[chosen], kLongestPath) + " was read; " +
                           printable(folders_[other], kLongestPath);
  std::string differs;
  const auto add = [&differs](const std::vector<std::string>& keys, const char* what) {
    if (keys.empty()) return;
    differs += fmt::format("{}{} {} ({}{})", differs.empty() ? "" : ", ", keys.size(), what,
                           printable(keys.front(), kLongestPath), keys.size() > 1 ? ", ..." : "");
  };
  add(changed, "with other bytes");
  add(here, "missing there");
  add(there, "there alone");
  if (differs.empty()) return read + " holds the same files, byte for byte";
  return fmt::format("WARNING: {} differs, in files: {}", read, differs);
}

Copies::Choice Copies::finish() const {
  const size_t chosen = chosen_folder();
  for (const std::string& key : failed_) {
    if (const std::exception_ptr& error = files_.at(key).error) std::rethrow_exception(error);
  }
  Choice choice;
  if (chosen == folders_.size()) return choice;
  choice.copy = folders_[chosen];
  std::set<size_t> others;
  for (const auto& [key, file] : files_) {
    if (file.used != chosen) choice.left_out.push_back(key);
    for (const Hit& hit : file.hits) {
      if (file.hits.size() > 1 && hit.folder != chosen) others.insert(hit.folder);
    }
  }
  for (const size_t other : others) choice.notes.push_back(compared(chosen, other));
  return choice;
}

std::map<std::string, std::string> Copies::used() const {
  std::map<std::string, std::string> paths;
  for (const auto& [key, file] : files_) paths[key] = path(file.used, key);
  return paths;
}

NamedFiles visit_named(const Source& source, const std::vector<std::string>& names,
                       const std::vector<std::string>& optional, const std::string& who,
                       const std::function<void(SourceFile&)>& use, const VisitOptions& options) {
  const auto wanted = [&](const SourceFile& file) {
    return std::ranges::count(names, file.base()) + std::ranges::count(optional, file.base()) > 0;
  };
  bool may_double = !source.folder();
  if (source.folder()) {  // whose names are known before anything is read
    std::set<std::string> seen;
    source.visit([&](SourceFile& file) {
      if (wanted(file) && !seen.insert(file.base()).second) may_double = true;
    });
  }
  Copies copies(source, may_double);
  source.visit(
      [&](SourceFile& file) {
        if (!wanted(file)) return;
        const size_t slash = file.name().rfind('/');
        const std::string folder = slash == std::string::npos ? "" : file.name().substr(0, slash);
        copies.add(file, folder, file.base(), use);
      },
      options);
  const Copies::Choice choice = copies.finish();
  NamedFiles found{.members = copies.used(), .notes = choice.notes};
  for (const std::string& name : names) {
    if (found.members.contains(name) && std::ranges::count(choice.left_out, name) == 0) continue;
    std::string all;
    for (const std::string& needed : names) all += (all.empty() ? "" : ", ") + needed;
    const std::string inside = choice.copy.empty() ? "" : " in " + printable(choice.copy);
    throw Error(source.path().string() + " holds no " + name + inside + ": " + who + " needs " +
                all);
  }
  return found;
}

}  // namespace lra
