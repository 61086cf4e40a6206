// ListOps: evaluation, text, and the registration of the task. See listops.h.
#include "lra/tasks/listops/listops.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "attention_variants/base/text.h"
#include "lra/data/loader.h"
#include "lra/data/reading.h"

namespace lra::listops {
namespace {

constexpr std::array<int64_t, 3> kDefaults = {96'000, 2'000, 2'000};  // LRA's train, dev and test

int64_t apply(uint16_t op, std::span<uint8_t> values) {
  if (op == kMin) return *std::ranges::min_element(values);
  if (op == kMax) return *std::ranges::max_element(values);
  if (op == kSum) {
    int64_t sum = 0;
    for (const uint8_t value : values) sum += value;
    return sum % 10;
  }
  std::ranges::sort(values);
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

void prepare_from_tsv(const PrepareOptions& options, Manifest manifest) {
  if (options.min_length >= 0 || options.max_length >= 0) {
    throw UsageError(
        "--min-length and --max-length choose what is generated; with --source lengths are as "
        "they come");
  }
  const auto [splits, files] = read_tsv(options);
  manifest.source = "LRA's TSV, from " + source_name(options);
  manifest.generator = "listops-tsv/1";
  manifest.members = files.members;
  manifest.notes = files.notes;
  for (std::string& note : notes_of_rows(splits, options, kDefaults))
    manifest.notes.push_back(std::move(note));
  for (const char* split : kSplits) manifest.options[split] = splits.at(split).size();
  write_prepared(options.out, manifest, splits);
}

TreeOptions tree_options(const PrepareOptions& options) {
  TreeOptions tree;
  if (options.min_length >= 0) tree.min_length = options.min_length;
  if (options.max_length >= 0) tree.max_length = options.max_length;
  if (tree.max_length - tree.min_length < 2) {
    throw UsageError("ListOps needs lengths between --min-length " +
                     std::to_string(tree.min_length) + " and --max-length " +
                     std::to_string(tree.max_length) + " (both excluded)");
  }
  if (tree.max_length > 1'000'000) {
    throw UsageError("--max-length should be at most 1000000, not " +
                     std::to_string(tree.max_length));
  }
  return tree;
}

// Trees of fewer tokens are drawn again and again. Repeats are left out, so that the first trees
// are shorter than the last: splits have to be drawn from all of them.
constexpr int64_t kRepeating = 10;

// The split of each tree in the order in which they are generated.
std::vector<uint8_t> splits_of(const std::array<int64_t, 3>& counts, bool drawn, uint64_t seed) {
  std::vector<uint8_t> splits;
  for (size_t i = 0; i < 3; ++i)
    splits.insert(splits.end(), static_cast<size_t>(counts[i]), static_cast<uint8_t>(i));
  if (!drawn) return splits;
  std::vector<uint8_t> shuffled(splits.size());
  const std::vector<int64_t> order = epoch_permutation(std::ssize(splits), seed, /*epoch=*/0);
  for (size_t i = 0; i < splits.size(); ++i) shuffled[static_cast<size_t>(order[i])] = splits[i];
  return shuffled;
}

void prepare_listops(const PrepareOptions& options) {
  refuse_other_options(options, "listops", {"lengths", seed_if(options.source.empty())});
  Manifest manifest;
  manifest.task = "listops";
  manifest.vocabulary = kTokens.size();
  manifest.classes = 10;
  if (!options.source.empty()) return prepare_from_tsv(options, manifest);

  const TreeOptions tree = tree_options(options);
  const std::array<int64_t, 3> counts = split_counts(options, kDefaults, 100'000'000);
  const int64_t total = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  manifest.source = "generated";
  const bool drawn = tree.min_length < kRepeating;
  manifest.generator = drawn ? "listops/2" : "listops/1";
  manifest.options = {{"seed", options.seed}};
  for (size_t i = 0; i < 3; ++i) manifest.options[kSplits[i]] = counts[i];
  manifest.options["min_length"] = tree.min_length;
  manifest.options["max_length"] = tree.max_length;
  manifest.options["max_depth"] = tree.max_depth;
  manifest.options["max_args"] = tree.max_args;
  if (already_prepared(options.out, manifest)) return;
  // Of two bytes a token, in vectors that double; lengths lie a third of the way up on average.
  const int64_t tokens = tree.min_length + (tree.max_length - tree.min_length) / 3;
  check_memory(options, total * tokens * 4,
               fmt::format("{} expressions of {} to {} tokens", total, tree.min_length + 1,
                           tree.max_length - 1));

  std::map<std::string, SplitWriter> splits;
  const std::vector<uint8_t> split = splits_of(counts, drawn, options.seed);
  size_t tree_number = 0;
  GenerateOptions generator{.tree = tree,
                            .seed = options.seed,
                            .count = total,
                            .threads = options.threads,
                            .progress = {},
                            .stop = options.stop};
  if (options.progress) {
    generator.progress = [&](int64_t done) { options.progress(done, total, "generate"); };
  }
  generate(generator, [&](std::span<const uint16_t> ids, int64_t value) {
    SplitWriter& writer = splits[kSplits[split[tree_number++]]];
    writer.tokens(ids);
    writer.label(value);
  });
  write_prepared(options.out, manifest, splits);
}

IdMap map_without_brackets() {
  IdMap map{.ids = {kPad}, .vocabulary = kTokensWithoutBrackets.size(), .name = "without brackets"};
  for (size_t id = 1; id < kTokens.size(); ++id) {
    std::string_view word = kTokens[id];
    if (word.front() == '[') word.remove_prefix(1);
    const auto at = std::ranges::find(kTokensWithoutBrackets, word);
    map.ids.push_back(at == kTokensWithoutBrackets.end()
                          ? uint16_t{kPad}
                          : static_cast<uint16_t>(at - kTokensWithoutBrackets.begin()));
  }
  return map;
}

std::vector<uint16_t> read_expression(std::string_view text) {
  std::vector<uint16_t> ids = from_source(text);
  evaluate(ids);  // it is one
  return ids;
}

std::string words_of(std::span<const uint16_t> ids, std::span<const std::string_view> words) {
  std::string text;
  for (const uint16_t id : ids) {
    if (!text.empty()) text += ' ';
    if (id > 0 && id < words.size()) {
      text += words[id];
    } else {
      text.append("<").append(std::to_string(id)).append(">");
    }
  }
  return text;
}

[[maybe_unused]] const bool listops_registered = register_task({
    .name = "listops",
    .title = "ListOps",
    .classes = 10,
    .vocabulary = kTokens.size(),
    .inputs = 1,
    .length = 2048,
    .dev = kDefaults[1],
    .whole_samples = true,
    .masked_share = 0.1,
    .public_data = {{"train", kDefaults[0]},
                    {"dev", kDefaults[1]},
                    {"test", kDefaults[2]},
                    {"min_length", 500},
                    {"max_length", 2'000},
                    {"max_depth", 10},
                    {"max_args", 10}},
    .description = "the value of nested list operations (MIN, MAX, MED, SM) over digits",
    .prepare = prepare_listops,
    .check_sample = check_value,
    .render = render,
    .read_text = read_expression,
    .without_brackets = map_without_brackets(),
    .render_without_brackets = render_without_brackets,
    .export_data = write_tsv,
});

}  // namespace

int64_t evaluate(std::span<const uint16_t> ids) {
  std::vector<std::pair<uint16_t, size_t>> open;  // operator, and where its values begin
  std::vector<uint8_t> values;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i > 0 && open.empty()) throw Error("the expression goes on after its end");
    if (is_operator(ids[i])) {
      open.emplace_back(ids[i], values.size());
    } else if (is_digit(ids[i])) {
      values.push_back(static_cast<uint8_t>(ids[i] - kZero));
    } else if (ids[i] != kClose) {
      throw Error("id " + std::to_string(ids[i]) + " is no token");
    } else if (open.empty()) {
      throw Error("']' closes no list");
    } else {
      const auto [op, begin] = open.back();
      if (begin == values.size()) throw Error(std::string(kTokens[op]) + " has no arguments");
      const int64_t value = apply(op, std::span(values).subspan(begin));
      values.resize(begin);
      values.push_back(static_cast<uint8_t>(value));
      open.pop_back();
    }
  }
  if (ids.empty()) throw Error("the expression is empty");
  if (!open.empty()) throw Error(std::to_string(open.size()) + " lists are not closed");
  return values.front();
}

void check_value(std::span<const uint16_t> ids, int64_t label) {
  const int64_t value = evaluate(ids);
  if (value != label)
    throw Error("the expression has the value " + std::to_string(value) + ", but its label is " +
                std::to_string(label));
}

std::string render(std::span<const uint16_t> ids) { return words_of(ids, kTokens); }

std::string render_without_brackets(std::span<const uint16_t> ids) {
  return words_of(ids, kTokensWithoutBrackets);
}

std::string to_source(std::span<const uint16_t> ids) {
  // The parentheses before an operator count its arguments, which come later.
  std::vector<int> arguments(ids.size(), 0);
  std::vector<size_t> open;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] == kClose) {
      if (!open.empty()) open.pop_back();
      continue;
    }
    if (!open.empty()) ++arguments[open.back()];
    if (is_operator(ids[i])) open.push_back(i);
  }
  std::string text;
  size_t depth = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (!text.empty()) text += ' ';
    if (is_operator(ids[i])) {
      for (int k = 0; k <= arguments[i]; ++k) text += "( ";
      text += kTokens[ids[i]];
      ++depth;
      continue;
    }
    text += kTokens[ids[i]];
    if (ids[i] == kClose) {
      text += " )";
      --depth;
    }
    if (depth > 0) text += " )";  // the end of an argument
  }
  return text;
}

std::vector<uint16_t> from_source(std::string_view source) {
  std::vector<uint16_t> ids;
  while (!source.empty()) {
    const std::string_view word = source.substr(0, source.find(' '));
    source.remove_prefix(std::min(word.size() + 1, source.size()));
    if (word.empty() || word == "(" || word == ")") continue;
    const auto known = std::ranges::find(kTokens.begin() + 1, kTokens.end(), word);
    if (known == kTokens.end()) {
      throw Error("unknown token '" + printable(word, 40) +
                  "'; ListOps has [MIN [MAX [MED [SM ] ( ) and the digits 0 to 9");
    }
    ids.push_back(static_cast<uint16_t>(known - kTokens.begin()));
  }
  return ids;
}

}  // namespace lra::listops
