// The task "retrieval" (ACL Anthology Network, Radev et al. 2013, in LRA's pairs): does one of two
// papers cite the other, byte by byte? Two inputs a sample.
#pragma once

#include <map>
#include <string>

#include "lra/data/task.h"
#include "lra/formats/copies.h"

namespace lra::retrieval {

inline constexpr size_t kLongest = 10'000;  // bytes of a text that LRA reads

struct Pairs {
  std::map<std::string, SplitWriter> splits;
  NamedFiles files;  // where they were, and what to note
};

/// Reads new_aan_pairs.{train,eval,test}.tsv, the first `options.train` (dev, test) rows each or
/// all, from a folder or an archive (LRA's release as it is, say). Rows end in "\n"; columns are
/// separated by tabs, with no quoting:
///   label id1 id2 text1 text2     label 0 or 1, as "0" or "0.0"; texts are taken as they stand
/// Some copies hold the first three columns alone. Then the texts come from a file aan_texts.tsv in
/// the same source, a document a line:
///   id text
/// Throws Error with file and line on anything else.
Pairs read_tsv(const PrepareOptions& options);

/// A stand-in for AAN, whose texts may not be passed on: pairs of halves of film reviews
/// (`options.source`, see imdb.h), with label 1 where both are of one review. A half is paired with
/// one of a review of about the same length and the same label, so that the content has to tell.
/// Each half is used once, and the splits share no review, but for copies that IMDB has in train
/// and test. Counts are pairs, multiples of 4; throws UsageError where a label has an odd number.
/// Texts are bytes literals, as in AAN's files.
Pairs make_stand_in(const PrepareOptions& options);

}  // namespace lra::retrieval
