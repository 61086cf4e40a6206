// Prepared data: DIR/<task>/{train,dev,test}.safetensors and manifest.json.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "lra/data/manifest.h"
#include "lra/data/split.h"

namespace lra {

/// Which split files are opened; of the others nothing is read, and they may be missing.
enum class OpenedSplits { all, all_but_test };

/// A prepared data set, opened for reading.
class PreparedData {
 public:
  /// `directory` is the one given to `lra data prepare --out`; throws Error that says how to
  /// prepare it where it is missing. `check_hashes`: compare every file with the manifest first (a
  /// second or so per GiB).
  PreparedData(const std::filesystem::path& directory, const std::string& task, bool check_hashes,
               OpenedSplits opened = OpenedSplits::all);

  const Manifest& manifest() const { return manifest_; }
  /// Throws UsageError for another name, Error where that split was not opened.
  const Split& split(const std::string& name) const;
  /// Compares the file of a split with the manifest; throws Error where it was changed or damaged.
  void check_hash(const std::string& split) const;
  /// From here on samples, manifest and fingerprint are those of this reading.
  void read_by(const IdMap& map);

 private:
  std::filesystem::path folder_;
  Manifest manifest_;
  std::map<std::string, Split> splits_;
};

/// Throws Error where DIR/<task> is there, not empty, and holds no prepared data.
void check_in_the_way(const std::filesystem::path& directory, const std::string& task);

/// True where DIR/<task> holds the data that `manifest` (its splits aside) describes, all hashes
/// checked; false where there is nothing; throws Error that names the difference where it holds
/// something else.
bool already_prepared(const std::filesystem::path& directory, const Manifest& manifest);

/// What to say where DIR was to hold the folder of a task and is that folder itself; "" where it is
/// not.
std::string folder_above(const std::filesystem::path& directory, const std::string& task);

/// Writes split files and manifest into DIR/<task>, whole or not at all: everything goes to a
/// temporary folder beside it that is renamed last. Does nothing where DIR/<task> holds the same
/// data already, and throws Error where it holds other data.
void write_prepared(const std::filesystem::path& directory, Manifest manifest,
                    const std::map<std::string, SplitWriter>& splits);

}  // namespace lra
