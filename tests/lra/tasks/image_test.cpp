// CIFAR-10: grey values, LRA's split, the three forms of the source, bad sources.
#include <gtest/gtest.h>

#include <numeric>

#include "lra/formats/image_files.h"
#include "lra/tasks/image/cifar.h"
#include "tests/lra/tasks/source_fixture.h"
#include "tests/support/archives.h"
#include "tests/support/jpegs.h"
#include "tests/support/scratch.h"
#include "tests/support/small_disk.h"
#include "tests/support/test_data.h"

namespace lra::image {
namespace {

namespace fs = std::filesystem;

constexpr const char* kStems[] = {"data_batch_1", "data_batch_2", "data_batch_3",
                                  "data_batch_4", "data_batch_5", "test_batch"};

// Expected values computed with NumPy's float32, step by step.
TEST(Grey, IsLrasFormulaInFloat32) {
  EXPECT_EQ(grey(0, 0, 0), 0);
  EXPECT_EQ(grey(255, 255, 255), 255);
  EXPECT_EQ(grey(255, 0, 0), 76);
  EXPECT_EQ(grey(0, 255, 0), 149);
  EXPECT_EQ(grey(0, 0, 255), 29);
  EXPECT_EQ(grey(59, 62, 63), 61);
  EXPECT_EQ(grey(1, 2, 3), 1);
  EXPECT_EQ(grey(200, 100, 50), 124);
  // One more with fused multiply-adds.
  EXPECT_EQ(grey(16, 218, 140), 148);
  // Another one summed from right to left.
  EXPECT_EQ(grey(5, 49, 41), 34);
}

TEST(Grey, HasTheReferencesSumOverAllColours) {
  int64_t sum = 0;
  for (int red = 0; red < 256; ++red) {
    for (int green = 0; green < 256; ++green) {
      for (int blue = 0; blue < 256; ++blue) {
        sum += grey(static_cast<uint8_t>(red), static_cast<uint8_t>(green),
                    static_cast<uint8_t>(blue));
      }
    }
  }
  EXPECT_EQ(sum, 2'134'686'634);
}

TEST(RecordOrder, IsThatOfTensorFlowDatasets) {
  const std::vector<int64_t> order = record_order();
  ASSERT_EQ(order.size(), 50'000u);
  EXPECT_EQ(std::vector(order.begin(), order.begin() + 5),
            (std::vector<int64_t>{16399, 1680, 47917, 17307, 27051}));
  std::string all;
  for (const int64_t i : order) {
    if (!all.empty()) all += ',';
    all += std::to_string(i);
  }
  EXPECT_EQ(sha256(all), "4b69f5cd2d2dbc981ba882aeb0eefa50909b65ed2703a64525c6c2056ad252f7");
}

// `count` records; record i of file f has label (f + i) % 10 and the grey value (7 f + i) % 256 in
// its first pixel, 0 in the others.
std::string records(int64_t file, int64_t count) {
  std::string bytes;
  for (int64_t i = 0; i < count; ++i) {
    std::string record(3073, '\0');
    record[0] = static_cast<char>((file + i) % 10);
    for (const size_t at : {1, 1025, 2049}) record[at] = static_cast<char>((7 * file + i) % 256);
    bytes += record;
  }
  return bytes;
}

int64_t first_pixel(const Split& split, int64_t index) {
  int64_t id = -1;
  split.copy(index, 0, 1, &id);
  return id;
}

class Cifar10 : public SourceTest {
 protected:
  Cifar10() : SourceTest("image", "cifar.tar") {}
  static std::vector<ArchiveEntry> small(int64_t count, const std::string& end = ".bin") {
    std::vector<ArchiveEntry> entries;
    for (int64_t f = 0; f < 6; ++f) {
      entries.push_back(
          {.name = "cifar-10-batches-bin/" + (kStems[f] + end), .content = records(f, count)});
    }
    return entries;
  }
  // The message where one entry of a good archive is another.
  std::string error_with(size_t index, const std::string& content) {
    std::vector<ArchiveEntry> entries = small(20);
    entries[index].content = content;
    write_archive(archive_, entries);
    return error_text([&] { prepare(); });
  }

  std::string where_ = archive_.string();
};

// A subset keeps to the splits of the whole: its records are in train, dev or test where the
// official ones are, in that order.
TEST_F(Cifar10, ASubsetFollowsTheOfficialSplit) {
  constexpr int64_t kCount = 60;
  write_archive(archive_, small(kCount, "_first60.bin"));
  const PreparedData data = prepare();
  EXPECT_EQ(data.manifest().source,
            "CIFAR-10 (subset of 360 images, not verified), from cifar.tar");
  const std::vector<int64_t> order = record_order();
  int64_t seen[2] = {0, 0};
  for (size_t rank = 0; rank < order.size(); ++rank) {
    const int64_t file = order[rank] / 10'000, place = order[rank] % 10'000;
    if (place >= kCount) continue;
    const bool dev = rank >= 45'000;
    const Split& split = data.split(dev ? "dev" : "train");
    const int64_t at = seen[dev]++;
    ASSERT_LT(at, split.size());
    EXPECT_EQ(split.label(at), (file + place) % 10);
    EXPECT_EQ(first_pixel(split, at), 7 * file + place);
    EXPECT_EQ(split.length(at), 1024);
  }
  EXPECT_EQ(data.split("train").size(), seen[0]);
  EXPECT_EQ(data.split("dev").size(), seen[1]);
  EXPECT_GT(seen[1], 0);
  ASSERT_EQ(data.split("test").size(), kCount);
  for (int64_t i = 0; i < kCount; ++i) EXPECT_EQ(first_pixel(data.split("test"), i), 35 + i);
}

// In colour the same samples stand in the same order, three sequences each; grey data stay what
// they were.
TEST_F(Cifar10, ColoursAreASequenceAChannel) {
  std::vector<ArchiveEntry> entries = small(60);
  for (ArchiveEntry& entry : entries) {
    for (size_t record = 0; record < 60; ++record) {
      entry.content[record * 3073 + 1 + 1024 + 3] = static_cast<char>(record);  // green of pixel 3
      entry.content[record * 3073 + 1 + 2048 + 1023] = static_cast<char>(200);  // blue of the last
    }
  }
  write_archive(archive_, entries);
  const PreparedData greys = prepare(), colours = prepare({.settings = {{"colours", "rgb"}}});
  EXPECT_EQ(greys.manifest().inputs, 1);
  EXPECT_FALSE(greys.manifest().options.contains("colours"));
  EXPECT_EQ(colours.manifest().inputs, 3);
  EXPECT_EQ(colours.manifest().options["colours"], "rgb");
  EXPECT_EQ(colours.manifest().source, greys.manifest().source);
  EXPECT_NE(colours.manifest().fingerprint(), greys.manifest().fingerprint());
  for (const char* name : kSplits) {
    const Split &grey_split = greys.split(name), &split = colours.split(name);
    ASSERT_EQ(split.size(), grey_split.size()) << name;
    ASSERT_EQ(split.inputs(), 3);
    std::vector<std::vector<int64_t>> channels(3, std::vector<int64_t>(kPixels));
    std::vector<int64_t> greyed(kPixels);
    for (int64_t i = 0; i < split.size(); ++i) {
      EXPECT_EQ(split.label(i), grey_split.label(i));
      for (int64_t c = 0; c < 3; ++c)
        ASSERT_EQ(split.copy(i, c, kPixels, channels[static_cast<size_t>(c)].data()), kPixels);
      grey_split.copy(i, 0, kPixels, greyed.data());
      for (size_t j = 0; j < greyed.size(); ++j) {
        ASSERT_EQ(greyed[j],
                  grey(static_cast<uint8_t>(channels[0][j]), static_cast<uint8_t>(channels[1][j]),
                       static_cast<uint8_t>(channels[2][j])))
            << name << ", sample " << i << ", pixel " << j;
      }
      EXPECT_EQ(channels[2][1023], 200);
      EXPECT_EQ(channels[0][1023], 0);
    }
  }
  EXPECT_EQ(error_text([&] {
              prepare({.settings = {{"colours", "red"}}});
            }),
            "--set: colours should be one of grey, rgb, not \"red\"");
}

TEST_F(Cifar10, ColoursAreReadAsTheDataHaveThem) {
  write_archive(archive_, small(20));
  prepare();
  const fs::path out = scratch_.path() / "out1";
  EXPECT_EQ(
      error_text([&] {
        open_data(out, "image", /*check_hashes=*/false, Reading{.colours = Colours::rgb});
      }),
      "the images in " + (out / "image").string() +
          " are grey and input.colours is rgb: train with --set input.colours=grey, or give data "
          "that were prepared with --set colours=rgb");
  const Task read = task("image", Reading{.colours = Colours::rgb});
  EXPECT_EQ(read.channels, 3);
  EXPECT_EQ(read.sequences(), 3);
  EXPECT_EQ(read.inputs, 1);
  EXPECT_EQ(error_text([] { task("listops", Reading{.colours = Colours::rgb}); }),
            "input.colours should be grey: the task listops has no colours");
}

TEST_F(Cifar10, CountsTakeTheFirstOfEachSplit) {
  write_archive(archive_, small(60));
  const PreparedData all = prepare(), few = prepare({.train = 5, .dev = 2, .test = 3});
  EXPECT_EQ(few.split("train").size(), 5);
  EXPECT_EQ(few.split("dev").size(), 2);
  EXPECT_EQ(few.split("test").size(), 3);
  for (int64_t i = 0; i < 5; ++i) {
    EXPECT_EQ(first_pixel(few.split("train"), i), first_pixel(all.split("train"), i));
  }
  EXPECT_EQ(error_text([&] { prepare({.test = 61}); }),
            where_ + " holds 60 images for test, fewer than the --test 61 asked for");
}

// Whole files with other contents are never called the official ones.
TEST_F(Cifar10, OtherWholeFilesAreNotTakenForTheOfficialOnes) {
  fs::create_directory(scratch_.path() / "folder");
  for (int64_t f = 0; f < 6; ++f) {
    const fs::path path = scratch_.path() / "folder" / (kStems[f] + std::string(".bin"));
    write_file(path, "");
    fs::resize_file(path, 30'730'000);  // zeros, which take no room on disk
  }
  const Cifar cifar = read({.source = scratch_.path() / "folder"});
  EXPECT_EQ(cifar.label, "CIFAR-10 (not the official files: other MD5)");
  EXPECT_EQ(cifar.train.index.size(), 50'000u);
  EXPECT_EQ(cifar.test.index.size(), 10'000u);
}

TEST_F(Cifar10, BadFilesAreNamed) {
  const std::string file = where_ + ": cifar-10-batches-bin/data_batch_2.bin";
  EXPECT_EQ(error_with(1, records(1, 3).substr(0, 9000)),
            file +
                " should hold records of 3073 bytes (a label, 32 x 32 red, green and blue), but "
                "has 9000 bytes: it is cut short or holds other images");
  EXPECT_EQ(error_with(1, ""),
            file +
                " should hold records of 3073 bytes (a label, 32 x 32 red, green and blue), but "
                "has 0 bytes: it is cut short or holds other images");
  EXPECT_EQ(error_with(1, records(1, 10'001)),
            file + " should have at most 30730000 bytes, it has more");
  std::string bad = records(1, 3);
  bad[3073] = 10;
  EXPECT_EQ(error_with(1, bad), file + ": record 1: the label should be from 0 to 9, not 10");
}

TEST_F(Cifar10, MissingAndDoubledFilesAreNamed) {
  std::vector<ArchiveEntry> entries = small(3);
  entries.pop_back();
  write_archive(archive_, entries);
  EXPECT_EQ(error_text([&] { prepare(); }),
            where_ +
                " holds no test_batch.bin; CIFAR-10 is data_batch_1.bin to data_batch_5.bin "
                "and test_batch.bin");
  entries.push_back({.name = "copy/data_batch_1.bin", .content = records(0, 3)});
  write_archive(archive_, entries);
  EXPECT_EQ(error_text([&] { prepare(); }),
            where_ +
                ": copy/data_batch_1.bin: the source holds two files data_batch_1; give the "
                "folder of one of them");
}

TEST_F(Cifar10, OptionsOfOtherTasksAreRefused) {
  EXPECT_EQ(error_text([&] { prepare({.resolution = 32}); }), "the task image has no --resolution");
  EXPECT_EQ(error_text([&] { prepare({.seed_given = true}); }),
            "the task image draws nothing of this --source: leave --seed out");
  EXPECT_NE(error_text([&] {
              task("image").prepare({.out = scratch_.path() / "o"});
            }).find("cifar-10-binary.tar.gz"),
            std::string::npos);
}

TEST_F(Cifar10, JpegFilesNeedTheOrderOfTheLabels) {
  write_archive(archive_, {{.name = "train/cat/0000.jpg", .content = "no JPEG"}});
  EXPECT_EQ(error_text([&] {
              prepare();
            }).rfind(where_ + ": train/cat/0000.jpg cannot be read as JPEG: Not a JPEG file", 0),
            0u)
      << error_text([&] { prepare(); });
  write_archive(archive_, {{.name = "train/whale/0000.jpg", .content = "no class of CIFAR-10"}});
  EXPECT_EQ(error_text([&] { prepare(); }),
            where_ +
                " holds CIFAR-10 as JPEG files, whose order is in "
                "cifar10_labels_canonical_order.u8; put that file beside it, or give the six "
                "official .bin files");
  write_file(scratch_.path() / "cifar10_labels_canonical_order.u8", std::string(60'000, '\3'));
  EXPECT_EQ(error_text([&] { prepare(); }), where_ + " holds no image number 0 of train/cat");
  write_file(scratch_.path() / "cifar10_labels_canonical_order.u8", std::string(10, '\3'));
  EXPECT_EQ(error_text([&] { prepare(); }),
            "cifar10_labels_canonical_order.u8 should hold 60000 labels, not 10");
}

class Cifar10Jpeg : public Cifar10 {
 protected:
  std::string error_of(const std::vector<ArchiveEntry>& entries) {
    write_archive(archive_, entries);
    return error_text([&] { prepare(); });
  }
  std::string image_ = write_jpeg(lra::Image(32, 32, 3));
};

TEST_F(Cifar10Jpeg, AnImageOfTheWrongSizeIsNamed) {
  EXPECT_EQ(
      error_of({{.name = "train/cat/0000.jpg", .content = image_},
                {.name = "train/cat/0001.jpg", .content = write_jpeg(lra::Image(33, 32, 3))}}),
      where_ + ": train/cat/0001.jpg should have 32 x 32 pixels, not 33 x 32");
}

TEST_F(Cifar10Jpeg, ADoubledNumberIsNamed) {
  EXPECT_EQ(error_of({{.name = "train/cat/12.jpg", .content = image_},
                      {.name = "train/cat/0012.jpg", .content = image_}}),
            where_ + ": train/cat/0012.jpg: there are two images of this class with the number 12");
  EXPECT_EQ(error_of({{.name = "train/cat/x.jpg", .content = image_}}),
            where_ + ": train/cat/x.jpg: the name should be a number, as 0012.jpg");
}

TEST_F(Cifar10Jpeg, ALabelOutOfRangeIsNamed) {
  std::string labels(60'000, '\3');
  labels[7] = 10;
  write_file(scratch_.path() / "cifar10_labels_canonical_order.u8", labels);
  EXPECT_EQ(error_of({{.name = "train/cat/0000.jpg", .content = image_}}),
            "cifar10_labels_canonical_order.u8: record 7: the label should be from 0 to 9, not 10");
}

TEST_F(Cifar10, AFullDiskLeavesNothing) {
  write_archive(archive_, small(60));
  const SmallDisk disk(64);
  if (!disk.mounted()) GTEST_SKIP() << "mounting a small tmpfs is not allowed here";
  const std::string message =
      error_text([&] { task("image").prepare({.out = disk.path(), .source = archive_}); });
  EXPECT_TRUE(message.ends_with(kFullDisk)) << message;
  EXPECT_EQ(disk.entries(), 0);
}

TEST(ImageRealData, TheExactSubsetIsReadAsASubset) {
  const fs::path archive = test_data("cifar10_exact_subset.tar.xz");
  if (archive.empty()) GTEST_SKIP() << no_test_data("cifar10_exact_subset.tar.xz");
  const Cifar cifar = read({.source = archive});
  EXPECT_EQ(cifar.label, "CIFAR-10 (subset of 6102 images, not verified)");
  ASSERT_EQ(cifar.train.index.size(), 5u * 1017);
  EXPECT_EQ(cifar.train.index[1017], 10'000);
  EXPECT_EQ(cifar.train.label[0], 6);  // the frog that everybody knows
  EXPECT_EQ(cifar.train.pixels[0], grey(59, 62, 63));
  const Cifar coloured = read({.source = archive}, Colours::rgb);
  ASSERT_EQ(coloured.train.pixels.size(), 3 * cifar.train.pixels.size());
  EXPECT_EQ(coloured.train.pixels[0], 59);
  EXPECT_EQ(coloured.train.pixels[kPixels], 62);
  EXPECT_EQ(coloured.train.pixels[2 * kPixels], 63);
}

// The same images, unpacked by Pillow and written in the official layout, give these greys.
TEST(SlowImageRealData, TheJpegCopyIsUnpackedAsPillowDoesAndLabelled) {
  const fs::path archive = test_data("cifar10_jpeg.tar.xz");
  if (archive.empty()) GTEST_SKIP() << no_test_data("cifar10_jpeg.tar.xz");
  const Cifar cifar = read({.source = archive});
  EXPECT_EQ(cifar.label, "CIFAR-10 (JPEG)");
  const auto hash = [](const std::vector<uint8_t>& bytes) {
    return sha256({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  };
  EXPECT_EQ(hash(cifar.train.label),
            "2b7cd2f24487317614016b72ffd53071c3062f592f0eb300c18a770d41ae1253");
  EXPECT_EQ(hash(cifar.train.pixels),
            "c8c28966e07a3b7de5a86e2f8ba9482eea6835d1ae6f60171846c4912444d5f6");
  EXPECT_EQ(hash(cifar.test.label),
            "cec8a24a1e92aa2ecaa0bbd3dbfa86bf6cd8759fbd209a832824c8cf0afca9d5");
  EXPECT_EQ(hash(cifar.test.pixels),
            "cc1fd7588d712fa413b2d070805846e0811fef7c9d11eb33377fa41fb2aa5f31");

  // Another order makes other files.
  const Scratch scratch;
  const std::string order = "cifar10_labels_canonical_order.u8";
  std::string labels = read_file(archive.parent_path() / order);
  const size_t other = labels.find_first_not_of(labels[0]);
  std::swap(labels[0], labels[other]);
  write_file(scratch.path() / order, labels);
  fs::create_symlink(archive, scratch.path() / "images.tar.xz");
  EXPECT_EQ(read({.source = scratch.path() / "images.tar.xz"}).label,
            "CIFAR-10 (JPEG files, not verified)");
}

}  // namespace
}  // namespace lra::image
