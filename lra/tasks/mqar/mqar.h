// Multi-query associative recall: pairs of a key and a value, then some of the keys again, whose
// values are asked for (Arora, Eyuboglu et al., "Zoology", ICLR 2024;
// HazyResearch/zoology, zoology/data/multiquery_ar.py).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "attention_variants/base/random.h"
#include "lra/data/labelled_tokens.h"

namespace lra::mqar {

/// Keys are the ids 1 to kVocabulary / 2 - 1, values those from there on; 0 is a filler.
inline constexpr int64_t kVocabulary = 8192;

/// What --set of `lra data prepare` knows.
struct Options {
  int64_t length = 64;  // N, even
  int64_t pairs = 4;    // p
  int64_t passes = 1;   // times that the pairs stand before the first query
  double power = 0.01;  // a: a key's query stands in slot i = 1, 2, ... with a chance ∝ i^(a - 1)
  bool random_non_queries = false;  // fillers are ids in [0, kVocabulary); false: 0, as in Figure 2
  // Training samples of several sizes, "64x4:100000,128x8:20000": N x p : their number. Empty:
  // length and pairs, which are an error beside it.
  std::string mix;
  // Sizes of dev and test, each with the same number of samples, "64x4,128x8"; empty: those of
  // training.
  std::string test_sizes;

  template <class Fields>
  void fields(Fields& f) {
    f("length", length, between(4, kVocabulary - 1));
    f("pairs", pairs, between(1, kVocabulary / 2 - 1));
    f("passes", passes, between(1, kVocabulary));
    f("power", power, between(1e-6, 10));
    f("random_non_queries", random_non_queries);
    f("mix", mix);
    f("test_sizes", test_sizes);
  }
};

/// Samples of one size.
struct Segment {
  int64_t length = 0, pairs = 0;
  int64_t count = 0;  // 0: not said
};

/// Reads "64x4:100000,128x8:20000" or "64x4,128x8"; `name` is the setting's. Throws UsageError
/// where it is something else, or sizes do not fit: N even, 2 p passes + 2 p at most N, p below the
/// number of keys.
std::vector<Segment> parse_segments(const std::string& text, const std::string& name, bool counted,
                                    int64_t passes);

/// The chance of each slot of `count`: slot i, from 1, to the power of `power` - 1, over their sum.
std::vector<double> slot_chances(int64_t count, double power);

/// One sample: k1 v1 k2 v2 ..., `passes` times, then slots of two positions of which those drawn
/// begin with a key; its value is the label there.
LabelledTokens draw_sample(CounterRandom& random, const Segment& size, const Options& options);

}  // namespace lra::mqar
