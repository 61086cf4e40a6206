// The paired bootstrap, on Boost.Random's distributions.
#include "results/analysis/paired.h"

#include <algorithm>
#include <boost/random/binomial_distribution.hpp>
#include <boost/random/mersenne_twister.hpp>
#include <boost/random/uniform_int_distribution.hpp>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "results/statistics/statistics.h"

namespace lra {
namespace {

constexpr uint64_t kPairedSeed = 0x10a5eed;
constexpr int kClusteredResamples = 2000;  // each draws every cluster by itself

// Boost's, so that the same predictions give the same interval with any standard library.
using Random = boost::random::mt19937_64;

using Sides = std::vector<const Predictions*>;

stats::Interval percentiles(std::span<const double> differences, double confidence) {
  return {stats::quantile(differences, (1 - confidence) / 2),
          stats::quantile(differences, (1 + confidence) / 2)};
}

Sides drawn(std::span<const Predictions* const> side, Random& random) {
  if (side.size() == 1) return {side[0]};
  boost::random::uniform_int_distribution<size_t> which(0, side.size() - 1);
  Sides result(side.size());
  for (const Predictions*& run : result) run = side[which(random)];
  return result;
}

// How many examples have i of a's runs right and j of b's: [i * (b.size() + 1) + j].
std::vector<int64_t> levels(const Sides& a, const Sides& b) {
  const size_t count = a[0]->labels.size();
  std::vector<size_t> level(count, 0);
  const auto add = [&](const Sides& side, size_t weight) {
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

std::vector<ClusterDifference> cluster_differences(const Sides& a, const Sides& b) {
  const std::vector<int32_t>& samples = a[0]->samples;
  std::vector<ClusterDifference> clusters;
  for (size_t i = 0; i < samples.size(); ++i) {
    if (i == 0 || samples[i] != samples[i - 1]) clusters.emplace_back();
    clusters.back().count += 1;
    for (const auto& [side, sign] : {std::pair{&a, 1.0}, {&b, -1.0}}) {
      for (const Predictions* run : *side) {
        if (run->labels[i] == run->predicted[i])
          clusters.back().sum += sign / static_cast<double>(side->size());
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

stats::Interval paired_bootstrap(std::span<const Predictions* const> a,
                                 std::span<const Predictions* const> b, double confidence,
                                 int resamples) {
  if (a.empty() || b.empty() || a[0]->labels.empty())
    throw std::runtime_error("a paired bootstrap needs a run and an example on each side");
  for (const auto side : {a, b}) {
    for (const Predictions* run : side) {
      if (!same_examples(*run, *a[0]))
        throw std::runtime_error("a paired bootstrap needs predictions of the same examples");
    }
  }
  Random random(kPairedSeed);
  const bool same_runs = a.size() == 1 && b.size() == 1, clustered = !a[0]->samples.empty();
  if (clustered) resamples = std::min(resamples, kClusteredResamples);
  std::vector<double> differences(static_cast<size_t>(resamples));
  if (clustered) {
    std::vector<ClusterDifference> clusters =
        cluster_differences(drawn(a, random), drawn(b, random));
    for (double& difference : differences) {
      if (!same_runs) clusters = cluster_differences(drawn(a, random), drawn(b, random));
      difference = drawn_difference(clusters, random);
    }
    return percentiles(differences, confidence);
  }
  std::vector<int64_t> counts = levels(drawn(a, random), drawn(b, random));
  for (double& difference : differences) {
    if (!same_runs) counts = levels(drawn(a, random), drawn(b, random));
    difference = drawn_difference(counts, a.size(), b.size(), random);
  }
  return percentiles(differences, confidence);
}

}  // namespace lra
