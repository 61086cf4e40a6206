// Files that a source holds more than once. Google's release, lra_release.gz, has some folders
// under lra_release/ and again under lra_release/lra_release/: what the field reads is the inner
// copy.
#pragma once

#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "lra/formats/archive.h"

namespace lra {

/// Chooses between copies while their files stream by, in any order. A copy is a folder, its files
/// go by their names within it.
///
/// Where files stand twice, the copy under lra_release/lra_release/ is chosen, if the others are
/// the same path with fewer lra_release; those are compared with it byte for byte (by SHA-256).
/// Any other doubling is an Error.
class Copies {
 public:
  using Use = std::function<void(SourceFile&)>;
  /// `compare` false: the caller knows that nothing is doubled, so that no file needs to be read
  /// further than use() does.
  explicit Copies(const Source& source, bool compare = true);

  /// The file `key` of the copy in the folder `copy`, both paths within the source. Calls `use`
  /// unless a copy read before goes first. What `use` gave of this key before must be replaced by
  /// what it gives now, and what it throws of an outer copy waits for finish().
  void add(SourceFile& file, const std::string& copy, const std::string& key, const Use& use);

  struct Choice {
    std::string copy;                   // the folder chosen; "" where no file is doubled
    std::vector<std::string> left_out;  // the keys that only other copies have
    std::vector<std::string> notes;     // how the others compare; "WARNING: ..." where they differ
  };
  /// Throws what use() threw of a file that no better copy replaced, and Error where there is no
  /// choice.
  Choice finish() const;

  /// Of all copies, in the order in which they came.
  const std::vector<std::string>& folders() const { return folders_; }
  /// The path of the file used of each key, once all are added.
  std::map<std::string, std::string> used() const;

 private:
  struct Hit {
    size_t folder = 0;
    std::string sha256;  // "" where nothing is compared
  };
  struct File {
    std::vector<Hit> hits;
    size_t used = 0;  // folder
    std::exception_ptr error;
  };

  std::string path(size_t folder, const std::string& key) const;
  bool inner(size_t folder) const;
  [[noreturn]] void refuse(const std::string& key, const Hit& first, const Hit& second) const;
  size_t chosen_folder() const;
  std::string compared(size_t chosen, size_t other) const;

  std::filesystem::path source_;
  std::string prefix_;  // the source's own name where it is a folder: "lra_release/"
  bool compare_;
  std::vector<std::string> folders_;
  std::map<std::string, File> files_;  // by key
  std::vector<std::string> failed_;    // keys whose use() threw, in their order
};

/// Where the files were that visit_named() showed.
struct NamedFiles {
  std::map<std::string, std::string> members;  // name -> path within the source
  std::vector<std::string> notes;              // of Copies::Choice
};

/// Shows the files of these names (the last part of their paths), wherever in the source they lie,
/// each perhaps several times as Copies::add() says: the last one counts. Throws Error where one
/// stands there twice and Copies does not choose, or where one of `names` is missing, which `who`
/// needs ("ListOps").
NamedFiles visit_named(const Source& source, const std::vector<std::string>& names,
                       const std::vector<std::string>& optional, const std::string& who,
                       const std::function<void(SourceFile&)>& use,
                       const VisitOptions& options = {});

}  // namespace lra
