// `lra data`, run as a program.
#include <gtest/gtest.h>

#include <chrono>
#include <sstream>
#include <thread>

#include "attention_variants/base/files.h"
#include "lra/formats/image_files.h"
#include "tests/harness/program.h"
#include "tests/support/archives.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

ProgramResult lra_data(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "data");
  return run_program(std::move(arguments));
}

class DataCommand : public ::testing::Test {
 protected:
  ProgramResult prepare(const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {
        "prepare", "listops", "--out", dir_,           "--train", "40",           "--dev",
        "10",      "--test",  "10",    "--min-length", "20",      "--max-length", "100"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return lra_data(arguments);
  }
  void expect_text(const ProgramResult& outcome, int status, const std::string& text) {
    EXPECT_EQ(outcome.status, status) << outcome.text();
    EXPECT_NE(outcome.text().find(text), std::string::npos) << outcome.text();
  }
  Scratch scratch_;
  std::string dir_ = (scratch_.path() / "data").string();
};

TEST_F(DataCommand, PrepareVerifyShowExportImport) {
  const ProgramResult prepared = prepare();
  expect_text(prepared, 0, "listops: train 40, dev 10, test 10\n  fingerprint ");
  const std::string fingerprint = prepared.text().substr(prepared.text().find("fingerprint "), 76);
  expect_text(prepare(), 0, "already prepared");
  expect_text(lra_data({"verify", dir_}), 0, fingerprint);
  expect_text(lra_data({"verify", dir_ + "/listops/"}), 0, fingerprint);
  expect_text(lra_data({"show", dir_, "--split", "test", "--count", "2"}), 0, "#1 label ");
  const std::string tsv = (scratch_.path() / "tsv").string();
  expect_text(lra_data({"export", dir_, "--out", tsv}), 0, tsv + "/listops\n");
  // Beside a task that no public format is of, and of that task alone.
  ASSERT_EQ(lra_data({"prepare", "mqar", "--out", dir_, "--set", "length=32", "--set", "pairs=2",
                      "--train", "4", "--dev", "2", "--test", "2"})
                .status,
            0);
  expect_text(
      lra_data({"export", dir_, "--out", tsv}), 1,
      tsv + "/listops/basic_train.tsv is there already; remove it, or choose another --out");
  fs::create_directories(tsv + "3/listops");
  fs::create_symlink("nowhere", tsv + "3/listops/basic_val.tsv");
  expect_text(lra_data({"export", dir_ + "/listops", "--out", tsv + "3"}), 1,
              tsv + "3/listops/basic_val.tsv is there already");
  EXPECT_FALSE(fs::exists(tsv + "3/listops/nowhere"));
  const ProgramResult both = lra_data({"export", dir_, "--out", tsv + "2"});
  expect_text(both, 0, tsv + "2/listops\n");
  expect_text(both, 0, "task 'mqar' has no public file format to export to, not written\n");
  expect_text(lra_data({"export", dir_ + "/mqar", "--out", tsv}), 1,
              "task 'mqar' has no public file format to export to");
  expect_text(
      lra_data({"prepare", "listops", "--out", tsv + "/back", "--source", tsv + "/listops"}), 0,
      fingerprint);
}

// Six files of 200 images each, in which pixel 0 is the image's number.
TEST_F(DataCommand, ImagesOutOfAnArchiveAreShownAndDrawn) {
  std::vector<ArchiveEntry> entries;
  for (const char* name : {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4",
                           "data_batch_5", "test_batch"}) {
    std::string bytes;
    for (int i = 0; i < 200; ++i) {
      std::string record(3073, '\0');
      record[0] = static_cast<char>(i % 10);
      for (const size_t at : {1, 1025, 2049}) record[at] = static_cast<char>(i);
      bytes += record;
    }
    entries.push_back({.name = std::string(name) + ".bin", .content = bytes});
  }
  const std::string archive = (scratch_.path() / "cifar.tar.gz").string(),
                    png = (scratch_.path() / "sheet.png").string();
  write_archive(archive, entries);
  expect_text(lra_data({"prepare", "image", "--out", dir_, "--source", archive}), 0,
              "\n  source CIFAR-10 (subset of 1200 images, not verified), from cifar.tar.gz\n");
  const ProgramResult shown = lra_data({"show", dir_, "--split", "test", "--count", "1"});
  expect_text(shown, 0, "#0 label 0, 1024 tokens\n");
  // Each row of the picture is indented alike.
  std::istringstream rows(shown.out);
  std::string row;
  for (int i = 0; i < 3; ++i) std::getline(rows, row);
  for (int i = 0; i < 32; ++i) {
    ASSERT_TRUE(std::getline(rows, row)) << i;
    EXPECT_EQ(row.size(), 2u + 32) << i;
    EXPECT_TRUE(row.starts_with("  ")) << i;
  }
  EXPECT_FALSE(std::getline(rows, row));
  expect_text(lra_data({"show", dir_, "--split", "test", "--count", "4", "--png", png}), 0,
              png + ": the first 4 images of image test, labels below");
  const Image sheet = read_png(read_file(png), png);
  EXPECT_EQ(sheet.width, 8 + 3 * 200);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(sheet.pixels[static_cast<size_t>(8 * sheet.width) + 8 + i * 200], i);
  }

  prepare();
  expect_text(lra_data({"show", dir_, "--png", png}), 2, "--png draws one task: give " + dir_);
  expect_text(lra_data({"show", dir_ + "/listops", "--png", png}), 2, "; listops has none");
}

TEST_F(DataCommand, ACutArchiveLeavesNothing) {
  const std::string archive = (scratch_.path() / "aclImdb_v1.tar.gz").string();
  write_archive(archive, {{.name = "train/pos/1_9.txt", .content = random_text(50'000)}});
  write_file(archive, read_file(archive).substr(0, 20'000));
  expect_text(lra_data({"prepare", "text", "--out", dir_, "--source", archive}), 1,
              archive + ", at train/pos/1_9.txt: gzip: unexpected end of file; it is cut short");
  EXPECT_FALSE(fs::exists(dir_));
}

TEST_F(DataCommand, VerifyNamesTheDamagedFile) {
  prepare();
  const fs::path train = fs::path(dir_) / "listops" / "train.safetensors";
  std::string bytes = read_file(train);
  bytes[bytes.size() / 2] ^= 1;
  write_file(train, bytes);
  expect_text(lra_data({"verify", dir_}), 1, train.string() + " has SHA-256 ");
  expect_text(prepare(), 1, train.string() + " has SHA-256 ");
}

TEST_F(DataCommand, VerifyHoldsTheManifestToTheSplits) {
  prepare();
  const fs::path folder = fs::path(dir_) / "listops", manifest = folder / "manifest.json";
  const json good = read_json(manifest);
  json other = good;
  other["options"]["train"] = 999;
  write_json(manifest, other);
  expect_text(lra_data({"verify", dir_}), 1,
              "its manifest has 999 samples of train in its options, and there are 40");
  write_json(manifest, good);
  expect_text(lra_data({"verify", dir_}), 0, "fingerprint ");
  // Labels of another kind, whose hash is right.
  ASSERT_EQ(lra_data({"prepare", "selective_copying", "--out", dir_, "--train", "40", "--dev", "2",
                      "--test", "2"})
                .status,
            0);
  const fs::path train = folder / "train.safetensors";
  fs::copy_file(fs::path(dir_) / "selective_copying" / "train.safetensors", train,
                fs::copy_options::overwrite_existing);
  const std::string refused =
      train.string() + " has labels at positions, but its manifest says a label a sample";
  expect_text(lra_data({"show", dir_ + "/listops"}), 1, refused);
  expect_text(lra_data({"verify", dir_ + "/listops"}), 1, train.string() + " has SHA-256 ");
}

// It names each that is damaged, and passes over what is not ours.
TEST_F(DataCommand, VerifyLooksAtAllTasks) {
  prepare();
  for (const char* task : {"mqar", "induction"}) {
    ASSERT_EQ(
        lra_data({"prepare", task, "--out", dir_, "--train", "4", "--dev", "2", "--test", "2"})
            .status,
        0);
    write_file(fs::path(dir_) / task / "test.safetensors", "x");
  }
  fs::create_directories(fs::path(dir_) / "web");
  write_file(fs::path(dir_) / "web" / "manifest.json", R"({"name": "an app"})");
  const ProgramResult result = lra_data({"verify", dir_});
  expect_text(result, 1, "induction/test.safetensors has SHA-256 ");
  expect_text(result, 1, "mqar/test.safetensors has SHA-256 ");
  expect_text(result, 1, "listops: train 40, dev 10, test 10");
  expect_text(result, 1, "not as they were prepared: induction, mqar");
}

// Its splits are still there, or its name says what it was.
TEST_F(DataCommand, VerifyNamesATaskThatHasLostItsManifest) {
  prepare();
  ASSERT_EQ(
      lra_data({"prepare", "mqar", "--out", dir_, "--train", "4", "--dev", "2", "--test", "2"})
          .status,
      0);
  fs::remove(fs::path(dir_) / "mqar" / "manifest.json");
  fs::create_symlink("nowhere", fs::path(dir_) / "text");
  fs::create_directories(fs::path(dir_) / "image");  // and nothing there
  const ProgramResult result = lra_data({"verify", dir_});
  expect_text(result, 1, "listops: train 40, dev 10, test 10");
  expect_text(result, 1, "not as they were prepared: mqar, text");
}

TEST_F(DataCommand, ARenamedFolderIsNamed) {
  prepare();
  fs::rename(fs::path(dir_) / "listops", fs::path(dir_) / "mine");
  for (const std::string& path : {dir_, dir_ + "/mine"})
    expect_text(lra_data({"show", path}), 1,
                dir_ + "/mine holds the data of task listops: rename it to listops");
}

TEST_F(DataCommand, ACopyThatWasKeptIsPassedOver) {
  prepare();
  fs::copy(fs::path(dir_) / "listops", fs::path(dir_) / "listops-old");
  const ProgramResult result = lra_data({"verify", dir_});
  expect_text(result, 0, "listops: train 40, dev 10, test 10");
  expect_text(result, 0, "passed over: " + dir_ + "/listops-old, whose name");
}

TEST_F(DataCommand, ShowReadsNoDamagedSplit) {
  prepare();
  const fs::path dev = fs::path(dir_) / "listops" / "dev.safetensors";
  std::string bytes = read_file(dev);
  bytes.back() ^= 1;
  write_file(dev, bytes);
  expect_text(lra_data({"show", dir_, "--split", "train"}), 0, "listops train: 40 samples");
  expect_text(lra_data({"show", dir_, "--split", "dev"}), 1, dev.string() + " has SHA-256 ");
}

TEST_F(DataCommand, OutByWayOfAMissingFolder) {
  const std::string by = (scratch_.path() / "new" / ".." / "data").string();
  expect_text(
      lra_data({"prepare", "induction", "--out", by, "--train", "4", "--dev", "2", "--test", "2"}),
      0, "induction: train 4, dev 2, test 2");
  EXPECT_FALSE(fs::exists(scratch_.path() / "new"));
  expect_text(lra_data({"verify", dir_}), 0, "fingerprint ");
}

// Before the work, of which this would be hours.
TEST_F(DataCommand, NothingIsMadeForThePlaceOfALink) {
  fs::create_directories(scratch_.path() / "big");
  fs::create_directories(dir_);
  fs::create_directory_symlink(scratch_.path() / "big", fs::path(dir_) / "pathx");
  expect_text(lra_data({"prepare", "pathx", "--out", dir_}), 1,
              "cannot write " + dir_ + "/pathx: it is a symbolic link");
  fs::remove(fs::path(dir_) / "pathx");
  fs::create_directory(fs::path(dir_) / "pathx");
  write_file(fs::path(dir_) / "pathx" / "notes.txt", "x");
  expect_text(lra_data({"prepare", "pathx", "--out", dir_}), 1,
              dir_ + "/pathx exists and holds no prepared data");
}

TEST_F(DataCommand, OtherDataInTheWay) {
  prepare();
  expect_text(prepare({"--seed", "5"}), 1,
              "already holds other data: options.seed is 0 there and 5 here; choose another --out");
}

TEST_F(DataCommand, ASeedIsRefusedWhereNothingIsDrawn) {
  expect_text(lra_data({"prepare", "listops", "--out", dir_, "--source", dir_, "--seed", "0"}), 2,
              "the task listops draws nothing of this --source: leave --seed out");
}

// How the samples were divided, which file of the source was read, and what to know of both.
TEST_F(DataCommand, ShowSaysWhatTheManifestExplains) {
  std::vector<ArchiveEntry> reviews;
  for (const std::string half : {"train", "test"}) {
    for (const std::string label : {"neg", "pos"}) {
      for (int id = 0; id < 4; ++id) {
        const std::string number = std::to_string(id);
        reviews.push_back({.name = half + "/" + label + "/" + number + "_5.txt",
                           .content = label + number + (id == 2 ? "" : half)});
      }
    }
  }
  const std::string imdb = (scratch_.path() / "imdb.tar").string();
  write_archive(imdb, reviews);
  ASSERT_EQ(lra_data({"prepare", "text", "--out", dir_, "--source", imdb}).status, 0);
  const std::string copies = "test reviews that stand word for word in train or dev: 2;";
  expect_text(lra_data({"show", dir_}), 0, copies);
  expect_text(lra_data({"show", dir_}), 0, "  split dev of train, copies on one side\n");
  expect_text(lra_data({"verify", dir_}), 0, copies);

  std::vector<ArchiveEntry> release;
  for (const std::string folder : {"lra_release/", "lra_release/lra_release/"}) {
    for (const char* name : {"basic_train.tsv", "basic_val.tsv", "basic_test.tsv"}) {
      release.push_back({.name = folder + "listops-1000/" + name,
                         .content = "Source\tTarget\n( ( ( [SM 4 ) 7 ) ] )\t1\n"});
    }
  }
  const std::string tar = (scratch_.path() / "lra_release.gz").string();
  write_archive(tar + ".tar.gz", release);
  fs::rename(tar + ".tar.gz", tar);
  const ProgramResult prepared = lra_data({"prepare", "listops", "--out", dir_, "--source", tar});
  expect_text(prepared, 0,
              "  read lra_release/lra_release/listops-1000/basic_val.tsv as basic_val.tsv\n");
  expect_text(prepared, 0, "  lra_release/lra_release/listops-1000 was read; ");
}

TEST_F(DataCommand, CtrlCLeavesNothing) {
  Program program(
      {"data", "prepare", "listops", "--out", dir_, "--train", "1500000", "--threads", "1"});
  std::this_thread::sleep_for(std::chrono::seconds(4));
  program.send(SIGINT);
  const ProgramResult outcome = program.wait();
  expect_text(outcome, 130, "stopped while generating ListOps; nothing was written");
  EXPECT_FALSE(fs::exists(dir_));
}

TEST_F(DataCommand, WrongUsageIsStatusTwo) {
  expect_text(lra_data({"prepare", "lisops", "--out", dir_}), 2,
              "unknown task 'lisops'; did you mean 'listops'?");
  expect_text(prepare({"--train", "0"}), 2, "--train");
  expect_text(prepare({"--source", ""}), 2, "--source is empty, which is not");
  expect_text(prepare({"--difficulty", ""}), 2, "--difficulty is empty, which is not");
  expect_text(lra_data({"prepare", "listops", "--out", ""}), 2, "--out is empty, which is not");
  expect_text(lra_data({"export", dir_, "--out", ""}), 2, "--out is empty, which is not");
  expect_text(lra_data({"show", dir_, "--png", ""}), 2, "--png is empty, which is not");
  // By all of its samples' lengths.
  expect_text(lra_data({"prepare", "mqar", "--set", "mix=64x4:1,8190x4:50000000", "--out", dir_}),
              2, "give a smaller --train, --dev or --test");
  expect_text(lra_data({"prepare", "pathfinder", "--resolution", "256", "--train", "10000000",
                        "--out", dir_}),
              2, "give a smaller --train, --dev or --test");
  expect_text(lra_data({"prepare", "listops"}), 2, "--out");
  expect_text(lra_data({"show", dir_}), 1, "there is no folder " + dir_);
  expect_text(lra_data({"verify", scratch_.path().string()}), 1,
              "no prepared data in " + scratch_.path().string());
  prepare();
  expect_text(lra_data({"show", dir_, "--split", "val"}), 2, "unknown split 'val'");
  EXPECT_FALSE(fs::exists(scratch_.path() / "lisops"));
}

}  // namespace
}  // namespace lra
