// Induction heads: what stood behind a trigger is asked for behind the next one (Olsson et al.
// 2022; HazyResearch/safari, src/dataloaders/synthetics.py, generate_induction_head).
#pragma once

#include <cstdint>

#include "attention_variants/base/random.h"
#include "lra/data/labelled_tokens.h"

namespace lra::induction {

/// Random tokens are the ids 1 to 14; 0 does not occur.
inline constexpr int64_t kVocabulary = 16;
inline constexpr uint16_t kTrigger = 15;

/// Which next tokens are labels in training; in dev and test the copied ones alone.
enum class TrainLabels {
  copied,
  all,  // every next token, as safari trains
};
constexpr auto names(TrainLabels) { return std::array{"copied", "all"}; }

/// What --set of `lra data prepare` knows.
struct Options {
  int64_t length = 256;      // N
  int64_t test_length = 0;   // N of dev and test; 0 = length
  int64_t copied = 1;        // tokens behind a trigger that are the same each time
  int64_t num_triggers = 1;  // in half of the samples, one in the others; too close ones fall away
  TrainLabels train_labels = TrainLabels::all;

  template <class Fields>
  void fields(Fields& f) {
    f("length", length, between(4, 1 << 20));
    f("test_length", test_length, between(0, 1 << 20));
    f("copied", copied, between(1, 1'000'000));
    f("num_triggers", num_triggers, between(1, 10'000));
    f("train_labels", train_labels);
  }
};

/// N tokens: N - copied random ones, among which triggers stand with the copied tokens behind them,
/// a last trigger, and the copied tokens but the last. The labels of the last `copied` positions
/// are the copied tokens; with TrainLabels::all each position's label is the token after it.
LabelledTokens draw_sample(CounterRandom& random, int64_t length, const Options& options,
                           TrainLabels labels);

}  // namespace lra::induction
