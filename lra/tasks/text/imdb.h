// The Large Movie Review Dataset (Maas et al. 2011): 25,000 labelled reviews to train on and 25,000
// to test on, as aclImdb/{train,test}/{neg,pos}/<id>_<rating>.txt.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lra/data/task.h"

namespace lra::text {

struct Review {
  int64_t label = 0;   // 0 = negative, 1 = positive
  int64_t id = 0;      // the number its file's name begins with
  int64_t rating = 0;  // of 10, which its file's name ends with
  std::string text;    // bytes, without white space at the ends
  std::string file;    // in the source
};

struct Reviews {
  std::vector<Review> train, test;  // sorted by label, then id
  int64_t empty = 0;                // files without text, left out
};

/// Reads `options.source`, the folder aclImdb (or one that holds it) or its archive. Throws Error
/// where reviews are missing, two have the same id, or a file has another name.
Reviews read(const PrepareOptions& options);

/// Which reviews make a split, by their place in the official half, ascending.
struct Splits {
  std::vector<size_t> train, dev, test;
};

/// Dev is drawn from the official training half, a tenth of it where `options.dev` says nothing
/// else, train is the rest or `options.train` of the rest, test is the official one or
/// `options.test` of it. Draws are uniform under `options.seed` within each label and keep the
/// labels' shares. A review whose bytes stand twice in the training half is never drawn for dev, so
/// that no copy of a train review is there. Throws UsageError where more is asked for than there
/// is.
Splits split(const Reviews& reviews, const PrepareOptions& options);

/// How split() divides them, as manifests and reports call it.
inline constexpr const char* kSplit = "dev of train, copies on one side";

/// Reviews that stand word for word (byte for byte) elsewhere.
struct Repeats {
  int64_t test_in_train = 0;  // of test: in train or dev
  int64_t within_train = 0;   // of train and dev: again there, the first of each not counted
  int64_t within_test = 0;
  std::string text() const;
};
Repeats repeats(const Reviews& reviews, const Splits& splits);

/// What the manifest says of the reviews: their repeats, and "WARNING: ..." where they are not all
/// of the public data's.
std::vector<std::string> notes_of(const Reviews& reviews, const Repeats& repeats);

}  // namespace lra::text
