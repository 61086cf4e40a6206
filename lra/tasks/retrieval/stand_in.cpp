// A stand-in for AAN out of film reviews. See retrieval.h.
#include <algorithm>

#include "attention_variants/base/text.h"
#include "lra/data/byte_tokens.h"
#include "lra/data/loader.h"
#include "lra/tasks/retrieval/retrieval.h"
#include "lra/tasks/text/imdb.h"

namespace lra::retrieval {
namespace {

struct Halves {
  std::string_view first, second;
};

// Cut at the white space nearest to the middle, or in the middle where there is none.
Halves halves_of(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\r\v\f";
  const size_t middle = text.size() / 2;
  const size_t before = text.find_last_of(kSpace, middle),
               after = text.find_first_of(kSpace, middle);
  size_t cut = middle;
  if (before != std::string_view::npos) cut = before;
  if (after != std::string_view::npos &&
      (before == std::string_view::npos || after - middle < middle - before)) {
    cut = after;
  }
  return {strip(text.substr(0, cut)), strip(text.substr(cut))};
}

// Two reviews of one sentiment give two pairs, either both of label 1 or both of label 0; as many
// couples do one as the other.
SplitWriter pairs_of(const std::vector<text::Review>& reviews, std::vector<size_t> chosen,
                     const std::string& split, const PrepareOptions& options, uint64_t stream) {
  const auto positive =
      std::ranges::count_if(chosen, [&](size_t i) { return reviews[i].label != 0; });
  if (chosen.size() % 4 != 0 || positive % 2 != 0) {
    throw UsageError(
        "pairs are made of two reviews of one sentiment, and half of them have either "
        "label, so --" +
        split + " should be a multiple of 4, not " + std::to_string(chosen.size()));
  }
  std::ranges::sort(chosen, {}, [&](size_t i) {
    return std::tuple(reviews[i].label, reviews[i].text.size(), reviews[i].id);
  });
  const auto couples = static_cast<int64_t>(chosen.size() / 2);
  SplitWriter out(/*inputs=*/2);
  const auto add = [&](std::string_view a, std::string_view b, int64_t label) {
    out.tokens(byte_ids(bytes_literal(a), kLongest));
    out.tokens(byte_ids(bytes_literal(b), kLongest));
    out.label(label);
  };
  int64_t done = 0;
  for (const int64_t couple :
       epoch_permutation(couples, options.seed, static_cast<int64_t>(stream))) {
    const auto at = chosen.begin() + 2 * couple;
    const Halves a = halves_of(reviews[at[0]].text), b = halves_of(reviews[at[1]].text);
    // The order is random, so every other couple is a random half of them.
    const bool same = done++ % 2 == 0;
    add(a.first, same ? a.second : b.second, same ? 1 : 0);
    add(b.first, same ? b.second : a.second, same ? 1 : 0);
  }
  return out;
}

}  // namespace

Pairs make_stand_in(const PrepareOptions& options) {
  const text::Reviews reviews = text::read(options);
  const text::Splits splits = text::split(reviews, options);
  // Streams of their own: 0 and 1 drew the splits.
  Pairs stand_in;
  std::map<std::string, SplitWriter>& pairs = stand_in.splits;
  pairs["train"] = pairs_of(reviews.train, splits.train, "train", options, 2);
  pairs["dev"] = pairs_of(reviews.train, splits.dev, "dev", options, 3);
  pairs["test"] = pairs_of(reviews.test, splits.test, "test", options, 4);
  stand_in.files.notes = text::notes_of(reviews, text::repeats(reviews, splits));
  return stand_in;
}

}  // namespace lra::retrieval
