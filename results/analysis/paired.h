// Two sides' predictions of the same examples.
#pragma once

#include <cstdint>
#include <span>

#include "results/records/predictions.h"
#include "results/records/result.h"
#include "results/statistics/hypothesis.h"
#include "results/statistics/interval.h"

namespace lra {

/// Whether they are of the same examples: their labels, and the samples that those stand in.
bool same_examples(const Predictions& a, const Predictions& b);

/// How two runs did on the same examples.
struct PairedCounts {
  int64_t both = 0, only_a = 0, only_b = 0, neither = 0;  // examples that are predicted rightly
};

/// A bootstrap of single runs that differ on fewer examples than these is too narrow: where one
/// example is expected to differ, none does in e^-1 of all cases, and the interval is a point.
inline constexpr int64_t kLeastDiffering = 10;

/// On how many examples, or samples where those are positions, one of the two alone is right.
/// Throws std::runtime_error where they are not of the same examples.
int64_t differing(const Predictions& a, const Predictions& b);

/// Throws std::runtime_error where the labels differ: they are not the same examples.
PairedCounts paired_counts(const Predictions& a, const Predictions& b);

/// The percentile bootstrap interval (Efron 1979) of the difference of two sides' mean accuracies,
/// a - b, as fractions, of these very runs: each of 10,000 resamples draws examples, the same for
/// all of them; where examples are positions, all those of a sample, 2,000 times. It holds
/// nothing of other seeds. The same predictions give the same interval. Throws std::runtime_error
/// where a side is empty or the examples differ.
stats::Interval paired_bootstrap(std::span<const Predictions* const> a,
                                 std::span<const Predictions* const> b);

/// The variance of that difference by the examples, or the samples whose positions they are. Throws
/// as paired_bootstrap().
stats::SamplingError paired_sampling(std::span<const Predictions* const> a,
                                     std::span<const Predictions* const> b);

/// The same of results, as fractions: paired_sampling() where all have predictions of the same
/// examples, else that of independent test sets of their sizes, which is no smaller but where the
/// sides are right on different examples.
stats::SamplingError sampling_error(std::span<const Result* const> a,
                                    std::span<const Result* const> b);

}  // namespace lra
