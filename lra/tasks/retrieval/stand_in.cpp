// A stand-in for AAN out of film reviews. See retrieval.h.
#include <fmt/format.h>

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

// Which of the couples, in this order, give pairs of label 1: every other one, as the order is
// random. Two reviews of the same text can give no pair of label 0; another couple does in place of
// theirs.
std::vector<bool> labels_of(const std::vector<bool>& equal_texts) {
  std::vector<bool> same(equal_texts.size());
  for (size_t i = 0; i < same.size(); ++i) same[i] = i % 2 == 0;
  for (size_t i = 0; i < same.size(); ++i) {
    if (!equal_texts[i] || same[i]) continue;
    for (size_t step = 1; step < same.size(); ++step) {
      const size_t other = (i + step) % same.size();
      if (!same[other] || equal_texts[other]) continue;
      same[i] = true;
      same[other] = false;
      break;
    }
    if (!same[i])
      throw Error(
          "more than half of the reviews stand twice in the source; no pairs are made of it");
  }
  return same;
}

// Two reviews of one sentiment give two pairs, either both of label 1 or both of label 0; as many
// couples do one as the other.
SplitWriter pairs_of(const std::vector<text::Review>& reviews, std::vector<size_t> chosen,
                     const std::string& split, const PrepareOptions& options, uint64_t stream) {
  const auto positive =
      std::ranges::count_if(chosen, [&](size_t i) { return reviews[i].label != 0; });
  if (chosen.size() % 4 == 0 && positive % 2 != 0) {
    throw UsageError(fmt::format(
        "pairs are made of two reviews of one sentiment, and of the {} drawn for --{} {} are "
        "positive, an odd number; give another --{}",
        chosen.size(), split, positive, split));
  }
  if (chosen.size() % 4 != 0) {
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
  const std::vector<int64_t> order =
      epoch_permutation(couples, options.seed, static_cast<int64_t>(stream));
  const auto text_of = [&](int64_t couple, int64_t which) -> const std::string& {
    return reviews[chosen[static_cast<size_t>(2 * couple + which)]].text;
  };
  std::vector<bool> equal_texts;
  for (const int64_t couple : order)
    equal_texts.push_back(text_of(couple, 0) == text_of(couple, 1));
  const std::vector<bool> labels = labels_of(equal_texts);
  for (size_t i = 0; i < order.size(); ++i) {
    const Halves a = halves_of(text_of(order[i], 0)), b = halves_of(text_of(order[i], 1));
    add(a.first, labels[i] ? a.second : b.second, labels[i] ? 1 : 0);
    add(b.first, labels[i] ? b.second : a.second, labels[i] ? 1 : 0);
  }
  return out;
}

}  // namespace

Pairs make_stand_in(const PrepareOptions& options) {
  const text::Reviews reviews = text::read(options);
  PrepareOptions rounded = options;
  const auto four = [](int64_t size) { return size / 4 * 4; };
  const int64_t half = std::ssize(reviews.train);
  if (rounded.dev < 0) rounded.dev = std::max<int64_t>(4, four(half / 10));
  if (rounded.train < 0) rounded.train = std::max<int64_t>(4, four(half - rounded.dev));
  if (rounded.test < 0) rounded.test = std::max<int64_t>(4, four(std::ssize(reviews.test)));
  const text::Splits splits = text::split(reviews, rounded);
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
