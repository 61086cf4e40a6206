// Pairs of predictions; the bootstrap on Boost.Random's distributions.
#include "results/analysis/paired.h"

#include <algorithm>
#include <boost/random/binomial_distribution.hpp>
#include <boost/random/mersenne_twister.hpp>
#include <boost/random/uniform_int_distribution.hpp>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "results/statistics/statistics.h"

namespace lra {
namespace {

constexpr uint64_t kPairedSeed = 0x10a5eed;
constexpr int kPairedResamples = 10000;
constexpr int kClusteredResamples = 2000;  // each draws every cluster by itself

// Boost's, so that the same predictions give the same interval with any standard library.
using Random = boost::random::mt19937_64;

using Side = std::span<const Predictions* const>;

stats::Interval percentiles(std::span<const double> differences) {
  return {stats::quantile(differences, (1 - stats::kConfidence) / 2),
          stats::quantile(differences, (1 + stats::kConfidence) / 2)};
}

// How many examples have i of a's runs right and j of b's: [i * (b.size() + 1) + j].
std::vector<int64_t> levels(Side a, Side b) {
  const size_t count = a[0]->labels.size();
  std::vector<size_t> level(count, 0);
  const auto add = [&](Side side, size_t weight) {
    for (const Predictions* run : side) {
      for (size_t i = 0; i < count; ++i)
        level[i] += run->labels[i] == run->predicted[i] ? weight : 0;
    }
  };
  add(a, b.size() + 1);
  add(b, 1);
  std::vector<int64_t> counts((a.size() + 1) * (b.size() + 1), 0);
  for (const size_t l : level) ++counts[l];
  return counts;
}

// The difference of the mean accuracies in a sample of as many examples, drawn from these. Only how
// many of each level are drawn matters: a multinomial, one binomial after the other.
double drawn_difference(const std::vector<int64_t>& counts, size_t a, size_t b, Random& random) {
  const int64_t all = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  int64_t left = all, to_draw = all;
  double sum = 0;
  for (size_t l = 0; l < counts.size() && to_draw > 0; ++l) {
    if (counts[l] == 0) continue;
    int64_t here = to_draw;
    if (counts[l] < left) {
      boost::random::binomial_distribution<int64_t> binomial(
          to_draw, static_cast<double>(counts[l]) / static_cast<double>(left));
      here = binomial(random);
    }
    const double value = static_cast<double>(l / (b + 1)) / static_cast<double>(a) -
                         static_cast<double>(l % (b + 1)) / static_cast<double>(b);
    sum += static_cast<double>(here) * value;
    left -= counts[l];
    to_draw -= here;
  }
  return sum / static_cast<double>(all);
}

// Of clustered examples: how much more a cluster of examples has right on side a, and its size.
struct ClusterDifference {
  double sum = 0, count = 0;
};

std::vector<ClusterDifference> cluster_differences(Side a, Side b) {
  const std::vector<int32_t>& samples = a[0]->samples;  // empty: each example is one
  std::vector<ClusterDifference> clusters;
  for (size_t i = 0; i < a[0]->labels.size(); ++i) {
    if (i == 0 || samples.empty() || samples[i] != samples[i - 1]) clusters.emplace_back();
    clusters.back().count += 1;
    for (const auto& [side, sign] : {std::pair{a, 1.0}, {b, -1.0}}) {
      for (const Predictions* run : side) {
        if (run->labels[i] == run->predicted[i])
          clusters.back().sum += sign / static_cast<double>(side.size());
      }
    }
  }
  return clusters;
}

// The same of as many clusters, drawn from these.
double drawn_difference(const std::vector<ClusterDifference>& clusters, Random& random) {
  boost::random::uniform_int_distribution<size_t> which(0, clusters.size() - 1);
  ClusterDifference all;
  for (size_t i = 0; i < clusters.size(); ++i) {
    const ClusterDifference& one = clusters[which(random)];
    all.sum += one.sum;
    all.count += one.count;
  }
  return all.sum / all.count;
}

void check_sides(Side a, Side b) {
  if (a.empty() || b.empty() || a[0]->labels.empty())
    throw std::runtime_error("a paired comparison needs a run and an example on each side");
  for (const Side side : {a, b}) {
    for (const Predictions* run : side) {
      if (!same_examples(*run, *a[0]))
        throw std::runtime_error("a paired comparison needs predictions of the same examples");
    }
  }
}

}  // namespace

bool same_examples(const Predictions& a, const Predictions& b) {
  return a.labels == b.labels && a.samples == b.samples;
}

PairedCounts paired_counts(const Predictions& a, const Predictions& b) {
  if (a.labels != b.labels)
    throw std::runtime_error("a paired comparison needs predictions of the same examples");
  PairedCounts counts;
  for (size_t i = 0; i < a.labels.size(); ++i) {
    const bool right_a = a.labels[i] == a.predicted[i], right_b = b.labels[i] == b.predicted[i];
    ++(right_a ? right_b ? counts.both : counts.only_a : right_b ? counts.only_b : counts.neither);
  }
  return counts;
}

int64_t differing(const Predictions& a, const Predictions& b) {
  const Predictions *one = &a, *other = &b;
  check_sides({&one, 1}, {&other, 1});
  int64_t count = 0;
  bool seen = false;  // of this sample
  for (size_t i = 0; i < a.labels.size(); ++i) {
    if (i == 0 || a.samples.empty() || a.samples[i] != a.samples[i - 1]) seen = false;
    if (seen || (a.labels[i] == a.predicted[i]) == (b.labels[i] == b.predicted[i])) continue;
    seen = true;
    ++count;
  }
  return count;
}

stats::Interval paired_bootstrap(std::span<const Predictions* const> a,
                                 std::span<const Predictions* const> b) {
  check_sides(a, b);
  Random random(kPairedSeed);
  const bool clustered = !a[0]->samples.empty();
  const int resamples = clustered ? kClusteredResamples : kPairedResamples;
  std::vector<double> differences(static_cast<size_t>(resamples));
  if (clustered) {
    const std::vector<ClusterDifference> clusters = cluster_differences(a, b);
    for (double& difference : differences) difference = drawn_difference(clusters, random);
  } else {
    const std::vector<int64_t> counts = levels(a, b);
    for (double& difference : differences)
      difference = drawn_difference(counts, a.size(), b.size(), random);
  }
  return percentiles(differences);
}

stats::SamplingError paired_sampling(std::span<const Predictions* const> a,
                                     std::span<const Predictions* const> b) {
  check_sides(a, b);
  std::vector<ClusterDifference> clusters = cluster_differences(a, b);
  ClusterDifference all;
  for (const ClusterDifference& one : clusters) {
    all.sum += one.sum;
    all.count += one.count;
  }
  const double count = static_cast<double>(clusters.size());
  if (count < 2) return {};
  // Of a ratio of sums: how far a cluster's sum lies from what its size makes expect (Cochran
  // 1977).
  double squares = 0;
  for (const ClusterDifference& one : clusters) {
    const double residual = one.sum - all.sum / all.count * one.count;
    squares += residual * residual;
  }
  return {.variance = count / (count - 1) * squares / (all.count * all.count),
          .freedom = count - 1};
}

stats::SamplingError sampling_error(std::span<const Result* const> a,
                                    std::span<const Result* const> b) {
  std::vector<const Predictions*> sides[2];
  bool paired = true;
  for (const size_t i : {0, 1}) {
    for (const Result* r : i == 0 ? a : b) {
      const Predictions* first = sides[0].empty() ? r->predictions.get() : sides[0][0];
      paired = paired && r->predictions && same_examples(*first, *r->predictions);
      sides[i].push_back(r->predictions.get());
    }
  }
  if (paired) return paired_sampling(sides[0], sides[1]);
  stats::SamplingError error{.variance = 0, .freedom = std::numeric_limits<double>::infinity()};
  for (const auto side : {a, b}) {
    double accuracy = 0, count = std::numeric_limits<double>::infinity();
    for (const Result* r : side) {
      accuracy += r->test->accuracy / static_cast<double>(side.size());
      count = std::min(count, static_cast<double>(r->test->independent()));
    }
    // Of Agresti and Coull (1998): at 0 and 100 % too something is not known.
    const double share = (accuracy * count + 2) / (count + 4);
    error.variance += share * (1 - share) / (count + 4);
    error.freedom = std::max(1.0, std::min(error.freedom, count - 1));
  }
  return error;
}

}  // namespace lra
