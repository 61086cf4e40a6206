// The reader of LRA's release: order, split, and the message of every kind of bad input.
#include <gtest/gtest.h>

#include "lra/data/task.h"
#include "lra/formats/image_files.h"
#include "lra/tasks/pathfinder/pathfinder.h"
#include "tests/support/archives.h"
#include "tests/support/scratch.h"
#include "tests/support/small_disk.h"

namespace lra::pathfinder {
namespace {

namespace fs = std::filesystem;

const std::string kPart = "pathfinder32/curv_contour_length_14";

// All pixels of `value`, but for the first.
std::string png(uint8_t value, int64_t side = 32) {
  lra::Image image(side, side, 1);
  std::ranges::fill(image.pixels, value);
  image.pixels[0] = 255;
  return write_png(image);
}

std::string row(int folder, int sample, int label) {
  return "imgs/" + std::to_string(folder) + " sample_" + std::to_string(sample) + ".png " +
         std::to_string(sample) + " " + std::to_string(label) + " 1.0 14 4 2 0.5 1 1\n";
}

// A NumPy file of these rows' columns as NumPy writes it: '<U16', padded by zeros.
std::string npy(const std::string& rows) {
  std::vector<std::string> items;
  std::istringstream words(rows);
  for (std::string word; words >> word;) items.push_back(word);
  std::string header = "{'descr': '<U16', 'fortran_order': False, 'shape': (" +
                       std::to_string(items.size() / 11) + ", 11), }";
  header.resize(118, ' ');
  std::string bytes = std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header;
  for (const std::string& item : items) {
    for (size_t i = 0; i < 16; ++i) {
      bytes += i < item.size() ? item[i] : '\0';
      bytes.append(3, '\0');
    }
  }
  return bytes;
}

// Two lists of 10 images; image i of all 20 has the value i and the label i % 2. The list of number
// 10 comes after that of number 9, though not in the order of names.
class PathfinderRelease : public ::testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < 20; ++i) {
      const int folder = i < 10 ? 9 : 10, sample = i % 10;
      files_["imgs/" + std::to_string(folder) + "/sample_" + std::to_string(sample) + ".png"] =
          png(static_cast<uint8_t>(i));
      files_["metadata/" + std::to_string(folder) + ".npy"] += row(folder, sample, i % 2);
    }
  }
  void write(const fs::path& folder) const {
    for (const auto& [name, content] : files_) {
      fs::create_directories((folder / name).parent_path());
      write_file(folder / name, content);
    }
  }
  void write_tar(const fs::path& path) const {
    std::vector<ArchiveEntry> entries;
    for (const auto& [name, content] : files_)
      entries.push_back(
          {.name = "lra_release/lra_release/" + kPart + "/" + name, .content = content});
    entries.push_back({.name = "lra_release/lra_release/pathfinder64/curv_contour_length_14/imgs/9/"
                               "sample_0.png",
                       .content = "no image of ours"});
    write_archive(path, entries);
  }
  // The value of every image of a split, in order; checks its label.
  std::vector<int> values(const std::string& split) const {
    const PreparedData data = open_data(out_, "pathfinder", /*check_hashes=*/true);
    std::vector<int> result;
    for (int64_t i = 0; i < data.split(split).size(); ++i) {
      std::vector<int64_t> ids(1024);
      EXPECT_EQ(data.split(split).copy(i, 0, 1024, ids.data()), 1024);
      EXPECT_EQ(ids[0], 255);
      EXPECT_EQ(ids[1], ids[1023]);
      EXPECT_EQ(data.split(split).label(i), ids[1] % 2);
      result.push_back(static_cast<int>(ids[1]));
    }
    return result;
  }
  // What preparing from a folder of the present files says.
  std::string message(PrepareOptions options = {}) {
    const fs::path release = scratch_.path() / "release" / kPart;
    remove_tree(scratch_.path() / "release");
    write(release);
    options.source = scratch_.path() / "release";
    options.out = out_;
    const std::string text = error_text([&] { task("pathfinder").prepare(options); });
    EXPECT_EQ(fs::exists(out_ / "pathfinder"), text == "(no error)");
    // Messages without the folder that differs at every run.
    const std::string prefix = scratch_.path().string() + "/release/";
    return text.starts_with(prefix) ? text.substr(prefix.size()) : text;
  }

  Scratch scratch_;
  fs::path out_ = scratch_.path() / "out";
  std::map<std::string, std::string> files_;  // by path within kPart
  std::string list_ = kPart + "/metadata/9.npy";
};

// torch.utils.data.random_split(range(20), (16, 2, 2), generator=manual_seed(42)) in PyTorch 2.11.
TEST_F(PathfinderRelease, TheSplitIsThatOfRandomSplitWithSeed42) {
  EXPECT_EQ(message(), "(no error)");
  EXPECT_EQ(values("train"),
            (std::vector<int>{2, 14, 18, 15, 1, 10, 0, 4, 6, 11, 8, 3, 7, 17, 13, 12}));
  EXPECT_EQ(values("dev"), (std::vector<int>{19, 5}));
  EXPECT_EQ(values("test"), (std::vector<int>{16, 9}));
  const Manifest manifest = Manifest::read(out_ / "pathfinder" / "manifest.json");
  EXPECT_EQ(manifest.split, "permutation 42 (S4's), 80/10/10");
  EXPECT_EQ(manifest.members, (std::map<std::string, std::string>{{kPart, kPart}}));
  // By the program that knew of no copies.
  EXPECT_EQ(manifest.fingerprint(),
            "f8c896a0c51a3bc0481d977036c1f2e5b5d125c7ca369e22b6e81372b713d869");
  EXPECT_EQ(manifest.source, "release (" + kPart + ")");
  EXPECT_EQ(manifest.generator, "pathfinder-release/1");
  EXPECT_FALSE(manifest.synthetic);
  EXPECT_EQ(manifest.notes,
            (std::vector<std::string>{"WARNING: the lists name 20 images, those of the public data "
                                      "200000: lists are missing or cut, and the splits are "
                                      "others"}));
}

TEST_F(PathfinderRelease, ImagesThatNoListNamesAreSaid) {
  std::string& list = files_.at("metadata/9.npy");
  list = list.substr(0, list.rfind('\n', list.size() - 2) + 1);
  EXPECT_EQ(message(), "(no error)");
  const Manifest manifest = Manifest::read(out_ / "pathfinder" / "manifest.json");
  ASSERT_EQ(manifest.notes.size(), 2u);
  EXPECT_TRUE(manifest.notes[1].starts_with(
      "WARNING: 1 images are in none of the lists, which name 19: lists are missing or cut"))
      << manifest.notes[1];
}

TEST_F(PathfinderRelease, SeveralEmptyImagesAreSaid) {
  int emptied = 0;
  for (auto& [name, bytes] : files_) {
    if (!name.ends_with(".png") || emptied == 2) continue;
    bytes.clear();
    ++emptied;
  }
  EXPECT_EQ(message(), "(no error)");
  const Manifest manifest = Manifest::read(out_ / "pathfinder" / "manifest.json");
  ASSERT_EQ(manifest.notes.size(), 2u);
  EXPECT_TRUE(manifest.notes[1].starts_with("WARNING: 2 images are empty")) << manifest.notes[1];
}

TEST_F(PathfinderRelease, FoldersTarsAndGzippedTarsGiveTheSame) {
  EXPECT_EQ(message(), "(no error)");
  const std::string expected = Manifest::read(out_ / "pathfinder" / "manifest.json").fingerprint();
  write_tar(scratch_.path() / "lra_release.gz.tar.gz");
  fs::rename(scratch_.path() / "lra_release.gz.tar.gz", scratch_.path() / "lra_release.gz");
  write_tar(scratch_.path() / "plain.tar");
  write(scratch_.path() / "unpacked/lra_release/lra_release" / kPart);
  write(scratch_.path() / "twice" / kPart);
  write(scratch_.path() / "deep/down" / kPart);
  for (const char* source : {"lra_release.gz", "plain.tar", "unpacked", "unpacked/lra_release",
                             "unpacked/lra_release/lra_release/pathfinder32/", "twice", "deep"}) {
    const fs::path out = scratch_.path() / "again" / source;
    task("pathfinder").prepare({.out = out, .source = scratch_.path() / source});
    EXPECT_EQ(Manifest::read(out / "pathfinder" / "manifest.json").fingerprint(), expected)
        << source;
  }
}

// The numbers of lists and the rows in them decide, whatever a file system or an archive lists
// first, and whatever the folders above are called.
TEST_F(PathfinderRelease, TheSplitDependsOnNoOrderOrNameOfFolders) {
  std::vector<ArchiveEntry> entries;
  for (const auto& [name, content] : files_)
    entries.push_back({.name = "Copy of data/" + kPart + "/" + name, .content = content});
  CounterRandom random(7, 0);
  for (int order = 0; order < 4; ++order) {
    for (size_t i = entries.size() - 1; i > 0; --i)
      std::swap(entries[i], entries[random.below(static_cast<uint32_t>(i + 1))]);
    const fs::path tar = scratch_.path() / ("order" + std::to_string(order) + ".tar");
    write_archive(tar, entries);
    remove_tree(out_);
    task("pathfinder").prepare({.out = out_, .source = tar});
    EXPECT_EQ(values("test"), (std::vector<int>{16, 9})) << order;
    EXPECT_EQ(values("dev"), (std::vector<int>{19, 5})) << order;
  }
}

TEST_F(PathfinderRelease, ListsOfNumPyAreReadToo) {
  EXPECT_EQ(message(), "(no error)");
  const std::vector<int> expected = values("train");
  remove_tree(out_);
  for (auto& [name, content] : files_) {
    if (name.ends_with(".npy")) content = npy(content);
  }
  EXPECT_EQ(message(), "(no error)");
  EXPECT_EQ(values("train"), expected);
}

TEST_F(PathfinderRelease, EmptyImagesAreLeftOutAndCounted) {
  files_["imgs/9/sample_3.png"] = "";
  EXPECT_EQ(message(), "(no error)");
  std::set<int> seen;
  for (const char* split : kSplits) {
    for (const int value : values(split)) seen.insert(value);
  }
  EXPECT_EQ(seen.size(), 19u);
  EXPECT_FALSE(seen.contains(3));
  const Manifest manifest = Manifest::read(out_ / "pathfinder" / "manifest.json");
  EXPECT_EQ(manifest.options["skipped"], 1);
  EXPECT_EQ(manifest.source, "release (" + kPart + "), empty images skipped: 1");
}

TEST_F(PathfinderRelease, CountsTakeTheFirstOfASplit) {
  EXPECT_EQ(message({.train = 3, .dev = 1}), "(no error)");
  EXPECT_EQ(values("train"), (std::vector<int>{2, 14, 18}));
  EXPECT_EQ(values("dev"), (std::vector<int>{19}));
  EXPECT_EQ(values("test"), (std::vector<int>{16, 9}));
  remove_tree(out_);
  EXPECT_EQ(message({.train = 17}), scratch_.path().string() + "/release: " + kPart +
                                        " holds 16 rows, fewer than the --train 17 asked for");
}

TEST_F(PathfinderRelease, BadListsAreNamedByFileAndLine) {
  const std::string good = files_["metadata/9.npy"];
  const auto with = [&](const std::string& list) {
    files_["metadata/9.npy"] = list;
    return message();
  };
  EXPECT_EQ(with(good + "imgs/9 sample_0.png 0 1 1.0\n"),
            list_ + ":11: expected 11 columns (folder, file, number, label, ...), not 5");
  EXPECT_EQ(with("\n" + good),
            list_ + ":1: expected 11 columns (folder, file, number, label, ...), not 0");
  EXPECT_EQ(with(row(9, 0, 2)), list_ + ":1: the label should be 0 or 1, not '2'");
  EXPECT_EQ(with(row(9, 0, 0) + row(9, 77, 0)),
            list_ + ":2: there is no image imgs/9/sample_77.png");
  EXPECT_EQ(with(row(9, 0, 0) + row(9, 0, 0)), list_ + ":2: imgs/9/sample_0.png is listed twice");
  EXPECT_EQ(with("../../secret sample_0.png 0 1 1.0 14 4 2 0.5 1 1\n"),
            list_ + ":1: there is no image ../../secret/sample_0.png");
  EXPECT_EQ(with(npy(good).substr(0, 500)), list_ + ": the .npy should hold 7040 bytes, not 372");
  std::string objects = npy(good);
  objects.replace(objects.find("<U16"), 4, "|O8 ");
  EXPECT_EQ(with(objects), list_ + ": an .npy of Python objects is not read");
}

TEST_F(PathfinderRelease, BadListNamesAreRefused) {
  files_["metadata/all.npy"] = row(9, 0, 0);
  EXPECT_EQ(message(), kPart + "/metadata/all.npy: lists should be named by numbers, as 0.npy");
  files_.erase("metadata/all.npy");
  files_["metadata/09.npy"] = row(9, 0, 0);
  EXPECT_EQ(message(), list_ + ": there is another list of that number");
}

TEST_F(PathfinderRelease, BadImagesAreNamed) {
  const std::string image = kPart + "/imgs/9/sample_5.png";
  const std::string good = files_["imgs/9/sample_5.png"];
  const auto with = [&](const std::string& bytes) {
    files_["imgs/9/sample_5.png"] = bytes;
    return message();
  };
  EXPECT_EQ(with(png(5, 33)), image + " should be 32 x 32 grey pixels, not 33 x 33 grey");
  EXPECT_EQ(with(write_png(lra::Image(32, 32, 3))),
            image + " should be 32 x 32 grey pixels, not 32 x 32 coloured");
  for (const size_t length : {good.size() / 2, good.size() - 30, size_t{10}}) {
    EXPECT_TRUE(with(good.substr(0, length)).starts_with(image)) << length;
  }
  EXPECT_TRUE(with("no image").starts_with(image));
}

TEST_F(PathfinderRelease, WhatIsNotThereIsNamed) {
  files_.erase("metadata/9.npy");
  files_.erase("metadata/10.npy");
  EXPECT_EQ(message(), scratch_.path().string() + "/release holds no " + kPart + "/metadata/*.npy");
  EXPECT_EQ(message({.difficulty = "easy"}),
            scratch_.path().string() + "/release holds no folder pathfinder32/curv_baseline");
  EXPECT_EQ(error_text([&] { task("pathx").prepare({.out = out_, .source = "/nowhere"}); }),
            "there is no folder or archive /nowhere");
}

TEST_F(PathfinderRelease, AnArchiveCutShortLeavesNothing) {
  const fs::path tar = scratch_.path() / "release.tar.gz";
  write_tar(tar);
  fs::resize_file(tar, fs::file_size(tar) / 2);
  const std::string text =
      error_text([&] { task("pathfinder").prepare({.out = out_, .source = tar}); });
  EXPECT_TRUE(text.starts_with(tar.string())) << text;
  EXPECT_FALSE(fs::exists(out_));
}

TEST_F(PathfinderRelease, AFullDiskLeavesNothing) {
  write(scratch_.path() / "release" / kPart);
  const SmallDisk disk(16);
  if (!disk.mounted()) GTEST_SKIP() << "mounting a small tmpfs is not allowed here";
  const std::string text = error_text([&] {
    task("pathfinder").prepare({.out = disk.path(), .source = scratch_.path() / "release"});
  });
  EXPECT_TRUE(text.ends_with(kFullDisk)) << text;
  EXPECT_EQ(disk.entries(), 0);
}

TEST_F(PathfinderRelease, AStopLeavesNothing) {
  const std::atomic<bool> stop{true};
  EXPECT_NE(message({.stop = &stop}).find("nothing was written"), std::string::npos);
}

}  // namespace
}  // namespace lra::pathfinder
