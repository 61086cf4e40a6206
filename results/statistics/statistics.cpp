// The statistics behind the tables' intervals, on Boost.Math's distributions.
#include "results/statistics/statistics.h"

#include <algorithm>
#include <boost/math/distributions/binomial.hpp>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

namespace lra::stats {
namespace {

void need(std::span<const double> samples, size_t least, const char* what) {
  if (samples.size() < least) {
    throw std::runtime_error(std::string(what) + " needs at least " + std::to_string(least) +
                             " samples, not " + std::to_string(samples.size()));
  }
}

double sorted_quantile(const std::vector<double>& sorted, double q) {
  const double position = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(position);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (position - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

}  // namespace

Interval wilson_interval(int64_t correct, int64_t count) {
  if (count < 1 || correct < 0 || correct > count) {
    throw std::runtime_error("a proportion needs 0 <= correct <= count and count >= 1, not " +
                             std::to_string(correct) + " of " + std::to_string(count));
  }
  return wilson_of_fraction(static_cast<double>(correct) / static_cast<double>(count), count);
}

Interval wilson_of_fraction(double fraction, int64_t count) {
  if (count < 1 || !(fraction >= 0) || !(fraction <= 1)) {
    throw std::runtime_error("a proportion needs a fraction from 0 to 1 and count >= 1, not " +
                             std::to_string(fraction) + " of " + std::to_string(count));
  }
  const double z = boost::math::quantile(boost::math::normal(), 0.5 + kConfidence / 2);
  const auto n = static_cast<double>(count);
  const double p = fraction;
  const double centre = (p + z * z / (2 * n)) / (1 + z * z / n);
  const double half = z / (1 + z * z / n) * std::sqrt(p * (1 - p) / n + z * z / (4 * n * n));
  // At the ends the interval touches 0 or 1 exactly; rounding would leave it a hair off.
  return {p == 0 ? 0.0 : std::max(0.0, centre - half), p == 1 ? 1.0 : std::min(1.0, centre + half)};
}

Interval clustered_interval(std::span<const Cluster> clusters) {
  double correct = 0, count = 0;
  for (const Cluster& cluster : clusters) {
    correct += static_cast<double>(cluster.correct);
    count += static_cast<double>(cluster.count);
  }
  if (count == 0) throw std::runtime_error("a fraction of clusters needs an example");
  const double fraction = correct / count, groups = static_cast<double>(clusters.size());
  double squares = 0;
  for (const Cluster& cluster : clusters) {
    const double residual =
        static_cast<double>(cluster.correct) - fraction * static_cast<double>(cluster.count);
    squares += residual * residual;
  }
  double effective = groups;
  if (squares > 0 && groups > 1) {
    const double variance = groups / (groups - 1) * squares / (count * count);
    effective = std::clamp(fraction * (1 - fraction) / variance, 1.0, count);
  }
  return wilson_of_fraction(fraction, static_cast<int64_t>(effective));
}

double mean(std::span<const double> samples) {
  need(samples, 1, "a mean");
  double sum = 0;
  for (const double x : samples) sum += x;
  return sum / static_cast<double>(samples.size());
}

double standard_deviation(std::span<const double> samples) {
  need(samples, 2, "a standard deviation");
  // The mean of equal numbers may be rounded away from them.
  if (std::ranges::all_of(samples, [&](double x) { return x == samples.front(); })) return 0;
  const double centre = mean(samples);
  double sum = 0;
  for (const double x : samples) sum += (x - centre) * (x - centre);
  return std::sqrt(sum / static_cast<double>(samples.size() - 1));
}

Interval student_interval(std::span<const double> samples) {
  need(samples, 2, "a Student interval");
  const auto n = static_cast<double>(samples.size());
  const double t = boost::math::quantile(boost::math::students_t(n - 1), 0.5 + kConfidence / 2);
  const double half = t * standard_deviation(samples) / std::sqrt(n);
  const double centre = mean(samples);
  return {centre - half, centre + half};
}

Interval seeds_interval(std::span<const double> fractions, int64_t count) {
  const Interval student = student_interval(fractions);
  const double centre = std::clamp(mean(fractions), 0.0, 1.0),
               n = static_cast<double>(fractions.size()), sd = standard_deviation(fractions),
               of_seeds = sd * sd / n;
  const Interval wilson = wilson_of_fraction(centre, count);
  const double z = boost::math::quantile(boost::math::normal(), 0.5 + kConfidence / 2);
  const auto half = [&](double of_wilson) {
    if (!(of_seeds > 0)) return of_wilson;
    const double of_examples = of_wilson / z * of_wilson / z, variance = of_seeds + of_examples;
    const boost::math::students_t both(variance * variance / (of_seeds * of_seeds) * (n - 1));
    return boost::math::quantile(both, 0.5 + kConfidence / 2) * std::sqrt(variance);
  };
  return {std::max(0.0, std::min(student.low, centre - half(centre - wilson.low))),
          std::min(1.0, std::max(student.high, centre + half(wilson.high - centre)))};
}

double settled(double mean) { return std::round(mean * 1e12) / 1e12; }

Estimate mean_of_independent(std::span<const Estimate> estimates) {
  if (estimates.empty()) throw std::runtime_error("a mean needs at least one estimate");
  double sum = 0, below = 0, above = 0;
  for (const Estimate& one : estimates) {
    sum += one.value;
    below += (one.value - one.ci95.low) * (one.value - one.ci95.low);
    above += (one.ci95.high - one.value) * (one.ci95.high - one.value);
  }
  const auto n = static_cast<double>(estimates.size());
  return {.value = settled(sum / n),
          .ci95 = {(sum - std::sqrt(below)) / n, (sum + std::sqrt(above)) / n}};
}

double quantile(std::span<const double> samples, double q) {
  need(samples, 1, "a quantile");
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted_quantile(sorted, q);
}

MedianEstimate median_estimate(std::span<const double> samples) {
  need(samples, 1, "a median");
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  const size_t n = sorted.size();
  const boost::math::binomial below(static_cast<double>(n), 0.5);
  // Walks down from the middle, as l is near n/2 - sqrt(n) and the test is monotone.
  size_t l = (n + 1) / 2;
  while (l >= 1 && boost::math::cdf(below, static_cast<double>(l - 1)) > (1 - kConfidence) / 2) --l;
  l = std::max<size_t>(l, 1);
  return {.median = sorted_quantile(sorted, 0.5),
          .min = sorted.front(),
          .iqr = sorted_quantile(sorted, 0.75) - sorted_quantile(sorted, 0.25),
          .interval = {sorted[l - 1], sorted[n - l]}};
}

}  // namespace lra::stats
