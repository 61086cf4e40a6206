// The generator against images of the reference generator, of every size: two-sample tests on what
// an image looks like and on how it came about.
//
// Tests are Kolmogorov-Smirnov's on numbers, Pearson's on categories, and, where there are 3,000
// reference images, Welch's on the means of every row, column and grey value; against the published
// summaries (other images and difficulties too) on their means. Each is two-sided at 1e-3 divided
// by the number of tests (Bonferroni), so that a correct generator under a random seed fails once
// in a thousand; the seed here is fixed. Wrong generators must fail the same tests.
#include <gtest/gtest.h>

#include <boost/math/distributions/chi_squared.hpp>
#include <boost/math/distributions/normal.hpp>
#include <cmath>
#include <cstring>
#include <map>

#include "attention_variants/base/files.h"
#include "lra/formats/archive.h"
#include "lra/formats/npy.h"
#include "lra/tasks/pathfinder/pathfinder.h"

namespace lra::pathfinder {
namespace {

const std::string kFolder = LRA_SOURCE_DIR "/tests/reference/";

using Values = std::map<std::string, std::vector<double>>;  // name -> a number an image

double distance(Point a, Point b) { return std::hypot(a.y - b.y, a.x - b.x); }

// Where what was drawn stands.
void describe_places(const Image& image, Values& values) {
  const auto add = [&](const char* name, double value) { values[name].push_back(value); };
  const auto& [o1, o2] = image.origins;
  const auto& [t1, t2] = image.terminals;
  add("first origin", o1.y * 1000 + o1.x);
  add("second origin y", o2.y);
  add("second origin x", o2.x);
  add("second origin from the first y", o2.y - o1.y);
  add("second origin from the first x", o2.x - o1.x);
  add("between the origins", distance(o1, o2));
  add("terminal y", t1.y);
  add("terminal x", t1.x);
  add("second terminal y", t2.y);
  add("second terminal x", t2.x);
  add("to the first's terminal", distance(o1, t1));
  add("to the own terminal", (distance(o1, t1) + distance(o2, t2)) / 2);
  add("to the other terminal", (distance(o1, t2) + distance(o2, t1)) / 2);
}

// What can be said of one image; `side` pixels.
void describe(const Image& image, int side, Values& values) {
  const auto add = [&](const std::string& name, double value) { values[name].push_back(value); };
  const auto n = static_cast<size_t>(side);
  std::vector<double> rows(n), columns(n), counts(256);
  double sum = 0, squares = 0, right = 0, down = 0, right2 = 0, down2 = 0;
  for (size_t y = 0; y < n; ++y) {
    for (size_t x = 0; x < n; ++x) {
      const double value = image.pixels[y * n + x];
      ++counts[image.pixels[y * n + x]];
      rows[y] += value;
      columns[x] += value;
      sum += value;
      squares += value * value;
      if (x + 1 < n) right += value * image.pixels[y * n + x + 1];
      if (y + 1 < n) down += value * image.pixels[(y + 1) * n + x];
      if (x + 2 < n) right2 += value * image.pixels[y * n + x + 2];
      if (y + 2 < n) down2 += value * image.pixels[(y + 2) * n + x];
    }
  }
  for (size_t i = 0; i < n; ++i) {
    add("row " + std::to_string(i), rows[i]);
    add("column " + std::to_string(i), columns[i]);
  }
  for (size_t v = 0; v < 256; ++v) add("grey " + std::to_string(v), counts[v]);
  constexpr size_t kBins[] = {0, 1, 11, 64, 128, 192, 255, 256};
  for (size_t b = 0; b + 1 < std::size(kBins); ++b) {
    double pixels = 0;
    for (size_t v = kBins[b]; v < kBins[b + 1]; ++v) pixels += counts[v];
    add("pixels from " + std::to_string(kBins[b]), pixels);
  }
  for (const size_t above : {0, 10, 32, 64, 127, 200}) {
    double pixels = 0;
    for (size_t v = above + 1; v < 256; ++v) pixels += counts[v];
    add("pixels above " + std::to_string(above), pixels);
  }
  add("mean", sum / static_cast<double>(n * n));
  add("neighbours to the right", right / squares);
  add("neighbours below", down / squares);
  add("second neighbours to the right", right2 / squares);
  add("second neighbours below", down2 / squares);
  add("label", image.label);
  add("margin", image.margin);
  add("distractors", image.distractors);
  add("attempts", static_cast<double>(image.attempts));
  add("brightest", std::round(image.brightest * 1e6) / 1e6);
  describe_places(image, values);
}

Values draw(const Config& config, int64_t count) {
  Values values;
  generate({.config = config, .seed = 1, .count = count, .threads = 1},
           [&](const Image& image) { describe(image, config.side, values); });
  return values;
}

template <class T>
std::vector<T> read(const std::map<std::string, std::string>& files, const std::string& name) {
  const NpyArray array = read_npy(files.at(name + ".npy"), name);
  std::vector<T> items(static_cast<size_t>(array.items()));
  EXPECT_EQ(array.data.size(), items.size() * sizeof(T)) << name;
  std::memcpy(items.data(), array.data.data(), array.data.size());
  return items;
}

Values reference(int side) {
  std::map<std::string, std::string> files;
  Source(kFolder + "pathfinder" + std::to_string(side) + "_ref.npz").visit([&](SourceFile& file) {
    files[file.name()] = file.read_all(64 << 20);
  });
  const auto pixels = read<uint8_t>(files, "images");
  const auto labels = read<int64_t>(files, "labels"), margins = read<int64_t>(files, "margin");
  const auto origins = read<int64_t>(files, "origin"), terminals = read<int64_t>(files, "terminal");
  const auto distractors = read<int64_t>(files, "n_distractors");
  const auto attempts = read<int64_t>(files, "attempts");
  const auto brightest = read<double>(files, "raw_max");
  Values values;
  const auto area = static_cast<std::ptrdiff_t>(side * side);
  for (size_t i = 0; i < labels.size(); ++i) {
    const auto point = [&](const std::vector<int64_t>& points, size_t curve) {
      return Point{static_cast<int>(points[4 * i + 2 * curve]),
                   static_cast<int>(points[4 * i + 2 * curve + 1])};
    };
    const auto first = pixels.begin() + static_cast<std::ptrdiff_t>(i) * area;
    describe({.pixels = {first, first + area},
              .label = static_cast<int>(labels[i]),
              .origins = {point(origins, 0), point(origins, 1)},
              .terminals = {point(terminals, 0), point(terminals, 1)},
              .margin = static_cast<int>(margins[i]),
              .distractors = static_cast<int>(distractors[i]),
              .attempts = attempts[i],
              .brightest = brightest[i]},
             side, values);
  }
  return values;
}

// ---- Tests: p-values ----------------------------------------------------------------------------

// Kolmogorov and Smirnov's of two samples, by the asymptotic distribution (Stephens' correction);
// with ties it errs on the side of agreement.
double kolmogorov_smirnov(std::vector<double> a, std::vector<double> b) {
  std::ranges::sort(a);
  std::ranges::sort(b);
  const auto n = static_cast<double>(a.size()), m = static_cast<double>(b.size());
  double greatest = 0;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const double at = std::min(a[i], b[j]);
    while (i < a.size() && a[i] == at) ++i;
    while (j < b.size() && b[j] == at) ++j;
    greatest =
        std::max(greatest, std::abs(static_cast<double>(i) / n - static_cast<double>(j) / m));
  }
  const double root = std::sqrt(n * m / (n + m));
  const double scaled = (root + 0.12 + 0.11 / root) * greatest;
  if (scaled < 0.3) return 1;
  double p = 0;
  for (int k = 1; k <= 100; ++k)
    p += (k % 2 == 1 ? 2 : -2) * std::exp(-2 * k * k * scaled * scaled);
  return std::clamp(p, 0.0, 1.0);
}

// Pearson's test that two lists of counts come from one distribution; outcomes of fewer than 10 in
// all are pooled.
double homogeneity(const std::map<double, std::pair<double, double>>& outcomes) {
  std::vector<std::pair<double, double>> cells;
  std::pair<double, double> rare{0, 0}, total{0, 0};
  for (const auto& [outcome, counts] : outcomes) {
    const auto& [x, y] = counts;
    total = {total.first + x, total.second + y};
    if (x + y >= 10) {
      cells.push_back(counts);
    } else {
      rare = {rare.first + x, rare.second + y};
    }
  }
  if (rare.first + rare.second > 0) cells.push_back(rare);
  if (cells.size() < 2) return 1;
  double chi2 = 0;
  for (const auto& [x, y] : cells) {
    const double share = (x + y) / (total.first + total.second);
    chi2 += std::pow(x - share * total.first, 2) / (share * total.first) +
            std::pow(y - share * total.second, 2) / (share * total.second);
  }
  return cdf(complement(boost::math::chi_squared(static_cast<double>(cells.size() - 1)), chi2));
}

double categories(const std::vector<double>& a, const std::vector<double>& b) {
  std::map<double, std::pair<double, double>> outcomes;
  for (const double value : a) ++outcomes[value].first;
  for (const double value : b) ++outcomes[value].second;
  return homogeneity(outcomes);
}

struct Moments {
  double mean = 0, variance = 0, count = 0;
};

Moments moments(const std::vector<double>& values) {
  Moments m{.count = static_cast<double>(values.size())};
  for (const double v : values) m.mean += v / m.count;
  for (const double v : values) m.variance += std::pow(v - m.mean, 2) / m.count;
  return m;
}

double means(const Moments& a, const Moments& b) {
  const double error = std::sqrt(a.variance / a.count + b.variance / b.count);
  if (error == 0) return a.mean == b.mean ? 1 : 0;
  return 2 * cdf(complement(boost::math::normal(), std::abs(a.mean - b.mean) / error));
}

using Results = std::map<std::string, double>;  // test -> p

bool is_category(const std::string& name) {
  return name == "label" || name == "margin" || name == "distractors" || name == "brightest" ||
         name == "first origin";
}

// `many`: there are enough images for the means of single rows, columns and grey values.
Results compare(const Values& ours, const Values& theirs, bool many) {
  Results p;
  for (const auto& [name, values] : theirs) {
    const std::vector<double>& own = ours.at(name);
    const bool grey = name.starts_with("grey ");
    if (grey || name.starts_with("row ") || name.starts_with("column ")) {
      // A grey value in few images has no normal mean.
      const auto present = std::ranges::count_if(values, [](double v) { return v > 0; });
      if (many && (!grey || present >= 50)) p[name] = means(moments(own), moments(values));
    } else if (is_category(name)) {
      // Positions of the first origin are too many to count but at 32 x 32.
      if (name != "first origin" || many) p[name] = categories(own, values);
    } else {
      p[name] = kolmogorov_smirnov(own, values);
    }
  }
  return p;
}

// Against the means and deviations of a summary. Its distances are of single curves, ours the mean
// of both, whose deviation is smaller: that errs on the side of agreement.
Results compare_summary(const Values& ours, const json& summary) {
  const std::vector<std::pair<const char*, const char*>> kNames = {
      {"mean", "image_mean_intensity"},
      {"pixels above 0", "lit_pixels_gt_0"},
      {"pixels above 10", "lit_pixels_gt_10"},
      {"pixels above 32", "lit_pixels_gt_32"},
      {"pixels above 64", "lit_pixels_gt_64"},
      {"pixels above 127", "lit_pixels_gt_127"},
      {"pixels above 200", "lit_pixels_gt_200"},
      {"brightest", "raw_max_before_bytescale"},
      {"distractors", "n_distractors_placed"},
      {"attempts", "two_snake_attempts_per_image"},
      {"second origin y", "second_seed_tail_y"},
      {"second origin x", "second_seed_tail_x"},
      {"between the origins", "seed_distance"},
      {"to the own terminal", "origin_to_own_terminal_distance"},
      {"to the other terminal", "origin_to_other_terminal_distance"}};
  Results p;
  for (const auto& [name, key] : kNames) {
    const json& their = summary.at(key);
    p[name] = means(moments(ours.at(name)),
                    {their["mean"], std::pow(their["std"].get<double>(), 2), summary["n"]});
  }
  std::map<double, std::pair<double, double>> distractors;
  for (const double count : ours.at("distractors")) ++distractors[count].first;
  for (const auto& [count, images] : summary["n_distractors_placed"]["counts"].items())
    distractors[std::stod(count)].second += images.get<double>();
  p["numbers of distractors"] = homogeneity(distractors);
  return p;
}

// The tests that tell ours from the reference.
std::string rejected(const Results& results) {
  const double level = 1e-3 / static_cast<double>(results.size());
  std::string names;
  for (const auto& [name, p] : results) {
    if (p < level) names += name + " (p " + std::to_string(p) + "), ";
  }
  return names;
}

class PathfinderStatistics : public ::testing::Test {
 protected:
  static std::string rejected_by_images(const Config& config, int64_t count) {
    static std::map<int, Values> references;
    if (!references.contains(config.side)) references[config.side] = reference(config.side);
    return rejected(compare(draw(config, count), references[config.side], config.side == 32));
  }
  // What a generator of other rules fails, at 32 x 32.
  static std::string rejected_with(const Rules& rules) {
    Config wrong = config(32, "hard");
    wrong.rules = rules;
    return rejected_by_images(wrong, 1000);
  }
};

TEST_F(PathfinderStatistics, AgreeWithTheReferenceAt32Pixels) {
  EXPECT_EQ(rejected_by_images(config(32, "hard"), 6000), "");
}

TEST_F(PathfinderStatistics, AgreeWithTheReferenceAt64Pixels) {
  EXPECT_EQ(rejected_by_images(config(64, "hard"), 400), "");
}

TEST_F(PathfinderStatistics, AgreeWithTheReferenceAt128Pixels) {
  EXPECT_EQ(rejected_by_images(config(128, "hard"), 300), "");
}

TEST_F(PathfinderStatistics, AgreeWithTheReferenceAt256Pixels) {
  EXPECT_EQ(rejected_by_images(config(256, "hard"), 200), "");
}

TEST_F(PathfinderStatistics, AgreeWithTheSummariesOfEveryDifficulty) {
  const json summaries = read_json(kFolder + "pathfinder_stats.json");
  const auto check = [&](const std::string& key, const std::string& difficulty) {
    const Values ours = draw(config(32, difficulty), 5000);
    EXPECT_EQ(rejected(compare_summary(ours, summaries.at(key))), "") << key;
  };
  check("pathfinder32_cl14", "hard");
  check("pathfinder32_cl9", "intermediate");
  check("pathfinder32_cl6", "easy");
}

// What follows shows that the tests above could have failed.
TEST_F(PathfinderStatistics, SeeStepsRoundedToTheNearest) {
  EXPECT_NE(rejected_with({.ceil_steps = false}).find("attempts"), std::string::npos);
}

TEST_F(PathfinderStatistics, SeeImagesWithoutRinging) {
  EXPECT_NE(rejected_with({.ringing = false}).find("pixels from 1 "), std::string::npos);
}

TEST_F(PathfinderStatistics, SeePaddlesThatMayOverlap) {
  EXPECT_NE(rejected_with({.refuse_overlap = false}), "");
}

TEST_F(PathfinderStatistics, SeeMasksThatDoNotLag) {
  EXPECT_NE(rejected_with({.mask_lags = false}), "");
}

TEST_F(PathfinderStatistics, SeeAnotherContinuity) {
  Config wrong = config(32, "hard");
  wrong.continuity = 1.1;
  EXPECT_NE(rejected_by_images(wrong, 1000), "");
}

TEST_F(PathfinderStatistics, SeeOneDistractorFewer) {
  Config wrong = config(32, "hard");
  wrong.distractors = 4;
  EXPECT_NE(rejected_by_images(wrong, 1000).find("distractors"), std::string::npos);
}

}  // namespace
}  // namespace lra::pathfinder
