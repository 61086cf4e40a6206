// Pathfinder: what is not random held to the reference generator's outputs and to Pillow, what is
// random to its rules, and preparation.
#include "lra/tasks/pathfinder/pathfinder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>
#include <span>

#include "attention_variants/base/files.h"
#include "lra/data/task.h"
#include "lra/tasks/pathfinder/paddles.h"
#include "tests/support/scratch.h"

namespace lra::pathfinder {
namespace {

namespace fs = std::filesystem;

const char* const kVectors = LRA_SOURCE_DIR "/tests/reference/pathfinder_vectors.json";

std::vector<int> flat(const json& rows) {
  std::vector<int> values;
  for (const json& row : rows) {
    for (const json& value : row) values.push_back(value);
  }
  return values;
}

std::vector<int> ints(const Patch& patch) { return {patch.pixels.begin(), patch.pixels.end()}; }

Point point(const json& pair) { return {pair[0], pair[1]}; }

Mask padded(const Config& config) {
  Mask mask(config.side);
  mask.frame(config.padding);
  return mask;
}

// "128_m2"
Paddles paddles_of(const std::string& key) {
  return {config(std::stoi(key), "hard"), std::stoi(key.substr(key.find('m') + 1))};
}

class PathfinderVectors : public ::testing::Test {
 protected:
  const json vectors_ = read_json(kVectors);
};

TEST_F(PathfinderVectors, Steps) {
  for (const json& v : vectors_["translate"]) {
    const Step step(v["deg"].get<int>() * std::numbers::pi / 180, v["dist"].get<double>());
    EXPECT_EQ(step.up({v["y"], v["x"]}), point(v["out"])) << v;
  }
}

TEST_F(PathfinderVectors, Paddles) {
  for (const auto& [key, of] : vectors_["sprites_u8"].items()) {
    const pathfinder::Paddles paddles = paddles_of(key);
    for (const json& v : of["sprites"]) {
      const Sprite& sprite = paddles.seed(v["deg"].get<int>() + 180).sprite;
      EXPECT_EQ(sprite.half, of["half"].get<int>()) << key;
      EXPECT_EQ(ints(sprite.line), flat(v["line"])) << key << " at " << v["deg"];
      EXPECT_EQ(ints(sprite.mask), flat(v["mask"])) << key << " at " << v["deg"];
    }
  }
}

TEST_F(PathfinderVectors, PixelsThatAFirstPaddleNeeds) {
  const pathfinder::Paddles paddles = paddles_of("32_m1");
  for (const auto& [degree, square] : vectors_["pf32_seed_struct_binary"].items()) {
    std::vector<int> ours(49);
    for (const Point p : paddles.seed(std::stoi(degree) + 180).needed)
      ours[static_cast<size_t>((p.y + 3) * 7 + p.x + 3)] = 1;
    EXPECT_EQ(ours, flat(square)) << degree;
  }
}

TEST_F(PathfinderVectors, StartsOfTheFirstTarget) {
  const Config settings = config(32, "hard");
  const pathfinder::Paddles paddles = paddles_of("32_m1");
  Mask framed = padded(settings);
  framed.frame(2 * settings.seed_distance);
  int without = 0;
  for (const auto& [degree, pairs] : vectors_["pf32_first_seed_available_coords"].items()) {
    std::vector<Point> expected, rectangle;
    for (const json& pair : pairs) expected.push_back(point(pair));
    const Seed& seed = paddles.seed(std::stoi(degree) + 180);
    EXPECT_EQ(paddles.starts(seed, framed), expected) << degree;
    for (int y = seed.first.y; !seed.barred && y <= seed.last.y; ++y) {
      for (int x = seed.first.x; x <= seed.last.x; ++x) rectangle.push_back({y, x});
    }
    EXPECT_EQ(rectangle, expected) << degree;
    without += expected.empty();
  }
  EXPECT_EQ(without / 360.0, vectors_["pf32_first_seed_fail_fraction_over_degrees"].get<double>());
}

void expect_extensions(const json& vectors, int size, int margin) {
  const Config settings = config(size, "hard");
  const pathfinder::Paddles paddles(settings, margin);
  for (const json& v : vectors) {
    const Point pivot = point(v["pivot"]);
    const std::vector<uint64_t> weights = paddles.weights(v["last_orientation"]);
    std::vector<uint64_t> sums;
    const bool possible = paddles.chances(pivot, weights, padded(settings), sums);
    EXPECT_EQ(possible, !v.value("dead_end", false)) << v["pivot"];
    if (!possible) continue;
    ASSERT_EQ(paddles.ring().size(), v["coords"].size());
    for (size_t i = 0; i < sums.size(); ++i) {
      const Point offset = paddles.ring()[i].offset;
      EXPECT_EQ((Point{pivot.y + offset.y, pivot.x + offset.x}), point(v["coords"][i]));
      EXPECT_NEAR(paddles.direction(paddles.direction_to(i)).angle,
                  v["orientations"][i].get<double>(), 1e-15);
      const uint64_t own = sums[i] - (i > 0 ? sums[i - 1] : 0);
      // The reference's masks are of 32 bits, our weights whole numbers below 2^36.
      EXPECT_NEAR(static_cast<double>(own) / static_cast<double>(sums.back()),
                  v["pmf"][i].get<double>(), 1e-9);
    }
  }
}

TEST_F(PathfinderVectors, ChancesOfTheNextPaddle) {
  expect_extensions(vectors_["extend_pf32"], 32, 1);
  expect_extensions(vectors_["extend_pf128_m2"], 128, 2);
}

TEST_F(PathfinderVectors, Discs) {
  for (const auto& [radius, square] : vectors_["disc"].items()) {
    const int r = std::stoi(radius), side = 2 * r + 1;
    std::vector<int> ours(static_cast<size_t>(side * side));
    for (const Point p : disc(r)) ours[static_cast<size_t>((p.y + r) * side + p.x + r)] = 1;
    EXPECT_EQ(ours, flat(square)) << radius;
  }
}

TEST_F(PathfinderVectors, Markers) {
  // Values of a patch of the image whose first pixel is `corner`.
  const auto around = [](int size, const json& v, Point corner, int side) {
    const Patch marker = pathfinder::Markers(config(size, "hard")).at({v["y"], v["x"]});
    std::vector<int> values;
    for (int y = corner.y - marker.origin.y; y < corner.y - marker.origin.y + side; ++y) {
      for (int x = corner.x - marker.origin.x; x < corner.x - marker.origin.x + side; ++x)
        values.push_back(marker.contains(y, x) ? marker.at(y, x) : 0);
    }
    return values;
  };
  for (const json& v : vectors_["marker_pf32"])
    EXPECT_EQ(around(32, v, {0, 0}, 32), flat(v["img"])) << v["y"];
  for (const json& v : vectors_["marker_other"])
    EXPECT_EQ(around(v["res"], v, point(v["patch_origin"]), 17), flat(v["patch"])) << v["res"];
}

TEST(Pathfinder, EveryPaddleIsWhatPillowDraws) {
  const json hashes = read_json(LRA_SOURCE_DIR "/tests/fixtures/pathfinder_sprites.json");
  for (const auto& [key, expected] : hashes.items()) {  // "128, margin 2"
    const Paddles paddles(config(std::stoi(key), "hard"), std::stoi(key.substr(key.rfind(' '))));
    std::string degrees, ring;
    const auto add = [](std::string& bytes, const Sprite& sprite) {
      for (const Patch* patch : {&sprite.line, &sprite.mask})
        bytes.append(patch->pixels.begin(), patch->pixels.end());
    };
    for (int i = 0; i < Paddles::kDegrees; ++i) add(degrees, paddles.seed(i).sprite);
    for (const RingPixel& pixel : paddles.ring()) add(ring, pixel.sprite);
    EXPECT_EQ(sha256(degrees), expected["degrees"].get<std::string>()) << key;
    EXPECT_EQ(sha256(ring), expected["ring"].get<std::string>()) << key;
  }
}

TEST(Pathfinder, DegreesAtWhichAFirstPaddleIsPossible) {
  const std::vector<std::tuple<int, int, int>> kExpected = {
      {32, 1, 30}, {64, 1, 95}, {128, 2, 354}, {128, 3, 360}, {256, 3, 360}};
  for (const auto& [size, margin, expected] : kExpected) {
    const Paddles paddles(config(size, "hard"), margin);
    int usable = 0;
    for (int i = 0; i < Paddles::kDegrees; ++i) usable += !paddles.seed(i).barred;
    EXPECT_EQ(usable, expected) << size << ", margin " << margin;
  }
}

// sin(pi) is not 0, and near the border that is seen.
TEST(Pathfinder, ResiduesOfRightAnglesCountNearTheBorder) {
  const Step left(std::numbers::pi, 4);
  EXPECT_EQ(left.up({8, 8}), (Point{8, 4}));
  EXPECT_EQ(left.up({7, 8}), (Point{8, 4}));
  EXPECT_EQ(Step(0, 4).up({7, 8}), (Point{7, 12}));
}

// 0.8 and 1 make 1.8, but neither 0.8 nor its 32-bit neighbour is exact.
TEST(Pathfinder, RoomEndsAtOnePointEight) {
  Mask mask(1);
  const auto fits = [&](uint8_t taken, uint8_t value) {
    mask.at(0, 0) = taken;
    return mask.has_room({.room = {{0, 0, value}}}, {0, 0});
  };
  for (int taken = 0; taken < 256; ++taken) {
    for (int value = 0; value < 256; ++value) {
      const double sum =
          double{static_cast<float>(taken / 255.0)} + static_cast<float>(value / 255.0);
      EXPECT_EQ(fits(static_cast<uint8_t>(taken), static_cast<uint8_t>(value)), sum < 1.8);
    }
  }
  EXPECT_FALSE(fits(255, 204));
  EXPECT_TRUE(fits(255, 203));
}

TEST(Pathfinder, SettingsByDifficulty) {
  const auto text = [](int size, const char* difficulty) {
    const Config c = config(size, difficulty);
    return std::to_string(c.target_paddles) + " " + std::to_string(c.distractor_paddles) + " x " +
           std::to_string(c.distractors);
  };
  EXPECT_EQ(text(32, "easy"), "6 2 x 10");
  EXPECT_EQ(text(32, "intermediate"), "9 3 x 6");
  EXPECT_EQ(text(32, "hard"), "14 4 x 5");
  EXPECT_EQ(text(64, "hard"), "14 4 x 5");
  EXPECT_EQ(text(128, "hard"), "14 4 x 8");
  EXPECT_EQ(text(256, "hard"), "14 4 x 7");
}

TEST(Pathfinder, ImagesAreSpreadOverAllGreyValuesAndMarked) {
  for (const int size : {32, 64, 128, 256}) {
    const Config settings = config(size, "hard");
    const Generator generator(settings);
    for (uint64_t i = 0; i < 3; ++i) {
      CounterRandom random(7, i);
      const pathfinder::Image image = generator.draw(random);
      ASSERT_EQ(image.pixels.size(), static_cast<size_t>(size * size));
      const auto [least, greatest] = std::ranges::minmax(image.pixels);
      EXPECT_EQ(least, 0);
      EXPECT_EQ(greatest, 255);
      EXPECT_LE(image.distractors, settings.distractors);
      EXPECT_TRUE(std::ranges::count(settings.margins, image.margin));
      const auto value = [&](Point p) {
        return image.pixels[static_cast<size_t>(p.y * size + p.x)] / 255.0 * image.brightest;
      };
      // One origin and the terminal that its label says are within a disc.
      const auto marked = [&](size_t origin) {
        const size_t terminal = image.label == 1 ? origin : 1 - origin;
        return value(image.origins[origin]) > 0.95 && value(image.terminals[terminal]) > 0.95;
      };
      EXPECT_TRUE(marked(0) || marked(1));
    }
  }
}

TEST(Pathfinder, TextOfAnImage) {
  EXPECT_EQ(render(std::vector<uint16_t>{0, 25, 26, 255}), "  \n.@");
  EXPECT_EQ(render(std::vector<uint16_t>{}), "");
}

// ---- Preparation --------------------------------------------------------------------------------

std::string fingerprint_of(const PrepareOptions& options, const std::string& name = "pathfinder") {
  task(name).prepare(options);
  return Manifest::read(options.out / name / "manifest.json").fingerprint();
}

TEST(Pathfinder, AnyNumberOfThreadsGivesTheSameFiles) {
  Scratch scratch;
  std::set<std::string> fingerprints;
  for (const int64_t threads : {1, 2, 7}) {
    fingerprints.insert(fingerprint_of({.out = scratch.path() / std::to_string(threads),
                                        .seed = 3,
                                        .train = 900,
                                        .dev = 50,
                                        .test = 50,
                                        .threads = threads}));
  }
  EXPECT_EQ(fingerprints.size(), 1u);
  EXPECT_NE(
      *fingerprints.begin(),
      fingerprint_of(
          {.out = scratch.path() / "other seed", .seed = 4, .train = 900, .dev = 50, .test = 50}));
}

// What was measured on these data stays comparable: another machine or version must make the same.
TEST(Pathfinder, TheDataOfASeedNeverChange) {
  Scratch scratch;
  EXPECT_EQ(fingerprint_of({.out = scratch.path(), .seed = 0, .train = 200, .dev = 20, .test = 20}),
            "a6460cd155b32cb00c5ac5c2e99037ea5597f504c5097028889736ba7af02279");
  EXPECT_EQ(
      fingerprint_of({.out = scratch.path(), .seed = 0, .train = 6, .dev = 1, .test = 1}, "pathx"),
      "c17271d5214be2bd8d8f85f9e9f8ba9c4df8af2ed51d566278db8ae5aadf454c");
  EXPECT_EQ(fingerprint_of({.out = scratch.path() / "256",
                            .seed = 0,
                            .train = 6,
                            .dev = 2,
                            .test = 2,
                            .resolution = 256}),
            "94ff785e4ee00808b01dfac3c3abbf05ce70f16fc99207c629a62670062d08c1");
  const PreparedData data = open_data(scratch.path() / "256", "pathfinder", /*check_hashes=*/true);
  const Split& train = data.split("train");
  std::vector<int64_t> pixels(256 * 256);
  for (int64_t i = 0; i < train.size(); ++i) {
    ASSERT_EQ(train.length(i), 65'536);
    ASSERT_EQ(train.copy(i, 0, 65'536, pixels.data()), 65'536);
    const auto row = [&](int64_t y) { return std::span(pixels).subspan(256 * y, 256); };
    EXPECT_EQ(std::ranges::max(pixels), 255) << "a disc";
    // Paddles keep 22 pixels from the border; discs reach 5 beyond the ends of curves.
    EXPECT_EQ(std::ranges::max(row(0)), 0);
    EXPECT_EQ(std::ranges::max(row(15)), 0);
  }
}

TEST(Pathfinder, PreparedDataSayWhatTheyAre) {
  Scratch scratch;
  task("pathfinder")
      .prepare({.out = scratch.path(),
                .seed = 5,
                .train = 3,
                .dev = 2,
                .test = 1,
                .resolution = 64,
                .difficulty = "easy"});
  const PreparedData data = open_data(scratch.path(), "pathfinder", /*check_hashes=*/true);
  EXPECT_EQ(data.manifest().options.dump(),
            R"({"resolution":64,"difficulty":"easy","seed":5,"train":3,"dev":2,"test":1})");
  EXPECT_EQ(data.manifest().generator, "pathfinder/1");
  EXPECT_EQ(data.split("train").size(), 3);
  EXPECT_EQ(data.split("test").length(0), 64 * 64);
  EXPECT_EQ(task("pathfinder").length, 1024);
  EXPECT_EQ(task("pathx").length, 16384);
  EXPECT_TRUE(task("pathx").image);
}

TEST(Pathfinder, ImpossibleRequestsAreRefused) {
  Scratch scratch;
  const auto message = [&](PrepareOptions options, const std::string& name = "pathfinder") {
    options.out = scratch.path() / "out";
    return error_text([&] { task(name).prepare(options); });
  };
  EXPECT_EQ(message({.resolution = 48}), "--resolution should be 32, 64, 128 or 256, not 48");
  EXPECT_EQ(message({.difficulty = "herd"}),
            "unknown difficulty 'herd'; did you mean 'hard'? Valid: easy, intermediate, hard");
  EXPECT_EQ(message({.resolution = 64}, "pathx"),
            "pathx is Pathfinder at 128 pixels a side; for --resolution 64 prepare the task "
            "pathfinder");
  EXPECT_EQ(message({.train = 0}), "--train should be from 1 to 10000000, not 0");
  EXPECT_NE(message({.min_length = 5}), "(no error)");
  EXPECT_NE(message({.synthetic = true}), "(no error)");
  EXPECT_FALSE(fs::exists(scratch.path() / "out"));
}

TEST(Pathfinder, AStopLeavesNothing) {
  Scratch scratch;
  std::atomic<bool> stop{false};
  int64_t seen = 0;
  PrepareOptions options{.out = scratch.path() / "out", .stop = &stop};
  options.progress = [&](int64_t done, int64_t total, const std::string&) {
    EXPECT_EQ(total, 200'000);
    seen = done;
    stop = true;
  };
  EXPECT_EQ(error_text([&] { task("pathfinder").prepare(options); }),
            "stopped while generating Pathfinder; nothing was written");
  EXPECT_GT(seen, 0);
  EXPECT_LT(seen, 200'000);
  EXPECT_FALSE(fs::exists(scratch.path() / "out"));
}

TEST(SlowPathfinder, AnyNumberOfThreadsGivesTheSameFilesAtFullSize) {
  Scratch scratch;
  std::set<std::string> fingerprints;
  for (const int64_t threads : {1, 2, 7}) {
    fingerprints.insert(
        fingerprint_of({.out = scratch.path() / std::to_string(threads), .threads = threads}));
  }
  EXPECT_EQ(fingerprints.size(), 1u);
}

}  // namespace
}  // namespace lra::pathfinder
