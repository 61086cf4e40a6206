// ListOps: nested list operations over digits (Nangia & Bowman 2018; Long Range Arena, Tay et al.
// 2020, at lengths 500-2000).
//
// An expression is a sequence of tokens: [MIN [MAX [MED [SM open a list, ] closes it, digits are
// values. Ids are 1 to 15 in that order, 0 is padding.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attention_variants/base/random.h"
#include "lra/data/task.h"
#include "lra/formats/copies.h"

namespace lra::listops {

inline constexpr std::array<std::string_view, 16> kTokens = {
    "", "[MIN", "[MAX", "[MED", "[SM", "]", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
enum Id : uint16_t { kPad, kMin, kMax, kMed, kSum, kClose, kZero };
/// As a tokeniser of letters and digits reads them: no ], MIN in place of [MIN. Ids are 1 to 14 in
/// that order.
inline constexpr std::array<std::string_view, 15> kTokensWithoutBrackets = {
    "", "MIN", "MAX", "MED", "SM", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
constexpr bool is_operator(uint16_t id) { return id >= kMin && id <= kSum; }
constexpr bool is_digit(uint16_t id) { return id >= kZero && id < kTokens.size(); }

/// What LRA's generator fixes; the defaults are its own.
struct TreeOptions {
  int64_t max_depth = 10;     // operators stand at depths 1 to max_depth - 1
  int64_t max_args = 10;      // arguments of an operator: uniform in 2 to max_args
  int64_t min_length = 500;   // tokens, excluded
  int64_t max_length = 2000;  // tokens, excluded
  /// Chance of an operator where there may be one.
  double operator_chance = 0.25;
  /// Drawn from with equal chances. Another list makes another task: it is here to test the tests.
  std::array<uint16_t, 4> operators = {kMin, kMax, kMed, kSum};
};

/// Draws one tree into `out`. False, with `out` unfinished, where its length is not within the
/// bounds.
bool draw_tree(CounterRandom& random, const TreeOptions& options, std::vector<uint16_t>& out);

/// The value of an expression, 0 to 9. Throws Error that says what is wrong where it is no
/// expression.
int64_t evaluate(std::span<const uint16_t> ids);
/// Throws the same, and where the value is not the label.
void check_value(std::span<const uint16_t> ids, int64_t label);

/// "[MAX 2 [SM 3 4 ] ]"
std::string render(std::span<const uint16_t> ids);
/// "MAX 2 SM 3 4", of ids of kTokensWithoutBrackets
std::string render_without_brackets(std::span<const uint16_t> ids);

/// LRA's source text: an operator with k arguments is "( " k + 1 times, its name, each argument as
/// " arg )", and " ] )".
std::string to_source(std::span<const uint16_t> ids);

/// The tokens of LRA's source text; parentheses carry no information and are dropped. Throws Error
/// on an unknown token.
std::vector<uint16_t> from_source(std::string_view source);

/// What generate() draws. Candidate i comes from stream i under `seed` and is kept where its length
/// fits and no earlier one equals it, so the result is the same for any number of threads.
struct GenerateOptions {
  TreeOptions tree;
  uint64_t seed = 0;
  int64_t count = 0;
  int64_t threads = 0;  // 0 = all cores
  std::function<void(int64_t)> progress;
  const std::atomic<bool>* stop = nullptr;
};

/// Calls `accept(ids, value)` for `count` distinct trees in the order of their candidates. Throws
/// Error where there are too few trees of the lengths asked for. Short trees come early where they
/// are so likely that later ones repeat them.
void generate(const GenerateOptions& options,
              const std::function<void(std::span<const uint16_t>, int64_t)>& accept);

struct TsvFiles {
  std::map<std::string, SplitWriter> splits;
  NamedFiles files;  // where they were
};

/// Reads basic_{train,val,test}.tsv of `options.source`, a folder or an archive (LRA's release as
/// it is, say), into split writers, the first `options.train` (dev, test) rows each, or all.
TsvFiles read_tsv(const PrepareOptions& options);

/// Writes basic_{train,val,test}.tsv into the folder `out`.
void write_tsv(const PreparedData& data, const std::filesystem::path& out);

}  // namespace lra::listops
