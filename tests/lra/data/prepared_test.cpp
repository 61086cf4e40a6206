// Prepared data: whole or nothing, and no damage goes unnoticed.
#include "lra/data/prepared.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "attention_variants/base/files.h"
#include "lra/data/task.h"
#include "lra/formats/safetensors.h"
#include "tests/support/scratch.h"
#include "tests/support/small_disk.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

std::map<std::string, SplitWriter> writers(uint16_t id = 1, size_t length = 4) {
  std::map<std::string, SplitWriter> splits;
  for (const char* name : kSplits) {
    splits[name].tokens(std::vector<uint16_t>(length, id));
    splits[name].label(2);
  }
  return splits;
}

Manifest manifest(int64_t vocabulary = 16) {
  Manifest m;
  m.task = "toy";
  m.source = "generated";
  m.generator = "toy/1";
  m.options = {{"seed", 0}};
  m.vocabulary = vocabulary;
  m.classes = 3;
  return m;
}

TEST(UnlikePublic, NamesWhatDiffers) {
  const Task paths{.name = "toy",
                   .public_data = {{"test", 20}, {"train+dev", 100}, {"difficulty", "hard"}}};
  Manifest made = manifest();
  EXPECT_TRUE(unlike_public(paths, made).empty()) << "what it does not say";
  made.options = {{"train", 90}, {"dev", 10}, {"test", 20}, {"difficulty", "hard"}, {"seed", 3}};
  EXPECT_TRUE(unlike_public(paths, made).empty());
  made.options["train"] = 40;
  made.options["difficulty"] = "easy";
  EXPECT_EQ(unlike_public(paths, made),
            (std::vector<std::string>{"train+dev 50, not 100", "difficulty easy, not hard"}));
  made.synthetic = true;
  EXPECT_TRUE(unlike_public(paths, made).empty()) << "tables say that it is";
}

class Prepared : public ::testing::Test {
 protected:
  void SetUp() override { write_prepared(dir_, manifest(), writers()); }
  std::string open_error(bool check_hashes = true) {
    return error_text([&] { PreparedData(dir_, "toy", check_hashes); });
  }
  // The message after the manifest was changed.
  std::string manifest_error(const std::function<void(json&)>& change) {
    json value = read_json(manifest_path_);
    change(value);
    write_json(manifest_path_, value);
    const std::string message = open_error(/*check_hashes=*/false);
    EXPECT_EQ(message.rfind(manifest_path_.string(), 0), 0u) << message;
    return message;
  }
  // The message of a split file with these tensors.
  std::string split_error(const torch::Tensor& tokens, const torch::Tensor& offsets,
                          const torch::Tensor& labels) {
    write_tensors(dev_, {{{"tokens", tokens}, {"offsets", offsets}, {"labels", labels}}, {}});
    return error_text([&] { Split(dev_, 1, 3, 16); });
  }

  Scratch scratch_;
  fs::path dir_ = scratch_.path() / "data", manifest_path_ = dir_ / "toy" / "manifest.json",
           dev_ = dir_ / "toy" / "dev.safetensors";
};

TEST_F(Prepared, ComesBackAsItWasWritten) {
  const PreparedData data(dir_, "toy", /*check_hashes=*/true);
  EXPECT_EQ(data.manifest().to_json(), read_json(manifest_path_));
  EXPECT_EQ(data.split("dev").size(), 1);
  EXPECT_EQ(data.split("dev").length(0), 4);
  EXPECT_EQ(data.split("dev").label(0), 2);
  EXPECT_EQ(read_tensors(dev_).at("tokens").scalar_type(), torch::kUInt8);
  EXPECT_EQ(error_text([&] { data.split("val"); }), "unknown split 'val'; valid: train, dev, test");
}

// Files whose hashes are right, of samples that the task has none of.
TEST_F(Prepared, SamplesAreHeldAgainstTheirTask) {
  const auto error_of = [&](const std::string& name, int64_t vocabulary, int64_t classes,
                            const std::vector<uint16_t>& ids, int64_t label,
                            const json& options = json::object()) {
    const Scratch scratch;
    Manifest of = manifest(vocabulary);
    of.task = name;
    of.classes = classes;
    of.options = options;
    std::map<std::string, SplitWriter> splits;
    for (const char* split : kSplits) {
      splits[split].tokens(ids);
      splits[split].label(label);
    }
    write_prepared(scratch.path(), of, splits);
    return error_text([&] { check_samples(open_data(scratch.path(), name, true)); });
  };
  // [MAX 2 3 ]
  EXPECT_EQ(error_of("listops", 16, 10, {2, 8, 9, 5}, 3), "(no error)");
  EXPECT_EQ(error_of("listops", 16, 10, {2, 8, 9, 5}, 2),
            "listops: sample 0 of train: the expression has the value 3, but its label is 2");
  EXPECT_EQ(error_of("listops", 16, 10, {5}, 0), "listops: sample 0 of train: ']' closes no list");
  EXPECT_EQ(error_of("listops", 16, 10, {}, 0),
            "listops: sample 0 of train: the expression is empty");
  const std::vector<uint16_t> nine(9, 1), seven(7, 1);
  EXPECT_EQ(error_of("pathfinder", 256, 2, nine, 0), "(no error)");
  EXPECT_EQ(error_of("pathfinder", 256, 2, seven, 0),
            "pathfinder: sample 0 of train: the image should have 2 x 2 pixels, not 7");
  EXPECT_EQ(error_of("pathfinder", 256, 2, nine, 0, {{"resolution", 32}}),
            "pathfinder: sample 0 of train: the image should have 32 x 32 pixels, not 9");
  EXPECT_EQ(error_of("image", 256, 10, nine, 0),
            "image: sample 0 of train: the image should have 32 x 32 pixels, not 9");
}

TEST_F(Prepared, TheTestSplitCanBeLeftUnopened) {
  write_file(dir_ / "toy" / "test.safetensors", "no tensors");
  EXPECT_NE(open_error(), "(no error)");
  const PreparedData data(dir_, "toy", /*check_hashes=*/true, OpenedSplits::all_but_test);
  EXPECT_EQ(data.split("train").size(), 1);
  EXPECT_EQ(data.split("dev").size(), 1);
  EXPECT_EQ(data.manifest().to_json(), read_json(manifest_path_));
  EXPECT_EQ(
      error_text([&] { data.split("test"); }),
      "the test split of toy was not opened, as nothing is to be tested (evaluation.test false)");
  EXPECT_EQ(error_text([&] { data.split("val"); }), "unknown split 'val'; valid: train, dev, test");
  fs::remove(dir_ / "toy" / "test.safetensors");
  PreparedData(dir_, "toy", /*check_hashes=*/true, OpenedSplits::all_but_test);
  write_file(dev_, "no tensors");
  EXPECT_TRUE(error_text([&] {
                PreparedData(dir_, "toy", /*check_hashes=*/true, OpenedSplits::all_but_test);
              }).starts_with(dev_.string() + " has SHA-256 "));
}

TEST_F(Prepared, LabelsMayStandAtPositions) {
  std::map<std::string, SplitWriter> splits;
  for (const char* name : kSplits) {
    splits[name].tokens(std::vector<uint16_t>{1, 2, 3});
    splits[name].labels(std::vector<int32_t>{-1, 2, 0});
    splits[name].tokens(std::vector<uint16_t>{4});
    splits[name].labels(std::vector<int32_t>{1});
  }
  Manifest m = manifest();
  m.task = "labelled";
  m.position_labels = true;
  write_prepared(dir_, m, splits);
  const PreparedData data(dir_, "labelled", /*check_hashes=*/true);
  EXPECT_TRUE(data.manifest().position_labels);
  EXPECT_EQ(read_json(dir_ / "labelled" / "manifest.json")["labels"], "positions");
  EXPECT_FALSE(read_json(manifest_path_).contains("labels"));
  const Split& split = data.split("dev");
  ASSERT_EQ(split.size(), 2);
  ASSERT_TRUE(split.has_position_labels());
  std::vector<int64_t> labels(4, 9);
  EXPECT_EQ(split.copy_labels(0, 2, labels.data()), 2);
  EXPECT_EQ(split.copy_labels(1, 2, labels.data() + 2), 1);
  EXPECT_EQ(labels, (std::vector<int64_t>{-1, 2, 1, 9}));
  SplitWriter wrong;
  wrong.tokens(std::vector<uint16_t>{1, 2});
  EXPECT_THROW(wrong.labels(std::vector<int32_t>{1}), Error);

  const auto error = [&](const torch::Tensor& of_positions) {
    write_tensors(dev_, {{{"tokens", torch::ones({3}, torch::kUInt8)},
                          {"offsets", torch::tensor({0, 2, 3}, torch::kInt64)},
                          {"position_labels", of_positions}},
                         {}});
    return error_text([&] { Split(dev_, 1, 3, 16); });
  };
  EXPECT_EQ(error(torch::tensor({0, -1, 2}, torch::kInt32)), "(no error)");
  write_tensors(dev_, {{{"tokens", torch::empty({0}, torch::kUInt8)},
                        {"offsets", torch::empty({0}, torch::kInt64)},
                        {"position_labels", torch::empty({0}, torch::kInt32)}},
                       {}});
  EXPECT_NE(error_text([&] { Split(dev_, 1, 3, 16); }).find("offsets should begin with 0"),
            std::string::npos);
  EXPECT_NE(
      error(torch::tensor({0, -1, 3}, torch::kInt32)).find("label of sample 1 should be from"),
      std::string::npos);
  EXPECT_NE(
      error(torch::tensor({0, -2, 2}, torch::kInt32)).find("label of sample 0 should be from"),
      std::string::npos);
  EXPECT_NE(error(torch::tensor({-1, -1, 2}, torch::kInt32)).find("sample 0 has no label"),
            std::string::npos);
  EXPECT_NE(error(torch::tensor({0, 1}, torch::kInt32)).find("should be one a token"),
            std::string::npos);
}

TEST_F(Prepared, LargeVocabulariesTakeTwoBytes) {
  Manifest wide = manifest(1000);
  wide.task = "wide";
  write_prepared(dir_, wide, writers(999));
  int64_t id = 0;
  PreparedData(dir_, "wide", /*check_hashes=*/true).split("test").copy(0, 0, 1, &id);
  EXPECT_EQ(id, 999);
  EXPECT_EQ(error_text([&] { writers(16).at("dev").write(scratch_.path() / "f", 16); }),
            "cannot write " + (scratch_.path() / "f").string() +
                ": token id 16 is not below the vocabulary's 16");
}

// A writer holds bytes until an id takes two.
TEST_F(Prepared, BytesAndWideIdsMayMix) {
  SplitWriter writer;
  const std::vector<uint8_t> bytes = {0, 255};
  const std::vector<uint16_t> small = {7}, large = {256, 3};
  writer.tokens(std::span(bytes));
  writer.label(0);
  writer.tokens(std::span(small));
  writer.label(1);
  const fs::path narrow = scratch_.path() / "narrow", wide = scratch_.path() / "wide";
  writer.write(narrow, 256);
  writer.write(wide, 257);
  EXPECT_EQ(read_tensors(narrow).at("tokens").scalar_type(), torch::kUInt8);
  EXPECT_EQ(read_tensors(wide).at("tokens").scalar_type(), torch::kUInt16);
  writer.tokens(std::span(large));
  writer.label(0);
  writer.tokens(std::span(bytes));
  writer.label(0);
  writer.write(wide, 257);
  const Split split(wide, 1, 2, 257);
  std::vector<int64_t> ids(7);
  int64_t count = 0;
  for (int64_t i = 0; i < split.size(); ++i)
    count += split.copy(i, 0, 7 - count, &ids[static_cast<size_t>(count)]);
  EXPECT_EQ(ids, (std::vector<int64_t>{0, 255, 7, 256, 3, 0, 255}));
}

// Else a copy in another split is none where one of the two has an id beyond a byte.
TEST(SplitWriterTest, EqualSamplesHaveOneHashInEitherWidth) {
  SplitWriter narrow, wide;
  for (SplitWriter* writer : {&narrow, &wide}) {
    writer->tokens(std::vector<uint16_t>{1, 2, 3});
    writer->label(0);
  }
  wide.tokens(std::vector<uint16_t>{256});
  wide.label(0);
  EXPECT_EQ(narrow.hashes()[0], wide.hashes()[0]);
  EXPECT_NE(wide.hashes()[0], wide.hashes()[1]);
}

TEST_F(Prepared, TheFingerprintIsOfTheHashesInOrder) {
  const Manifest m = Manifest::read(manifest_path_);
  EXPECT_EQ(m.fingerprint(), sha256(m.splits.at("train").sha256 + m.splits.at("dev").sha256 +
                                    m.splits.at("test").sha256));
  EXPECT_EQ(m.splits.at("dev").sha256, sha256_file(dev_));
}

// A manifest from before those keys: it is read, written as it was, and taken for the same data.
TEST_F(Prepared, WhatExplainsTheSplitsIsNoPartOfTheFingerprint) {
  const json before = read_json(manifest_path_);
  EXPECT_FALSE(before.contains("members") || before.contains("split") || before.contains("notes"));
  EXPECT_EQ(before.at("fingerprint"),
            "22783ecae26693c3a5c7c01c567efd09285388d042eba7337d57f1a95beedf6d");
  EXPECT_EQ(Manifest::read(manifest_path_).to_json(), before);
  Manifest explained = manifest();
  explained.members["a.tsv"] = "inner/a.tsv";
  explained.split = "permutation 42";
  explained.notes = {"WARNING: inner/a.tsv was read"};
  write_prepared(dir_, explained, writers());
  EXPECT_EQ(read_json(manifest_path_), before);
  const fs::path other = scratch_.path() / "other";
  write_prepared(other, explained, writers());
  const json after = read_json(other / "toy" / "manifest.json");
  EXPECT_EQ(after.at("fingerprint"), before.at("fingerprint"));
  EXPECT_EQ(after.at("members").at("a.tsv"), "inner/a.tsv");
  EXPECT_EQ(Manifest::read(other / "toy" / "manifest.json").to_json(), after);
}

TEST_F(Prepared, PreparingTheSameAgainChangesNothing) {
  const fs::file_time_type before = fs::last_write_time(manifest_path_);
  EXPECT_TRUE(already_prepared(dir_, manifest()));
  write_prepared(dir_, manifest(), writers());
  EXPECT_EQ(fs::last_write_time(manifest_path_), before);
}

TEST_F(Prepared, TheSameDataUnderAnotherLabelAreTheSame) {
  const fs::file_time_type before = fs::last_write_time(manifest_path_);
  Manifest moved = manifest();
  moved.source = "moved/archive.tar.gz";
  write_prepared(dir_, moved, writers());
  EXPECT_EQ(fs::last_write_time(manifest_path_), before);
  EXPECT_EQ(Manifest::read(manifest_path_).source, "generated");
  const std::string message = error_text([&] { write_prepared(dir_, moved, writers(2)); });
  EXPECT_NE(message.find("already holds other data: its fingerprint is "), std::string::npos)
      << message;
}

TEST_F(Prepared, OtherDataInTheWayIsNamed) {
  const std::string hint = "; choose another --out or remove that folder";
  Manifest other = manifest();
  other.options["seed"] = 1;
  const std::string folder = (dir_ / "toy").string();
  EXPECT_EQ(error_text([&] { write_prepared(dir_, other, writers()); }),
            folder + " already holds other data: options.seed is 0 there and 1 here" + hint);
  other = manifest();
  other.options["count"] = 4;
  EXPECT_EQ(error_text([&] { write_prepared(dir_, other, writers()); }),
            folder + " already holds other data: options.count is not set there and 4 here" + hint);
  const std::string message = error_text([&] { write_prepared(dir_, manifest(), writers(2)); });
  EXPECT_EQ(message.rfind(folder + " already holds other data: its fingerprint is ", 0), 0u)
      << message;
  fs::remove(manifest_path_);
  EXPECT_EQ(error_text([&] { already_prepared(dir_, manifest()); }),
            folder + " exists and holds no prepared data" + hint);
}

TEST_F(Prepared, MissingDataSaysHowToMakeIt) {
  EXPECT_EQ(error_text([&] { PreparedData(dir_, "listops", /*check_hashes=*/false); }),
            "no prepared data in " + (dir_ / "listops").string() +
                "; make it with: lra data prepare listops --out " + dir_.string());
}

TEST_F(Prepared, TheFolderOfATaskIsNotTheOneItLiesIn) {
  const fs::path itself = dir_ / "toy";
  for (const fs::path& given : {itself, itself / ""}) {
    EXPECT_EQ(error_text([&] { PreparedData(given, "toy", /*check_hashes=*/false); }),
              given.string() +
                  " is the folder of toy itself; give the one that it lies in: --data " +
                  dir_.string());
  }
  EXPECT_EQ(folder_above(dir_, "toy"), "");
  EXPECT_EQ(folder_above(itself, "text"), "");
}

TEST_F(Prepared, AWrongHashNamesTheFile) {
  std::string bytes = read_file(dev_);
  bytes.back() ^= 1;
  write_file(dev_, bytes);
  const std::string message = open_error();
  EXPECT_EQ(message.rfind(dev_.string() + " has SHA-256 ", 0), 0u) << message;
  EXPECT_NE(message.find("it was changed or damaged; remove"), std::string::npos);
}

TEST_F(Prepared, EveryTruncationOfASplitIsAnError) {
  const std::string whole = read_file(dev_);
  for (size_t size = 0; size < whole.size(); size += 3) {
    std::ofstream(dev_, std::ios::binary) << whole.substr(0, size);
    EXPECT_EQ(open_error(/*check_hashes=*/false).rfind(dev_.string(), 0), 0u) << size;
  }
}

TEST_F(Prepared, BadSplitsAreRefusedByName) {
  const auto i64 = torch::kInt64;
  const torch::Tensor tokens = torch::ones({4}, torch::kUInt8),
                      offsets = torch::tensor({0, 4}, i64), labels = torch::tensor({2}, i64);
  const std::string file = dev_.string();
  EXPECT_EQ(split_error(tokens, offsets, labels), "(no error)");
  EXPECT_EQ(split_error(tokens * 16, offsets, labels),
            file + ": token ids should be below 16, but there is 16");
  EXPECT_EQ(split_error(tokens, offsets, labels + 1),
            file + ": label of sample 0 should be from 0 to 2, not 3");
  EXPECT_EQ(split_error(tokens, offsets, labels - 3),
            file + ": label of sample 0 should be from 0 to 2, not -1");
  EXPECT_EQ(split_error(tokens, offsets + 1, labels), file + ": offsets should ascend from 0 to 4");
  EXPECT_EQ(split_error(tokens, torch::tensor({0, 3}, i64), labels),
            file + ": offsets should ascend from 0 to 4");
  EXPECT_EQ(split_error(tokens, torch::tensor({0, 5, 4}, i64), torch::tensor({1, 1}, i64)),
            file + ": offsets should ascend from 0 to 4");
  EXPECT_EQ(split_error(tokens, torch::tensor({0, 2, 4}, i64), labels),
            file + ": 1 labels of 1 inputs need 2 offsets, not 3");
  EXPECT_EQ(split_error(tokens.to(i64), offsets, labels),
            file + ": 'tokens' should be a list of Byte, not Long of 1 dimensions");
  EXPECT_EQ(split_error(tokens, offsets.view({2, 1}), labels),
            file + ": 'offsets' should be a list of Long, not Long of 2 dimensions");
  write_tensors(dev_, {{{"tokens", tokens}}, {}});
  EXPECT_EQ(error_text([&] { Split(dev_, 1, 3, 65536); }),
            file + " has no tensor 'offsets': no split file");
}

TEST_F(Prepared, AnUnknownManifestKeyGivesTheNearest) {
  json value = read_json(manifest_path_);
  value["vocabluary"] = 16;
  write_json(manifest_path_, value);
  const std::string expected =
      "unknown key 'vocabluary' in " + manifest_path_.string() + "; did you mean 'vocabulary'?";
  EXPECT_EQ(open_error().rfind(expected, 0), 0u) << open_error();
}

TEST_F(Prepared, BadManifestValuesAreRefused) {
  const json good = read_json(manifest_path_);
  const std::string file = manifest_path_.string();
  const std::pair<std::function<void(json&)>, std::string> cases[] = {
      {[](json& m) { m.erase("classes"); }, " has no \"classes\""},
      {[](json& m) { m["options"]["train"] = "many"; },
       ": options.train should be an integer, not \"many\""},
      {[](json& m) { m["notes"] = {1}; }, ": notes should be an array of strings, not [1]"},
      {[](json& m) {
         m["members"] = {{"a", 1}};
       },
       ": members: a should be a string, not 1"},
      {[](json& m) { m["split"] = 1; }, ": split should be a string, not 1"},
      {[](json& m) { m["classes"] = -1; }, ": classes should be an integer of at least 0, not -1"},
      {[](json& m) { m["inputs"] = 0; }, ": inputs should be from 1 to 16, not 0"},
      {[](json& m) { m["synthetic"] = "no"; }, ": synthetic should be true or false, not \"no\""},
      {[](json& m) { m["schema"] = "lra.data/2"; },
       ": schema should be \"lra.data/1\", not \"lra.data/2\""},
      {[](json& m) { m["task"] = "text"; }, " is of task 'text', not 'toy'"},
      {[](json& m) { m["splits"].erase("dev"); }, ": splits has no \"dev\""},
      {[](json& m) { m["splits"]["dev"]["file"] = "../../etc/passwd"; },
       ": splits.dev.file should be \"dev.safetensors\", not \"../../etc/passwd\""},
  };
  for (const auto& [change, expected] : cases) {
    write_json(manifest_path_, good);
    EXPECT_EQ(manifest_error(change), file + expected);
  }
  write_json(manifest_path_, good);
  EXPECT_NE(manifest_error([](json& m) {
              m["splits"]["dev"]["sha256"] = "00";
            }).find(": fingerprint should be "),
            std::string::npos);
  write_json(manifest_path_, good);
  write_file(manifest_path_, read_file(manifest_path_).substr(0, 50));
  EXPECT_NE(open_error().find("manifest.json is not valid JSON: parse error at line"),
            std::string::npos)
      << open_error();
}

TEST_F(Prepared, AManifestThatIsNoUtf8IsRefusedInUtf8) {
  write_file(manifest_path_, "{\"task\": \"caf\xe9\"}");
  const std::string message = open_error(), file = manifest_path_.string();
  EXPECT_EQ(message.rfind(file + " is not valid JSON: parse error at line 1, column 15: ", 0), 0u)
      << message;
  EXPECT_NE(message.find("invalid string: ill-formed UTF-8 byte"), std::string::npos) << message;
  EXPECT_TRUE(message.ends_with("last read: '\"caf\\xe9\"'")) << message;
}

TEST_F(Prepared, LongAndUnprintableValuesAreCutInMessages) {
  const std::string file = manifest_path_.string();
  EXPECT_EQ(manifest_error([](json& m) { m["task"] = json::array({std::string(1000, 'x')}); }),
            file + ": task should be a string, not [\"" + std::string(198, 'x') + "...");
  EXPECT_EQ(manifest_error([](json& m) { m["task"] = "a\n\x7f"; }),
            file + " is of task 'a\\n\\x7f', not 'toy'");
  write_file(manifest_path_, "{\"\\u001b[2J\": 1}");
  EXPECT_EQ(open_error().rfind("unknown key '\\x1b[2J' in " + file, 0), 0u) << open_error();
}

TEST_F(Prepared, TheManifestsCountMustBeTheFiles) {
  json value = read_json(manifest_path_);
  value["splits"]["dev"]["count"] = 2;
  write_json(manifest_path_, value);
  EXPECT_EQ(open_error(), dev_.string() + " holds 1 samples, but its manifest says 2");
}

// Whenever it is killed, a preparation leaves nothing that looks finished, and the next one cleans
// up and succeeds.
TEST(PreparedKilled, LeavesNothingThatLooksFinished) {
  Scratch scratch;
  const fs::path dir = scratch.path() / "data";
  int killed = 0;
  for (int delay = 0; delay < 30; ++delay) {
    const pid_t child = fork();
    if (child == 0) {
      write_prepared(dir, manifest(), writers(1, 2'000'000));
      _exit(0);
    }
    usleep(static_cast<useconds_t>(delay) * 2000);
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status)) ++killed;
    if (fs::exists(dir / "toy")) {
      EXPECT_EQ(error_text([&] { PreparedData(dir, "toy", /*check_hashes=*/true); }), "(no error)");
      remove_tree(dir / "toy");
    }
  }
  EXPECT_GT(killed, 3);
  write_prepared(dir, manifest(), writers());
  EXPECT_EQ(std::distance(fs::directory_iterator(dir), {}), 1);  // toy alone: no leftovers
}

TEST(PreparedFullDisk, LeavesNothing) {
  const SmallDisk disk(256);
  if (!disk.mounted()) GTEST_SKIP() << "mounting a small tmpfs is not allowed here";
  const std::string message =
      error_text([&] { write_prepared(disk.path(), manifest(), writers(1, 200'000)); });
  EXPECT_TRUE(message.ends_with(kFullDisk)) << message;
  EXPECT_EQ(disk.entries(), 0);
}

}  // namespace
}  // namespace lra
