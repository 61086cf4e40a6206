// The records of a profile in their file.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "results/records/profile.h"

namespace lra::profile {

/// The records of a profile's file, none where there is no file; throws Error where it is something
/// else.
std::vector<Profile> read_profile(const std::filesystem::path& file);

/// Removes from a profile's file the records that `is_one` holds of, and the file where none is
/// left; returns how many went. Other lines stay as they were. Throws Error where the file is no
/// profile, or in use.
size_t remove_records(const std::filesystem::path& file,
                      const std::function<bool(const Profile&)>& is_one);

/// The records of a file, found by their cell. Those of the plan stand in the plan's order, behind
/// those of other plans.
class ProfileStore {
 public:
  /// Reads the file. `keys`: identity() of the plan's cells, in their order. Throws Error where it
  /// is not a profile or cannot be written.
  ProfileStore(std::filesystem::path file, std::vector<std::string> keys);

  /// What failed or stayed noisy is measured anew: of `others` it goes, of the keys it stands in
  /// the file until insert() brings another in its place.
  void replace_failed(const std::vector<std::string>& others);
  /// Removes the records that `is_one` holds of; returns how many went.
  size_t remove(const std::function<bool(const Profile&)>& is_one);
  /// The record of the plan's cell `i`, the last where the file has several, or null; it moves at
  /// the next insert().
  Profile* find(size_t i);
  /// Adds the record of cell `i`, which has none or one to be replaced.
  void insert(Profile record, size_t i);
  /// Lines that did not change stay as they were, whatever else they say.
  void write() const;
  const std::vector<Profile>& records() const { return records_; }

 private:
  std::vector<Profile>::iterator at(const std::string& key);

  std::filesystem::path file_;
  std::vector<std::string> keys_;
  std::vector<Profile> records_;
  std::set<std::string> replaced_;              // keys
  std::map<std::string, std::string> as_read_;  // lines, by what is written of their records
};

}  // namespace lra::profile
