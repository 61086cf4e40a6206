// Selective copying: tokens among noise, then as many markers, where the tokens are asked for in
// their order (Gu and Dao, "Mamba", 2023, after Jing et al. 2019; state-spaces/s4,
// src/dataloaders/datasets/copying.py with `variable`).
#pragma once

#include <cstdint>

#include "attention_variants/base/random.h"
#include "lra/data/labelled_tokens.h"

namespace lra::selective_copying {

inline constexpr int64_t kVocabulary = 16;

/// What --set of `lra data prepare` knows. N is noise + 2 tokens.
struct Options {
  int64_t noise = 100;    // L
  int64_t tokens = 10;    // M, to be kept
  int64_t alphabet = 10;  // A: kept tokens are 1 to A - 2, noise is 0, markers are A - 1

  template <class Fields>
  void fields(Fields& f) {
    f("noise", noise, between(0, 1'000'000));
    f("tokens", tokens, between(1, 100'000));
    f("alphabet", alphabet, between(3, kVocabulary));
  }
};

/// Noise with the kept tokens at random places, all equally likely, then the markers, whose labels
/// those tokens are.
LabelledTokens draw_sample(CounterRandom& random, const Options& options);

}  // namespace lra::selective_copying
