// LRA's TSV files: round trip, and the message of every kind of bad row.
#include <gtest/gtest.h>

#include "attention_variants/base/files.h"
#include "lra/tasks/listops/listops.h"
#include "tests/support/archives.h"
#include "tests/support/scratch.h"
#include "tests/support/small_disk.h"

namespace lra::listops {
namespace {

namespace fs = std::filesystem;

class ListOpsTsv : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"basic_train.tsv", "basic_val.tsv", "basic_test.tsv"}) {
      write_file(source_ / name, "Source\tTarget\n( ( ( [SM 4 ) 7 ) ] )\t1\n");
    }
  }
  // The message that a train file of this text gives.
  std::string error_of(const std::string& text) {
    write_file(source_ / "basic_train.tsv", text);
    return error_text([&] { task("listops").prepare({.out = out_, .source = source_}); });
  }

  Scratch source_folder_, out_folder_;
  fs::path source_ = source_folder_.path(), out_ = out_folder_.path() / "out";
  std::string train_ = (source_ / "basic_train.tsv").string();
};

TEST_F(ListOpsTsv, ExportAndImportGiveTheSameFingerprint) {
  task("listops").prepare({.out = out_,
                           .seed = 9,
                           .train = 200,
                           .dev = 50,
                           .test = 50,
                           .min_length = 20,
                           .max_length = 200});
  const PreparedData data(out_, "listops", /*check_hashes=*/true);
  const fs::path exported = out_folder_.path() / "tsv", again = out_folder_.path() / "again";
  task("listops").export_data(data, exported);
  EXPECT_NE(read_file(exported / "basic_val.tsv").find("Source\tTarget\r\n( "), std::string::npos);
  task("listops").prepare({.out = again, .source = exported});
  const PreparedData back(again, "listops", /*check_hashes=*/true);
  EXPECT_EQ(back.manifest().fingerprint(), data.manifest().fingerprint());
  EXPECT_EQ(back.manifest().generator, "listops-tsv/1");
}

TEST_F(ListOpsTsv, WhatIsNotAsManyAsLrasOrStandsTwiceIsNoted) {
  const std::string first = "( ( ( [SM 4 ) 7 ) ] )\t1\n", second = "( ( ( [SM 4 ) 6 ) ] )\t0\n";
  write_file(source_ / "basic_test.tsv", "Source\tTarget\n" + second + first);
  EXPECT_EQ(error_of("Source\tTarget\n" + first + first), "(no error)");
  const std::string source = "WARNING: the source has ";
  EXPECT_EQ(PreparedData(out_, "listops", /*check_hashes=*/true).manifest().notes,
            (std::vector<std::string>{
                source + "2 rows for train; the public data have 96000",
                source + "1 rows for dev; the public data have 2000",
                source + "2 rows for test; the public data have 2000",
                "WARNING: samples of dev that stand in train: 1, of test that stand in train or "
                "dev: 1"}));
  task("listops").prepare(
      {.out = out_ / "few", .source = source_, .train = 1, .dev = 1, .test = 1});
  EXPECT_EQ(Manifest::read(out_ / "few" / "listops" / "manifest.json").notes.size(), 1u)
      << "so many were asked for";
}

TEST_F(ListOpsTsv, BothLineEndsAreRead) {
  EXPECT_EQ(error_of("Source\tTarget\r\n( ( ( [SM 4 ) 7 ) ] )\t1\r\n"), "(no error)");
  EXPECT_EQ(PreparedData(out_, "listops", /*check_hashes=*/true).split("train").label(0), 1);
}

TEST_F(ListOpsTsv, BadRowsAreNamedByFileAndLine) {
  const std::string good = "Source\tTarget\n( ( ( [SM 4 ) 7 ) ] )\t1\n";
  EXPECT_EQ(
      error_of("( ( ( [SM 4 ) 7 ) ] )\t1\n"),
      train_ + ":1: expected the header 'Source<tab>Target', not '( ( ( [SM 4 ) 7 ) ] )\\t1'");
  EXPECT_EQ(error_of(good + "[SM 4 7 ]\n"),
            train_ + ":3: expected 2 columns (Source, Target) separated by a tab, not 1");
  EXPECT_EQ(error_of(good + "[SM 4 7 ]\t1\t1\n"),
            train_ + ":3: expected 2 columns (Source, Target) separated by a tab, not 3");
  EXPECT_EQ(error_of(good + "[SM 4 7 ]\tone\n"),
            train_ + ":3: the label should be an integer from 0 to 9, not 'one'");
  EXPECT_EQ(error_of(good + "[SM 4 7 ]\t1.0\n"),
            train_ + ":3: the label should be an integer from 0 to 9, not '1.0'");
  EXPECT_EQ(error_of(good + "[SM 4 7 ]\t11\n"),
            train_ + ":3: the label should be an integer from 0 to 9, not '11'");
  EXPECT_EQ(error_of(good + "[SM 4 7 ]\t2\n"),
            train_ + ":3: the expression has the value 1, but its label is 2");
  EXPECT_EQ(
      error_of(good + "[SUM 4 7 ]\t1\n"),
      train_ +
          ":3: unknown token '[SUM'; ListOps has [MIN [MAX [MED [SM ] ( ) and the digits 0 to 9");
  EXPECT_EQ(error_of(good + "[SM 4 7\t1\n"), train_ + ":3: 1 lists are not closed");
  EXPECT_EQ(error_of(good + "[SM 4 \xff\x1b ]\t1\n"),
            train_ +
                ":3: unknown token '\\xff\\x1b'; ListOps has [MIN [MAX [MED [SM ] ( ) and the "
                "digits 0 to 9");
  EXPECT_EQ(error_of("Source\tTarget\n"), train_ + " holds no rows for train");
  EXPECT_EQ(error_of(""), train_ + " holds no rows for train");
  EXPECT_FALSE(fs::exists(out_ / "listops"));
}

TEST_F(ListOpsTsv, AFullDiskLeavesNoHalfFile) {
  std::string rows = "Source\tTarget\n";
  for (int i = 0; i < 20'000; ++i) rows += "[SM 4 7 ]\t1\n";
  write_file(source_ / "basic_train.tsv", rows);
  const SmallDisk disk(64);
  if (!disk.mounted()) GTEST_SKIP() << "mounting a small tmpfs is not allowed here";
  const std::string imported =
      error_text([&] { task("listops").prepare({.out = disk.path(), .source = source_}); });
  EXPECT_TRUE(imported.ends_with(kFullDisk)) << imported;
  EXPECT_EQ(disk.entries(), 0);
  task("listops").prepare({.out = out_, .source = source_});
  const PreparedData data(out_, "listops", /*check_hashes=*/true);
  EXPECT_EQ(error_text([&] { task("listops").export_data(data, disk.path()); }),
            "cannot write " + (disk.path() / "basic_train.tsv").string() + kFullDisk);
  EXPECT_EQ(disk.entries(), 0);
}

TEST_F(ListOpsTsv, LrasReleaseIsReadAsItIs) {
  const std::string folder = "lra_release/lra_release/listops-1000/",
                    good = "Source\tTarget\r\n( ( ( [SM 4 ) 7 ) ] )\t1\r\n";
  std::vector<ArchiveEntry> entries = {
      {.name = folder + "basic_val.tsv", .content = good},
      {.name = "lra_release/lra_release/tsv_data/new_aan_pairs.train.tsv", .content = "x"},
      {.name = folder + "basic_train.tsv", .content = good + "( ( ( [MAX 4 ) 7 ) ] )\t7\r\n"},
      {.name = folder + "basic_test.tsv", .content = good}};
  const fs::path release = out_folder_.path() / "lra_release.tar.gz";
  write_archive(release, entries);
  task("listops").prepare({.out = out_, .source = release});
  const PreparedData data(out_, "listops", /*check_hashes=*/true);
  ASSERT_EQ(data.split("train").size(), 2);
  EXPECT_EQ(data.split("train").label(1), 7);
  entries[2].content = good + "( ( ( [MAX 4 ) 7 ) ] )\t6\r\n";
  write_archive(release, entries);
  EXPECT_EQ(error_text([&] { task("listops").prepare({.out = out_, .source = release}); }),
            release.string() + ": " + folder +
                "basic_train.tsv:3: the expression has the value 7, but its label is 6");
}

TEST_F(ListOpsTsv, MissingSourcesAreNamed) {
  fs::remove(source_ / "basic_val.tsv");
  EXPECT_EQ(error_text([&] { task("listops").prepare({.out = out_, .source = source_}); }),
            source_.string() +
                " holds no basic_val.tsv: ListOps needs basic_train.tsv, basic_val.tsv, "
                "basic_test.tsv");
  EXPECT_EQ(error_text([&] { task("listops").prepare({.out = out_, .source = "/nowhere"}); }),
            "there is no folder or archive /nowhere");
}

TEST_F(ListOpsTsv, OptionsOfOtherTasksAreRefused) {
  EXPECT_EQ(error_text([&] { task("listops").prepare({.out = out_, .resolution = 32}); }),
            "the task listops has no --resolution");
  EXPECT_EQ(error_text([&] { task("listops").prepare({.out = out_, .synthetic = true}); }),
            "the task listops has no --synthetic");
  EXPECT_EQ(error_text([&] {
              task("listops").prepare({.out = out_, .settings = {{"foo", 3}}});
            }),
            "the task listops has no settings of its own for --set; its own options are "
            "--min-length and --max-length");
}

TEST_F(ListOpsTsv, FewerRowsThanAskedForIsAnError) {
  EXPECT_EQ(
      error_text([&] { task("listops").prepare({.out = out_, .source = source_, .train = 2}); }),
      train_ + " holds 1 rows, fewer than the --train 2 asked for");
}

}  // namespace
}  // namespace lra::listops
