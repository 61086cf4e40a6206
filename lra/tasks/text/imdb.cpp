#include "lra/tasks/text/imdb.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <unordered_map>
#include <unordered_set>

#include "attention_variants/base/text.h"
#include "lra/data/loader.h"
#include "lra/data/reading.h"
#include "lra/formats/archive.h"

namespace lra::text {
namespace {

constexpr const char* kFolders[] = {"/neg", "/pos"};  // by label
constexpr size_t kLongest = 1 << 20;                  // bytes; the longest review has 13,704

// The parts of "x/train/pos/12_9.txt", in reverse.
std::vector<std::string> parts_from_the_end(const std::string& name) {
  std::vector<std::string> parts;
  for (size_t end = name.size();;) {
    const size_t slash = name.rfind('/', end - 1);
    parts.push_back(name.substr(slash == std::string::npos ? 0 : slash + 1,
                                slash == std::string::npos ? end : end - slash - 1));
    if (slash == std::string::npos || slash == 0) return parts;
    end = slash;
  }
}

// Id and rating of "12_9.txt".
std::pair<int64_t, int64_t> numbers_of(const std::string& base, const SourceFile& file) {
  int64_t id = -1, rating = -1;
  const char* end = base.data() + base.size();
  const auto [after_id, id_error] = std::from_chars(base.data(), end, id);
  if (id_error == std::errc() && id >= 0 && after_id != end && *after_id == '_') {
    const auto [after, error] = std::from_chars(after_id + 1, end, rating);
    if (error == std::errc() && rating >= 0 && std::string_view(after, end) == ".txt")
      return {id, rating};
  }
  throw Error(file.where() + ": the name should be <id>_<rating>.txt, as 12_9.txt");
}

// Which reviews stand more than once.
std::vector<bool> repeated(const std::vector<Review>& reviews) {
  std::unordered_map<std::string_view, int64_t> count;
  for (const Review& review : reviews) ++count[review.text];
  std::vector<bool> result;
  for (const Review& review : reviews) result.push_back(count.at(review.text) > 1);
  return result;
}

// Moves the first `count` items that are not `kept` from `rest` to `drawn`, kept ones that come
// before them to the end. False where there are too few.
bool take_first(size_t count, const std::vector<bool>& kept, std::vector<size_t>& rest,
                std::vector<size_t>& drawn) {
  const auto is_kept = [&](size_t item) { return !kept.empty() && kept[item]; };
  std::vector<size_t> passed;
  auto next = rest.begin();
  for (; count > 0 && next != rest.end(); ++next) {
    (is_kept(*next) ? passed : drawn).push_back(*next);
    if (!is_kept(*next)) --count;
  }
  rest.erase(rest.begin(), next);
  rest.insert(rest.end(), passed.begin(), passed.end());
  return count == 0;
}

// For each count, a draw of that many of the items not yet drawn, with the labels' shares kept
// (largest remainders); the first takes none of `kept`. Empty where there are too few others.
std::vector<std::vector<size_t>> draw(const std::vector<Review>& reviews,
                                      const std::vector<int64_t>& counts, uint64_t seed,
                                      const std::vector<bool>& kept = {}) {
  std::array<std::vector<size_t>, 2> rest;  // by label, in the order in which they are drawn
  for (int64_t label = 0; label < 2; ++label) {
    std::vector<size_t> items;
    for (size_t i = 0; i < reviews.size(); ++i) {
      if (reviews[i].label == label) items.push_back(i);
    }
    for (const int64_t i : epoch_permutation(static_cast<int64_t>(items.size()), seed, label)) {
      rest[static_cast<size_t>(label)].push_back(items[static_cast<size_t>(i)]);
    }
  }
  std::vector<std::vector<size_t>> draws;
  for (const int64_t count : counts) {
    const auto negative = static_cast<int64_t>(rest[0].size()),
               positive = static_cast<int64_t>(rest[1].size());
    // Rounded to the nearest, a half upwards.
    const int64_t share =
        negative == 0 ? 0
                      : (2 * count * negative + negative + positive) / (2 * (negative + positive));
    const std::array<int64_t, 2> take = {share, count - share};
    const bool first = draws.empty();
    std::vector<size_t>& drawn = draws.emplace_back();
    for (size_t label = 0; label < 2; ++label) {
      const auto wanted = static_cast<size_t>(take[label]);
      if (!take_first(wanted, first ? kept : std::vector<bool>{}, rest[label], drawn)) return {};
    }
    std::ranges::sort(drawn);
  }
  return draws;
}

}  // namespace

Reviews read(const PrepareOptions& options) {
  const Source source(options.source);
  Reviews reviews;
  source.visit(
      [&](SourceFile& file) {
        const std::vector<std::string> parts = parts_from_the_end(file.name());
        if (parts.size() < 3 || !parts[0].ends_with(".txt")) return;
        const bool train = parts[2] == "train", positive = parts[1] == "pos";
        // The archive also has unlabelled reviews, lists of addresses and word counts.
        if ((!train && parts[2] != "test") || (!positive && parts[1] != "neg")) return;
        const auto [id, rating] = numbers_of(parts[0], file);
        const std::string bytes = file.read_all(kLongest);
        const std::string_view text = strip(bytes);
        if (text.empty()) {
          ++reviews.empty;
          return;
        }
        (train ? reviews.train : reviews.test)
            .push_back({.label = positive ? 1 : 0,
                        .id = id,
                        .rating = rating,
                        .text = std::string(text),
                        .file = file.name()});
      },
      visit_options(options));
  const std::string where = options.source.string();
  const auto sort_and_check = [&](std::vector<Review>& half, const std::string& name) {
    const auto key = [](const Review& r) { return std::pair(r.label, r.id); };
    std::ranges::sort(half, {}, key);
    const auto same = std::ranges::adjacent_find(half, {}, key);
    if (same != half.end()) {
      throw Error(fmt::format("{}: two reviews have the id {} in {}{}: {} and {}; remove one",
                              where, same->id, name, kFolders[same->label], printable(same->file),
                              printable(std::next(same)->file)));
    }
    for (int64_t label = 0; label < 2; ++label) {
      if (std::ranges::count(half, label, &Review::label) > 0) continue;
      throw Error(where + " holds no reviews " + name + kFolders[label] +
                  "/<id>_<rating>.txt; the data is aclImdb_v1.tar.gz of "
                  "https://ai.stanford.edu/~amaas/data/sentiment/");
    }
  };
  sort_and_check(reviews.train, "train");
  sort_and_check(reviews.test, "test");
  return reviews;
}

Splits split(const Reviews& reviews, const PrepareOptions& options) {
  const auto train_half = static_cast<int64_t>(reviews.train.size()),
             test_half = static_cast<int64_t>(reviews.test.size());
  const int64_t dev = options.dev >= 0 ? options.dev : std::max<int64_t>(1, train_half / 10),
                train = options.train >= 0 ? options.train : train_half - dev,
                test = options.test >= 0 ? options.test : test_half;
  if (train < 1 || dev < 1 || train + dev > train_half || test < 1 || test > test_half) {
    throw UsageError(options.source.string() + " holds " + std::to_string(train_half) +
                     " reviews for train and dev and " + std::to_string(test_half) +
                     " for test; --train " + std::to_string(train) + " --dev " +
                     std::to_string(dev) + " --test " + std::to_string(test) +
                     " cannot be made of them");
  }
  std::vector<std::vector<size_t>> drawn =
      draw(reviews.train, {dev, train}, options.seed, repeated(reviews.train));
  if (drawn.empty()) {
    throw UsageError(options.source.string() + " holds too few reviews that stand once for --dev " +
                     std::to_string(dev) + ": copies of a review stay in train");
  }
  return {.train = std::move(drawn[1]),
          .dev = std::move(drawn[0]),
          .test = draw(reviews.test, {test}, options.seed).front()};
}

Repeats repeats(const Reviews& reviews, const Splits& splits) {
  Repeats found;
  std::unordered_set<std::string_view> train, test;
  for (const std::vector<size_t>* chosen : {&splits.train, &splits.dev}) {
    for (const size_t i : *chosen) {
      if (!train.insert(reviews.train[i].text).second) ++found.within_train;
    }
  }
  for (const size_t i : splits.test) {
    const std::string& text = reviews.test[i].text;
    if (train.contains(text)) ++found.test_in_train;
    if (!test.insert(text).second) ++found.within_test;
  }
  return found;
}

std::string Repeats::text() const {
  return fmt::format(
      "test reviews that stand word for word in train or dev: {}; repeats within train and dev: "
      "{}, within test: {}",
      test_in_train, within_train, within_test);
}

std::vector<std::string> notes_of(const Reviews& reviews, const Repeats& repeats) {
  constexpr int64_t kPublic = 50'000;
  std::vector<std::string> notes = {repeats.text()};
  if (std::ssize(reviews.train) + std::ssize(reviews.test) + reviews.empty != kPublic)
    notes.push_back(fmt::format(
        "WARNING: the source has {} reviews for train and dev and {} for test; the public data "
        "have 25000 and 25000",
        reviews.train.size(), reviews.test.size()));
  int64_t contradicted = 0;  // by a rating, of 1 to 4 and 7 to 10 in the public data
  for (const auto* half : {&reviews.train, &reviews.test})
    contradicted += std::ranges::count_if(
        *half, [](const Review& r) { return r.label == 1 ? r.rating < 5 : r.rating > 6; });
  if (contradicted > 0)
    notes.push_back(fmt::format(
        "WARNING: reviews whose rating contradicts their folder: {} (pos has 7 to 10, neg 1 to 4)",
        contradicted));
  return notes;
}

}  // namespace lra::text
