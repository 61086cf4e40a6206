// McNemar, Fisher, Welch and Holm, on Boost.Math's distributions.
#include "results/statistics/hypothesis.h"

#include <algorithm>
#include <boost/math/distributions/binomial.hpp>
#include <boost/math/distributions/hypergeometric.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <numeric>

#include "results/statistics/statistics.h"

namespace lra::stats {
namespace {

WelchTest test_means(std::span<const double> a, std::span<const double> b,
                     const SamplingError& examples) {
  double variance = examples.variance,
         of_freedom = examples.variance * examples.variance / examples.freedom;
  for (const auto samples : {a, b}) {
    const double sd = standard_deviation(samples), count = static_cast<double>(samples.size());
    variance += sd * sd / count;
    of_freedom += sd * sd / count * sd * sd / count / (count - 1);
  }
  const double difference = mean(a) - mean(b), error = std::sqrt(variance);
  if (!(error > 0)) return {difference == 0 ? 1.0 : 0.0, {difference, difference}};
  const boost::math::students_t student(variance * variance / of_freedom);
  const double half = boost::math::quantile(student, 0.5 + kConfidence / 2) * error;
  const double beyond =
      boost::math::cdf(boost::math::complement(student, std::abs(difference) / error));
  return {2 * beyond, {difference - half, difference + half}};
}

}  // namespace

double mcnemar_p(int64_t only_a, int64_t only_b) {
  const int64_t both = only_a + only_b;
  if (both == 0) return 1;
  const boost::math::binomial fair(static_cast<double>(both), 0.5);
  return std::min(1.0, 2 * boost::math::cdf(fair, static_cast<double>(std::min(only_a, only_b))));
}

double fisher_p(int64_t a, int64_t a_of, int64_t b, int64_t b_of) {
  if (a_of == 0 || b_of == 0) return 1;
  const boost::math::hypergeometric tables(static_cast<uint64_t>(a + b),
                                           static_cast<uint64_t>(a_of),
                                           static_cast<uint64_t>(a_of + b_of));
  // Probabilities that are equal but for rounding count as equal.
  const double most = boost::math::pdf(tables, static_cast<uint64_t>(a)) * (1 + 1e-7);
  double p = 0;
  for (int64_t k = std::max<int64_t>(0, a + b - b_of); k <= std::min(a + b, a_of); ++k) {
    const double probability = boost::math::pdf(tables, static_cast<uint64_t>(k));
    if (probability <= most) p += probability;
  }
  return std::min(1.0, p);
}

double rank_sum_p(std::span<const double> a, std::span<const double> b) {
  if (a.empty() || b.empty()) return 1;
  std::vector<double> all(a.begin(), a.end());
  all.insert(all.end(), b.begin(), b.end());
  std::ranges::sort(all);
  // Doubled, the mean ranks of equal values are whole numbers.
  const auto doubled_rank = [&](double x) {
    const auto [first, last] = std::ranges::equal_range(all, x);
    return static_cast<size_t>((first - all.begin()) + (last - all.begin()) + 1);
  };
  const size_t most = all.size() * (all.size() + 1);
  // Of so many values, the ways to choose them with this doubled rank sum.
  std::vector<std::vector<double>> ways(a.size() + 1, std::vector<double>(most + 1));
  ways[0][0] = 1;
  for (const double x : all) {
    const size_t rank = doubled_rank(x);
    for (size_t chosen = a.size(); chosen > 0; --chosen) {
      for (size_t sum = most; sum >= rank; --sum) ways[chosen][sum] += ways[chosen - 1][sum - rank];
    }
  }
  const auto distance = [&](size_t sum) {
    const size_t mean = a.size() * (all.size() + 1);
    return sum > mean ? sum - mean : mean - sum;
  };
  size_t found = 0;
  for (const double x : a) found += doubled_rank(x);
  double as_far = 0, total = 0;
  for (size_t sum = 0; sum <= most; ++sum) {
    total += ways[a.size()][sum];
    if (distance(sum) >= distance(found)) as_far += ways[a.size()][sum];
  }
  return as_far / total;
}

double share_above(std::span<const double> a, std::span<const double> b) {
  if (a.empty() || b.empty()) return 0.5;
  double above = 0;
  for (const double x : a) {
    for (const double y : b) above += x > y ? 1 : x == y ? 0.5 : 0;
  }
  return above / static_cast<double>(a.size() * b.size());
}

WelchTest welch_test(std::span<const double> a, std::span<const double> b,
                     const SamplingError& examples) {
  const WelchTest seeds = test_means(a, b, {});
  if (!(examples.variance > 0)) return seeds;
  const WelchTest both = test_means(a, b, examples);
  return {.p = std::max(seeds.p, both.p),
          .difference = {std::min(seeds.difference.low, both.difference.low),
                         std::max(seeds.difference.high, both.difference.high)}};
}

std::vector<double> holm(std::span<const double> p) {
  std::vector<size_t> order(p.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) { return p[i]; });
  std::vector<double> adjusted(p.size());
  double least = 0;
  for (size_t rank = 0; rank < order.size(); ++rank) {
    least = std::max(least, static_cast<double>(p.size() - rank) * p[order[rank]]);
    adjusted[order[rank]] = std::min(1.0, least);
  }
  return adjusted;
}

}  // namespace lra::stats
