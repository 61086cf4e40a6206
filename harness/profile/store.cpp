#include "harness/profile/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <sstream>

#include "attention_variants/base/error.h"
#include "attention_variants/base/files.h"
#include "attention_variants/base/text.h"
#include "harness/host/folder_lock.h"
#include "results/analysis/profile_cells.h"
#include "results/store/store.h"

namespace lra::profile {
namespace {

std::string line_of(const Profile& record) { return make_profile(record).dump(); }

}  // namespace

std::vector<Profile> read_profile(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) return {};
  const Records records = find_records({file});
  const bool other =
      !records.results.empty() || !records.fidelity.empty() || !records.where.empty();
  if (!records.bad.empty() || other) {
    throw Error(
        fmt::format("{} is not a profile of this program ({}); choose another file{}",
                    file.string(), other ? "it holds other records" : records.bad.front().reason,
                    !records.profiles.empty() ? ", or remove the lines that are not of it" : ""));
  }
  return records.profiles;
}

size_t remove_records(const std::filesystem::path& file,
                      const std::function<bool(const Profile&)>& is_one) {
  const host::FolderLock lock = host::FolderLock::of_file(file);
  ProfileStore store(file, {});
  const size_t removed = store.remove(is_one);
  if (store.records().empty()) {
    std::filesystem::remove(file);  // an empty one is no profile
  } else if (removed > 0) {
    store.write();
  }
  return removed;
}

ProfileStore::ProfileStore(std::filesystem::path file, std::vector<std::string> keys)
    : file_(std::move(file)), keys_(std::move(keys)), records_(read_profile(file_)) {
  const AtomicFile writable(file_);  // a folder that is missing or read-only is found at once
  if (records_.empty()) return;
  std::istringstream lines(read_file(file_));
  for (std::string line; std::getline(lines, line);) {
    if (strip(line).empty()) continue;
    as_read_[line_of(parse_profile(parse_json(line, file_.string())))] = line;
  }
}

void ProfileStore::replace_failed(const std::vector<std::string>& others) {
  const auto failed = [](const Profile& record) {
    return record.status != Status::ok || !record.noisy.empty();
  };
  std::erase_if(records_, [&](const Profile& record) {
    return failed(record) && std::ranges::count(others, identity(record)) > 0;
  });
  for (const std::string& key : keys_) {
    const auto it = at(key);
    if (it != records_.end() && failed(*it)) replaced_.insert(key);
  }
}

size_t ProfileStore::remove(const std::function<bool(const Profile&)>& is_one) {
  return std::erase_if(records_, is_one);
}

std::vector<Profile>::iterator ProfileStore::at(const std::string& key) {
  const auto last = std::find_if(records_.rbegin(), records_.rend(),
                                 [&](const Profile& record) { return identity(record) == key; });
  return last == records_.rend() ? records_.end() : std::prev(last.base());
}

Profile* ProfileStore::find(size_t i) {
  if (replaced_.contains(keys_[i])) return nullptr;
  const auto it = at(keys_[i]);
  return it == records_.end() ? nullptr : &*it;
}

void ProfileStore::insert(Profile record, size_t i) {
  if (replaced_.erase(keys_[i]) > 0)
    std::erase_if(records_, [&](const Profile& old) { return identity(old) == keys_[i]; });
  auto before = records_.end();
  for (size_t later = i + 1; later < keys_.size() && before == records_.end(); ++later)
    before = at(keys_[later]);
  records_.insert(before, std::move(record));
}

void ProfileStore::write() const {
  std::string text;
  for (const Profile& record : records_) {
    const std::string line = line_of(record);
    const auto same = as_read_.find(line);
    text += (same == as_read_.end() ? line : same->second) + "\n";
  }
  write_file(file_, text);
}

}  // namespace lra::profile
