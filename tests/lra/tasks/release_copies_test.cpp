// Google's release, which holds some folders under lra_release/ and again under
// lra_release/lra_release/: as an archive and unpacked, which copy is read and what is said of the
// other.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "attention_variants/base/files.h"
#include "lra/data/task.h"
#include "lra/formats/image_files.h"
#include "tests/support/archives.h"
#include "tests/support/scratch.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

const std::string kOuter = "lra_release/", kInner = "lra_release/lra_release/",
                  kLists = "listops-1000/", kPathX = "pathfinder128/curv_contour_length_14";

using FileMap = std::map<std::string, std::string>;  // content, by path

// ListOps: one row a file, and a second in train.
FileMap listops_files(const std::string& folder, int label = 7) {
  const std::string good = "Source\tTarget\r\n( ( ( [SM 4 ) 7 ) ] )\t1\r\n";
  const std::string row = "( ( ( [MAX 4 ) " + std::to_string(label) + " ) ] )\t" +
                          std::to_string(std::max(label, 4)) + "\r\n";
  return {{folder + "basic_train.tsv", good + row},
          {folder + "basic_val.tsv", good},
          {folder + "basic_test.tsv", good}};
}

FileMap retrieval_files(const std::string& folder, const std::string& text = "b'one \\xe2'") {
  const std::string row = "1.0\tP00-1001\tW01-0102\t" + text + "\tb\"it's\"\n";
  return {{folder + "new_aan_pairs.train.tsv", row},
          {folder + "new_aan_pairs.eval.tsv", row},
          {folder + "new_aan_pairs.test.tsv", row}};
}

// Ten images whose pixels are `first` + i, but for the first of them.
FileMap pathfinder_files(const std::string& folder, int first = 0, int64_t side = 32) {
  FileMap files;
  for (int i = 0; i < 10; ++i) {
    Image image(side, side, 1);
    std::ranges::fill(image.pixels, static_cast<uint8_t>(first + i));
    const std::string number = std::to_string(i);
    files[folder + "/imgs/0/sample_" + number + ".png"] = write_png(image);
    files[folder + "/metadata/0.npy"].append("imgs/0 sample_" + number + ".png " + number +
                                             " 1 1.0 14 4 2 0.5 1 1\n");
  }
  return files;
}

FileMap with_files(FileMap one, const FileMap& two) {
  one.insert(two.begin(), two.end());
  return one;
}

enum class Kind { archive, reversed, folder };

class ReleaseCopies : public ::testing::TestWithParam<Kind> {
 protected:
  // The source made of these files; entries of an archive that stand twice are `more`.
  void write(const FileMap& files, const std::vector<ArchiveEntry>& more = {}) {
    remove_tree(source_);
    if (GetParam() == Kind::folder) {
      source_ = scratch_.path() / "unpacked";
      remove_tree(source_);
      for (const auto& [name, content] : files) {
        fs::create_directories((source_ / name).parent_path());
        write_file(source_ / name, content);
      }
      return;
    }
    source_ = scratch_.path() / "release.tar.gz";
    std::vector<ArchiveEntry> entries;
    for (const auto& [name, content] : files) entries.push_back({.name = name, .content = content});
    entries.insert(entries.end(), more.begin(), more.end());
    if (GetParam() == Kind::reversed) std::ranges::reverse(entries);
    write_archive(source_, entries);
  }
  PreparedData prepare(const std::string& name) {
    const fs::path out = scratch_.path() / ("out" + std::to_string(++runs_));
    task(name).prepare({.out = out, .source = source_});
    return open_data(out, name, /*check_hashes=*/true);
  }
  std::string error_of(const std::string& name) {
    return error_text([&] { prepare(name); });
  }
  static std::set<int64_t> first_pixels(const PreparedData& data) {
    std::set<int64_t> values;
    for (const char* split : kSplits) {
      for (int64_t i = 0; i < data.split(split).size(); ++i) {
        int64_t value = 0;
        data.split(split).copy(i, 0, 1, &value);
        values.insert(value);
      }
    }
    return values;
  }

  // But for what is said of sources of so few rows.
  static std::vector<std::string> notes_of(const PreparedData& data) {
    std::vector<std::string> notes = data.manifest().notes;
    std::erase_if(notes, [](const std::string& note) {
      return note.starts_with("WARNING: the source has ") ||
             note.starts_with("WARNING: the lists name ") ||
             note.starts_with("WARNING: samples of dev that stand in train: ");
    });
    return notes;
  }

  Scratch scratch_;
  fs::path source_ = scratch_.path() / "none";
  int runs_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Kinds, ReleaseCopies,
                         ::testing::Values(Kind::archive, Kind::reversed, Kind::folder),
                         [](const auto& kind) {
                           return std::string(kind.param == Kind::archive    ? "archive"
                                              : kind.param == Kind::reversed ? "reversed"
                                                                             : "folder");
                         });

TEST_P(ReleaseCopies, OfEqualCopiesTheInnerOneIsReadAndTheOtherNoted) {
  write(with_files(listops_files(kOuter + kLists), listops_files(kInner + kLists)));
  const PreparedData data = prepare("listops");
  EXPECT_EQ(data.split("train").size(), 2);
  EXPECT_EQ(data.split("dev").size(), 1);
  EXPECT_EQ(data.manifest().members, (std::map<std::string, std::string>{
                                         {"basic_train.tsv", kInner + kLists + "basic_train.tsv"},
                                         {"basic_val.tsv", kInner + kLists + "basic_val.tsv"},
                                         {"basic_test.tsv", kInner + kLists + "basic_test.tsv"}}));
  EXPECT_EQ(notes_of(data),
            std::vector<std::string>{"lra_release/lra_release/listops-1000 was read; "
                                     "lra_release/listops-1000 holds the same files, byte for "
                                     "byte"});
}

TEST_P(ReleaseCopies, OfDifferentCopiesTheInnerOneIsReadAndAWarningNamesBoth) {
  write(with_files(listops_files(kOuter + kLists, 3), listops_files(kInner + kLists, 8)));
  const PreparedData data = prepare("listops");
  ASSERT_EQ(data.split("train").size(), 2);
  EXPECT_EQ(data.split("train").label(1), 8);
  EXPECT_EQ(notes_of(data),
            std::vector<std::string>{"WARNING: lra_release/lra_release/listops-1000 was read; "
                                     "lra_release/listops-1000 differs, in files: 1 with other "
                                     "bytes (basic_train.tsv)"});
  write(with_files(retrieval_files(kOuter + "tsv_data/", "b'x'"),
                   retrieval_files(kInner + "tsv_data/", "b'yy'")));
  const PreparedData pairs = prepare("retrieval");
  EXPECT_EQ(pairs.split("train").size(), 1);
  EXPECT_EQ(pairs.split("train").length(0, 0), 5);
  EXPECT_EQ(pairs.manifest().members.at("new_aan_pairs.eval.tsv"),
            kInner + "tsv_data/new_aan_pairs.eval.tsv");
}

// The other copy is only compared: what is wrong with it is no error.
TEST_P(ReleaseCopies, AnOuterCopyThatIsNoListOpsIsOnlyCompared) {
  FileMap files = with_files(listops_files(kOuter + kLists), listops_files(kInner + kLists));
  files[kOuter + kLists + "basic_train.tsv"] = "no header\n";
  write(files);
  EXPECT_EQ(prepare("listops").split("train").size(), 2);
  files = listops_files(kOuter + kLists);
  files[kOuter + kLists + "basic_train.tsv"] = "no header\n";
  write(files);
  EXPECT_NE(error_of("listops").find("basic_train.tsv:1: expected the header"), std::string::npos);
}

TEST_P(ReleaseCopies, TheOuterCopyAloneIsAccepted) {
  write(listops_files(kOuter + kLists));
  const PreparedData data = prepare("listops");
  EXPECT_EQ(data.manifest().members.at("basic_val.tsv"), kOuter + kLists + "basic_val.tsv");
  EXPECT_EQ(notes_of(data), std::vector<std::string>());
  write(pathfinder_files(kOuter + kPathX, 0, 128));
  const PreparedData images = prepare("pathx");
  EXPECT_EQ(images.manifest().members.at(kPathX), kOuter + kPathX);
  EXPECT_EQ(notes_of(images), std::vector<std::string>());
}

TEST_P(ReleaseCopies, AnyOtherDoublingIsAnError) {
  for (const std::string other : {"copy/listops-1000/", "copy/lra_release/lra_release/x/"}) {
    write(with_files(listops_files(kInner + kLists), listops_files(other)));
    EXPECT_NE(error_of("listops").find("; give the folder of one of them"), std::string::npos);
  }
  write(with_files(listops_files(kOuter + kLists), listops_files(kLists)));  // no inner one
  EXPECT_NE(error_of("listops").find(source_.string() + " holds two files basic_"),
            std::string::npos);
  // The inner copy must be whole: nothing is read from two.
  FileMap files = with_files(listops_files(kOuter + kLists), listops_files(kInner + kLists));
  files.erase(kInner + kLists + "basic_val.tsv");
  write(files);
  EXPECT_NE(error_of("listops").find(" holds no basic_val.tsv in lra_release/lra_release/"),
            std::string::npos);
}

TEST_P(ReleaseCopies, PathXIsReadFromTheInnerCopy) {
  const FileMap inner = pathfinder_files(kInner + kPathX, 100, 128);
  write(with_files(pathfinder_files(kOuter + kPathX, 100, 128), inner));
  const PreparedData equal = prepare("pathx");
  EXPECT_EQ(equal.manifest().members,
            (std::map<std::string, std::string>{{kPathX, kInner + kPathX}}));
  EXPECT_EQ(notes_of(equal), std::vector<std::string>{"lra_release/lra_release/" + kPathX +
                                                      " was read; lra_release/" + kPathX +
                                                      " holds the same files, byte for byte"});
  FileMap outer = pathfinder_files(kOuter + kPathX, 0, 128);
  outer.erase(kOuter + kPathX + "/imgs/0/sample_4.png");
  outer[kOuter + kPathX + "/imgs/1/sample_0.png"] = "";
  write(with_files(outer, inner));
  const PreparedData data = prepare("pathx");
  EXPECT_EQ(first_pixels(data),
            (std::set<int64_t>{100, 101, 102, 103, 104, 105, 106, 107, 108, 109}));
  EXPECT_EQ(data.manifest().fingerprint(), equal.manifest().fingerprint());
  EXPECT_EQ(notes_of(data),
            std::vector<std::string>{
                "WARNING: lra_release/lra_release/" + kPathX + " was read; lra_release/" + kPathX +
                " differs, in files: 9 with other bytes (imgs/0/sample_0.png, ...), 1 missing "
                "there (imgs/0/sample_4.png), 1 there alone (imgs/1/sample_0.png)"});
}

TEST_P(ReleaseCopies, ADoubledImageIsAnErrorAndNeverOverwritten) {
  const FileMap files = pathfinder_files("one/" + kPathX, 0, 128);
  write(with_files(files, pathfinder_files("two/" + kPathX, 50, 128)));
  EXPECT_NE(error_of("pathx").find(source_.string() + " holds two files "), std::string::npos);
  if (GetParam() == Kind::folder) return;
  const std::string image = "one/" + kPathX + "/imgs/0/sample_3.png";
  write(files, {{.name = image, .content = files.at("one/" + kPathX + "/imgs/0/sample_4.png")}});
  EXPECT_EQ(error_of("pathx"), source_.string() + " holds " + image + " twice");
}

// What was prepared before copies were looked for, by the program of then.
TEST_P(ReleaseCopies, FingerprintsStayAsTheyWere) {
  write(listops_files(kInner + kLists));
  EXPECT_EQ(prepare("listops").manifest().fingerprint(),
            "8b022d3d66aab342226192d1b196f1ad07877846b2b71b75c946347190d5cef6");
  write(retrieval_files(kInner + "tsv_data/"));
  const std::string one = prepare("retrieval").manifest().fingerprint();
  EXPECT_EQ(one, "f468c39676b068b88a887c59ffb809efa08350f5b941402c16d10a7bd9969052");
  write(with_files(retrieval_files(kInner + "tsv_data/"),
                   retrieval_files(kOuter + "tsv_data/", "b'x'")));
  EXPECT_EQ(prepare("retrieval").manifest().fingerprint(), one);
}

}  // namespace
}  // namespace lra
