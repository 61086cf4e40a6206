#include "results/statistics/bootstrap.h"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>
#include <stdexcept>

#include "results/statistics/statistics.h"

namespace lra::stats {
namespace {

constexpr int kResamples = 1000;
constexpr uint64_t kBootstrapSeed = 0x10a5eed;

using BootstrapRandom = std::mt19937_64;

// Sorts in part: the samples' order is lost.
double median_of(std::vector<double>& samples) {
  const size_t half = samples.size() / 2;
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(half);
  std::nth_element(samples.begin(), middle, samples.end());
  if (samples.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(samples.begin(), middle)) / 2;
}

size_t below(size_t count, BootstrapRandom& random) {
  return static_cast<size_t>(random() % count);  // a bias of count / 2^64
}

// What resamples are drawn from. They are drawn as counts of ranks, whose median is found without
// sorting.
class Samples {
 public:
  explicit Samples(std::span<const double> samples)
      : ranks_(samples.size()), counts_(samples.size()) {
    std::vector<size_t> order(samples.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, {}, [&](size_t i) { return samples[i]; });
    for (const size_t i : order) {
      ranks_[i] = sorted_.size();
      sorted_.push_back(samples[i]);
    }
  }

  double median() const {
    const size_t half = sorted_.size() / 2;
    return sorted_.size() % 2 == 1 ? sorted_[half] : (sorted_[half] + sorted_[half - 1]) / 2;
  }

  double resampled_median(BootstrapRandom& random) {
    std::ranges::fill(counts_, 0);
    for (size_t i = 0; i < ranks_.size(); ++i) ++counts_[ranks_[below(ranks_.size(), random)]];
    const size_t half = sorted_.size() / 2;
    size_t rank = 0, drawn = counts_[0];
    const auto value_at = [&](size_t place) {
      while (drawn <= place) drawn += counts_[++rank];
      return sorted_[rank];
    };
    if (sorted_.size() % 2 == 1) return value_at(half);
    const double lower = value_at(half - 1);
    return (value_at(half) + lower) / 2;
  }

 private:
  std::vector<double> sorted_;
  std::vector<size_t> ranks_;  // of the samples in the order that they came in
  std::vector<uint32_t> counts_;
};

std::vector<Samples> samples_of(const std::vector<std::vector<double>>& passes) {
  if (passes.empty()) throw std::runtime_error("a median over passes needs at least one pass");
  std::vector<Samples> all;
  for (const std::vector<double>& pass : passes) {
    if (pass.empty()) throw std::runtime_error("a median over passes needs samples in each");
    all.emplace_back(pass);
  }
  return all;
}

double plain_over_passes(const std::vector<Samples>& passes) {
  std::vector<double> medians;
  for (const Samples& pass : passes) medians.push_back(pass.median());
  return median_of(medians);
}

double resampled_over_passes(std::vector<Samples>& passes, BootstrapRandom& random) {
  std::vector<double> medians;
  for (size_t i = 0; i < passes.size(); ++i)
    medians.push_back(passes[below(passes.size(), random)].resampled_median(random));
  return median_of(medians);
}

// The percentile interval; it holds the value itself.
Estimate bootstrapped(double value, const std::function<double(BootstrapRandom&)>& draw) {
  BootstrapRandom random(kBootstrapSeed);
  std::vector<double> drawn(kResamples);
  for (double& one : drawn) one = draw(random);
  return {
      .value = value,
      .ci95 = {std::min(value, quantile(drawn, 0.025)), std::max(value, quantile(drawn, 0.975))}};
}

}  // namespace

Estimate bootstrap_median(std::span<const double> samples) {
  if (samples.empty()) throw std::runtime_error("a median needs at least one sample");
  Samples all(samples);
  return bootstrapped(all.median(),
                      [&](BootstrapRandom& random) { return all.resampled_median(random); });
}

Estimate median_over_passes(const std::vector<std::vector<double>>& passes) {
  auto all = samples_of(passes);
  return bootstrapped(plain_over_passes(all),
                      [&](BootstrapRandom& random) { return resampled_over_passes(all, random); });
}

Estimate ratio_over_passes(const std::vector<std::vector<double>>& a,
                           const std::vector<std::vector<double>>& b) {
  auto dividend = samples_of(a), divisor = samples_of(b);
  return bootstrapped(plain_over_passes(dividend) / plain_over_passes(divisor),
                      [&](BootstrapRandom& random) {
                        const double drawn = resampled_over_passes(dividend, random);
                        return drawn / resampled_over_passes(divisor, random);
                      });
}

std::optional<Growth> growth(std::span<const double> lengths, std::span<const double> values) {
  std::vector<double> x, y;
  for (size_t i = 0; i < std::min(lengths.size(), values.size()); ++i) {
    if (!(lengths[i] > 0) || !(values[i] > 0) || !std::isfinite(lengths[i]) ||
        !std::isfinite(values[i]))
      continue;
    x.push_back(std::log(lengths[i]));
    y.push_back(std::log(values[i]));
  }
  if (x.empty()) return std::nullopt;
  const double mx = mean(x), my = mean(y);
  double xx = 0, xy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xx += (x[i] - mx) * (x[i] - mx);
    xy += (x[i] - mx) * (y[i] - my);
  }
  if (xx < 1e-12) return std::nullopt;
  Growth result{.exponent = xy / xx, .ci95 = std::nullopt};
  if (x.size() < 3) return result;
  const double degrees = static_cast<double>(x.size()) - 2;
  double residual = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double off = y[i] - my - result.exponent * (x[i] - mx);
    residual += off * off;
  }
  const double t = boost::math::quantile(boost::math::students_t(degrees), 0.975);
  const double half = t * std::sqrt(residual / degrees / xx);
  result.ci95 = Interval{result.exponent - half, result.exponent + half};
  return result;
}

Crossing crossing(std::span<const double> lengths, std::span<const double> costs,
                  std::span<const double> baseline) {
  // The last length at which it is not below.
  size_t after = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (!(costs[i] < baseline[i])) after = i + 1;
  }
  if (lengths.empty() || after == lengths.size()) return {.kind = Crossing::Kind::never};
  if (after == 0) return {.kind = Crossing::Kind::always};
  const auto gap = [&](size_t i) { return std::log(costs[i] / baseline[i]); };
  const double from = gap(after - 1), to = gap(after);
  const double part = from - to > 0 ? from / (from - to) : 1;
  const double low = std::log(lengths[after - 1]), high = std::log(lengths[after]);
  return {.kind = Crossing::Kind::from, .length = std::exp(low + part * (high - low))};
}

}  // namespace lra::stats
