// What a folder of prepared data says of itself.
#pragma once

#include <compare>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "attention_variants/base/fields.h"

namespace lra {

inline constexpr const char* kSplits[] = {"train", "dev", "test"};

/// Whether samples are read with the brackets of their lists.
enum class Brackets { keep, drop };
constexpr auto names(Brackets) { return std::array{"keep", "drop"}; }

/// Whether a position of an image is a grey value, or red, green and blue.
enum class Colours { grey, rgb };
constexpr auto names(Colours) { return std::array{"grey", "rgb"}; }
constexpr int64_t channels_of(Colours colours) { return colours == Colours::rgb ? 3 : 1; }

/// Which tokens are real.
enum class InputMask {
  length,   // as many as the sample is long, from the first on
  nonzero,  // every id but 0
  none,     // all N positions: padding is a token like others, with the embedding of id 0
};
constexpr auto names(InputMask) { return std::array{"length", "nonzero", "none"}; }

/// How a protocol's `input` reads samples.
struct Reading {
  Brackets brackets = Brackets::keep;
  Colours colours = Colours::grey;  // those of the data

  auto operator<=>(const Reading&) const = default;
};

/// Another tokeniser's reading of prepared samples.
struct IdMap {
  std::vector<uint16_t> ids;  // of each id, in order, the one that it becomes; 0: it is left out
  int64_t vocabulary = 0;     // the new ids are below it
  std::string name;           // "without brackets"
};

inline constexpr const char* kManifestFile = "manifest.json";
inline constexpr const char* kDataSchema = "lra.data/1";

/// What kManifestFile holds.
struct Manifest {
  std::string task;
  std::string source;             // "generated", or the path given and what it was
  bool synthetic = false;         // stand-in data: records and tables say so
  std::string generator;          // name and version of what made it: "listops/1"
  json options = json::object();  // of the generator: seed, counts, lengths
  int64_t vocabulary = 0;         // ids are below it
  int64_t classes = 0;
  int64_t inputs = 1;            // sequences a sample; of a colour image its channels
  bool position_labels = false;  // labels stand at positions; a key of the file only where they do
  struct File {
    std::string name, sha256;
    int64_t count = 0;
  };
  std::map<std::string, File> splits;  // by split name
  // What explains the splits and is no part of the fingerprint; a key of the file only where there
  // is something to say.
  std::map<std::string, std::string> members;  // what was read -> its path within the source
  std::string split;                           // how the samples were divided: "permutation 42"
  std::vector<std::string> notes;              // of copies in the source, "WARNING: ..." of others

  std::string reading;  // IdMap::name of what samples are read by; never in the file

  /// SHA-256 over the files' hashes, in the order train, dev, test, and `reading`.
  std::string fingerprint() const;
  /// Of images, as `options.colours` says: a key of the file only where they are not grey.
  Colours colours() const;
  json to_json() const;
  static Manifest read(const std::filesystem::path& path);
};

}  // namespace lra
