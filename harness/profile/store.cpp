#include "harness/profile/store.h"

#include <fmt/format.h>

#include <algorithm>

#include "attention_variants/base/error.h"
#include "attention_variants/base/files.h"
#include "results/analysis/profile_cells.h"
#include "results/store/store.h"

namespace lra::profile {

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

ProfileStore::ProfileStore(std::filesystem::path file, std::vector<std::string> keys)
    : file_(std::move(file)), keys_(std::move(keys)), records_(read_profile(file_)) {
  const AtomicFile writable(file_);  // a folder that is missing or read-only is found at once
}

void ProfileStore::drop_failed(const std::vector<std::string>& others) {
  std::erase_if(records_, [&](const Profile& record) {
    const bool failed = record.status != Status::ok || !record.noisy.empty();
    const std::string key = identity(record);
    return failed && (std::ranges::count(keys_, key) > 0 || std::ranges::count(others, key) > 0);
  });
}

std::vector<Profile>::iterator ProfileStore::at(const std::string& key) {
  return std::ranges::find_if(records_,
                              [&](const Profile& record) { return identity(record) == key; });
}

Profile* ProfileStore::find(size_t i) {
  const auto it = at(keys_[i]);
  return it == records_.end() ? nullptr : &*it;
}

void ProfileStore::insert(Profile record, size_t i) {
  auto before = records_.end();
  for (size_t later = i + 1; later < keys_.size() && before == records_.end(); ++later)
    before = at(keys_[later]);
  records_.insert(before, std::move(record));
}

void ProfileStore::write() const {
  std::string text;
  for (const Profile& record : records_) text += make_profile(record).dump() + "\n";
  write_file(file_, text);
}

}  // namespace lra::profile
