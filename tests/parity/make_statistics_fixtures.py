"""Writes tests/fixtures/statistics.json: tests and intervals as scipy and statsmodels compute them.

Usage: make_statistics_fixtures.py OUT.json        (needs scipy==1.17.1 statsmodels==0.15.0)

The bootstrap of one run a side has no random part here: the difference of two accuracies over n examples drawn anew is a sum of n
draws from {-1, 0, 1}, whose distribution is computed by convolution. That of several runs a side is drawn, 200,000 times.
Welch's test with the sampling of the examples is that of scipy's distributions, the variance of the examples by numpy's; of
positions of samples it is that of statsmodels' least squares with clusters.
"""
import json
import sys

import numpy
import scipy
import statsmodels
import statsmodels.api as sm
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests


def exact_bootstrap(only_a, only_b, count):
    """The 2.5 % and 97.5 % points of (a - b) / count."""
    step = numpy.array([only_b, count - only_a - only_b, only_a], dtype=float) / count
    distribution, power, left = numpy.ones(1), step, count
    while left:
        if left & 1:
            distribution = numpy.convolve(distribution, power)
        power, left = numpy.convolve(power, power), left >> 1
    cumulative = numpy.cumsum(distribution)
    return [float(numpy.searchsorted(cumulative, q) - count) / count for q in (0.025, 0.975)]


def drawn_bootstrap(a, b, generator, resamples=200_000):
    """a [runs,count], b [runs,count] of 0 and 1: draws examples for all runs alike."""
    difference = a.mean(0) - b.mean(0)
    drawn = [difference[generator.integers(a.shape[1], size=a.shape[1])].mean() for _ in range(resamples)]
    return [float(x) for x in numpy.quantile(drawn, (0.025, 0.975))]


def sampled_welch(a, b, variance, freedom):
    """Of two samples and a further variance of their difference, or without that where it says less: p and the 95 % interval."""
    parts = [(stats.sem(a) ** 2, len(a) - 1), (stats.sem(b) ** 2, len(b) - 1), (variance, freedom)]
    error = sum(part for part, _ in parts) ** 0.5
    student = stats.t(error**4 / sum(part**2 / of for part, of in parts))
    difference, half = numpy.mean(a) - numpy.mean(b), student.ppf(0.975) * error
    alone = stats.ttest_ind(a, b, equal_var=False)
    interval = alone.confidence_interval(0.95)
    p = max(alone.pvalue, 2 * student.sf(abs(difference) / error))
    return float(p), float(min(interval.low, difference - half)), float(max(interval.high, difference + half))


def seeds_interval(accuracies, count):
    """Of the mean of seeds that share a test set: its variance and Wilson's of the examples, or Student's where that is wider."""
    centre, of_seeds, freedom = numpy.mean(accuracies), stats.sem(accuracies) ** 2, len(accuracies) - 1
    wilson = stats.binomtest(round(centre * count), count).proportion_ci(0.95, method="wilson")
    half = stats.t(freedom).ppf(0.975) * of_seeds**0.5
    ends = []
    for sign, end in ((-1, wilson.low), (1, wilson.high)):
        variance = of_seeds + (abs(end - centre) / stats.norm.ppf(0.975)) ** 2
        student = stats.t(variance**2 / (of_seeds**2 / freedom))
        ends.append(float(min(1, max(0, centre + sign * max(half, student.ppf(0.975) * variance**0.5)))))
    return ends


generator = numpy.random.default_rng(7)
fixture = {"scipy": scipy.__version__, "statsmodels": statsmodels.__version__}

fixture["mcnemar"] = []
for only_a, only_b in ((0, 0), (1, 0), (5, 5), (3, 12), (121, 95), (300, 200), (4000, 4321)):
    p = mcnemar([[7, only_a], [only_b, 9]], exact=True).pvalue
    fixture["mcnemar"].append({"only_a": only_a, "only_b": only_b, "p": min(1.0, float(p))})

fixture["fisher"] = []
for a, a_of, b, b_of in ((3, 5, 5, 5), (0, 5, 5, 5), (1, 10, 9, 10), (5, 5, 5, 5), (0, 3, 0, 4), (2, 7, 30, 41), (17, 40, 12, 90)):
    p = stats.fisher_exact([[a, a_of - a], [b, b_of - b]]).pvalue
    fixture["fisher"].append({"a": a, "a_of": a_of, "b": b, "b_of": b_of, "p": float(p)})

def rank_sum_p(a, b):
    """scipy's exact Mann-Whitney test has no ties: with ties every division of the pooled values is looked at."""
    if len(set(a + b)) == len(a + b):
        return stats.mannwhitneyu(a, b, method="exact").pvalue
    distance = lambda x, y, axis: numpy.abs(x.sum(axis=axis) - expected)
    expected = len(a) * (len(a) + len(b) + 1) / 2
    ranks = stats.rankdata(a + b)
    return stats.permutation_test((ranks[: len(a)], ranks[len(a) :]), distance, alternative="greater", n_resamples=numpy.inf).pvalue


fixture["rank_sum"] = []
for a, b in (([38.9, 38.7, 39.6, 39.55, 38.1], [20.8, 19.05, 20.05, 20.95, 19.8]), ([1, 5, 7, 8, 12], [2, 3, 4, 6, 9, 11]),
             ([30.0, 30.1, 30.2, 30.3, 30.4], [30.0, 30.1, 30.2, 10.0, 10.0]), ([1, 1, 1], [1, 1, 1]), ([3], [1, 2, 4])):
    above = float(stats.mannwhitneyu(a, b).statistic) / (len(a) * len(b))
    fixture["rank_sum"].append({"a": a, "b": b, "p": float(rank_sum_p(a, b)), "above": above})

fixture["welch"] = []
for a, b in (([37.1, 36.2, 38.9], [35.0, 35.9, 35.2]), ([50.1, 72.4], [70.0, 73.0, 71.5, 69.8]), ([1, 2, 3], [1, 2, 3])):
    test = stats.ttest_ind(a, b, equal_var=False)
    interval = test.confidence_interval(0.95)
    fixture["welch"].append({"a": a, "b": b, "p": float(test.pvalue), "low": float(interval.low), "high": float(interval.high)})

fixture["sampled_welch"] = []
for a, b, variance, freedom in (([37.1, 36.2, 38.9], [35.0, 35.9, 35.2], 0.9, 1999), ([37.0, 39.0], [35.0, 35.02], 0.02, 1999), ([50.1, 50.2], [70.0, 69.9, 70.1, 70.0], 25.0, 99)):
    p, low, high = sampled_welch(a, b, variance, freedom)
    fixture["sampled_welch"].append({"a": a, "b": b, "variance": variance, "freedom": freedom, "p": p, "low": low, "high": high})

fixture["seeds"] = []
for accuracies, count in (([0.371, 0.362, 0.389], 2000), ([0.36, 0.37, 0.38, 0.375, 0.365], 2000), ([0.9, 0.94], 50), ([0.5] * 9 + [0.6], 100)):
    low, high = seeds_interval(accuracies, count)
    fixture["seeds"].append({"accuracies": accuracies, "count": count, "low": low, "high": high})

fixture["holm"] = []
for p in ([0.01, 0.04, 0.03, 0.005], [0.5], [0.9, 0.2, 0.2, 0.001, 0.04], [0.6, 0.7]):
    fixture["holm"].append({"p": p, "adjusted": [float(x) for x in multipletests(p, method="holm")[1]]})

fixture["exact_bootstrap"] = []
for only_a, only_b, count in ((121, 95, 2000), (10, 0, 200), (0, 0, 50), (700, 400, 10000)):
    low, high = exact_bootstrap(only_a, only_b, count)
    fixture["exact_bootstrap"].append({"only_a": only_a, "only_b": only_b, "count": count, "low": low, "high": high})

count = 300
easy = generator.random(count)
fixture["drawn_bootstrap"] = []
for accuracies_a, accuracies_b in (([0.4, 0.45, 0.42], [0.38, 0.36, 0.41]), ([0.5], [0.5, 0.6])):
    a = numpy.array([(easy < x) ^ (generator.random(count) < 0.1) for x in accuracies_a]).astype(int)
    b = numpy.array([(easy < x) ^ (generator.random(count) < 0.1) for x in accuracies_b]).astype(int)
    low, high = drawn_bootstrap(a, b, generator)
    lines = lambda runs: ["".join(map(str, run)) for run in runs]
    difference = a.mean(0) - b.mean(0)
    samples = numpy.sort(generator.integers(60, size=count))
    ones = numpy.ones(count)
    clustered = sm.OLS(difference, ones).fit(cov_type="cluster", cov_kwds={"groups": samples, "use_correction": False})
    clusters = len(set(samples))
    fixture["drawn_bootstrap"].append(
        {"a": lines(a), "b": lines(b), "low": low, "high": high, "variance": float(difference.var(ddof=1) / count),
         "samples": samples.tolist(), "clusters": clusters,
         "clustered_variance": float(clustered.cov_params()[0, 0] * clusters / (clusters - 1))}
    )

with open(sys.argv[1], "w") as file:
    json.dump(fixture, file, indent=1)
    file.write("\n")
