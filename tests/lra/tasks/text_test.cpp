// The reviews of IMDB: bytes, order, splits, bad sources; the statistics of the real data.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <set>

#include "lra/data/byte_tokens.h"
#include "lra/tasks/text/imdb.h"
#include "tests/lra/tasks/source_fixture.h"
#include "tests/support/archives.h"
#include "tests/support/scratch.h"
#include "tests/support/small_disk.h"
#include "tests/support/test_data.h"

namespace lra::text {
namespace {

namespace fs = std::filesystem;

// `count` reviews of each label and half; ids count up from 8, so that their order as text differs.
std::vector<ArchiveEntry> small_imdb(int64_t count) {
  std::vector<ArchiveEntry> entries = {{.name = "aclImdb/README", .content = "x"},
                                       {.name = "aclImdb/train/unsup/1_0.txt", .content = "x"},
                                       {.name = "aclImdb/train/urls_pos.txt", .content = "x"}};
  for (const std::string half : {"train", "test"}) {
    for (const std::string label : {"neg", "pos"}) {
      for (int64_t id = 8; id < 8 + count; ++id) {
        entries.push_back({.name = "aclImdb/" + half + "/" + label + "/" + std::to_string(id) +
                                   (label == "neg" ? "_2.txt" : "_9.txt"),
                           .content = "  A " + label + " film<br />of " + half + " " +
                                      std::to_string(id) + ".\n"});
      }
    }
  }
  return entries;
}

std::vector<uint16_t> sample(const Split& split, int64_t index, int64_t input = 0) {
  std::vector<int64_t> ids(static_cast<size_t>(split.length(index, input)));
  split.copy(index, input, split.length(index, input), ids.data());
  return {ids.begin(), ids.end()};
}

class Text : public SourceTest {
 protected:
  Text() : SourceTest("text", "aclImdb.tar.gz") {}
  void write(const std::vector<ArchiveEntry>& entries) { write_archive(archive_, entries); }
  std::string error_of(const PrepareOptions& options = {}) {
    return error_text([&] { prepare(options); });
  }
  // All texts of a split.
  static std::set<std::string> texts(const Split& split) {
    std::set<std::string> all;
    for (int64_t i = 0; i < split.size(); ++i) all.insert(render_bytes(sample(split, i)));
    return all;
  }

  std::string where_ = archive_.string();
};

TEST_F(Text, IdsAreBytesPlusOneWithoutWhiteSpaceAtTheEnds) {
  std::vector<ArchiveEntry> entries = small_imdb(2);
  for (ArchiveEntry& entry : entries) {
    if (entry.name == "aclImdb/test/neg/8_2.txt")
      entry.content = "\t \v\fA\xff\xc3\xa9<br />\x01 z\r\n";
  }
  write(entries);
  const PreparedData data = prepare();
  EXPECT_EQ(sample(data.split("test"), 0),
            (std::vector<uint16_t>{'A' + 1, 256, 0xc3 + 1, 0xa9 + 1, '<' + 1, 'b' + 1, 'r' + 1,
                                   ' ' + 1, '/' + 1, '>' + 1, 2, ' ' + 1, 'z' + 1}));
  EXPECT_EQ(data.manifest().vocabulary, 257);
  EXPECT_EQ(data.manifest().source, "IMDB reviews, from aclImdb.tar.gz");
  EXPECT_FALSE(data.manifest().synthetic);
}

TEST_F(Text, TestIsTheOfficialOneByLabelAndNumber) {
  write(small_imdb(4));
  const PreparedData data = prepare();
  const Split& test = data.split("test");
  ASSERT_EQ(test.size(), 8);
  for (int64_t i = 0; i < 8; ++i) {
    EXPECT_EQ(test.label(i), i / 4);
    std::string expected = i < 4 ? "A neg" : "A pos";
    expected += " film<br />of test ";
    expected += std::to_string(8 + i % 4);
    EXPECT_EQ(render_bytes(sample(test, i)), expected + ".");
  }
}

TEST_F(Text, DevIsATenthOfTrainWithTheLabelsShares) {
  write(small_imdb(30));
  const PreparedData data = prepare();
  const Split &train = data.split("train"), &dev = data.split("dev");
  EXPECT_EQ(train.size(), 54);
  EXPECT_EQ(dev.size(), 6);
  EXPECT_EQ(data.split("test").size(), 60);
  int64_t positive = 0;
  for (int64_t i = 0; i < dev.size(); ++i) positive += dev.label(i);
  EXPECT_EQ(positive, 3);
  std::set<std::string> all = texts(train);
  all.merge(texts(dev));
  EXPECT_EQ(all.size(), 60u);  // nothing twice
  for (const std::string& text : all) EXPECT_NE(text.find("of train "), std::string::npos);
}

TEST_F(Text, TheSeedDecidesDevAndNothingElse) {
  write(small_imdb(30));
  const PreparedData first = prepare(), again = prepare(), other = prepare({.seed = 1});
  EXPECT_EQ(first.manifest().fingerprint(), again.manifest().fingerprint());
  EXPECT_NE(texts(first.split("dev")), texts(other.split("dev")));
  EXPECT_EQ(first.manifest().splits.at("test").sha256, other.manifest().splits.at("test").sha256);
}

TEST_F(Text, CountsAreDrawnWithTheLabelsShares) {
  write(small_imdb(30));
  const PreparedData data = prepare({.train = 20, .dev = 11, .test = 8});
  const std::pair<const char*, int64_t> expected[] = {{"train", 10}, {"dev", 6}, {"test", 4}};
  for (const auto& [name, negative] : expected) {
    int64_t found = 0;
    const Split& split = data.split(name);
    for (int64_t i = 0; i < split.size(); ++i) found += split.label(i) == 0 ? 1 : 0;
    EXPECT_EQ(found, negative) << name;
  }
  EXPECT_EQ(data.split("train").size(), 20);
  EXPECT_EQ(data.split("dev").size(), 11);
  EXPECT_EQ(error_of({.train = 60}),
            where_ +
                " holds 60 reviews for train and dev and 60 for test; --train 60 --dev 6 --test 60 "
                "cannot be made of them");
}

TEST_F(Text, FolderAndArchiveGiveTheSame) {
  write(small_imdb(5));
  const std::string from_archive = prepare().manifest().fingerprint();
  const fs::path root = scratch_.path() / "folder";
  for (const ArchiveEntry& entry : small_imdb(5)) {
    fs::create_directories((root / entry.name).parent_path());
    write_file(root / entry.name, entry.content);
  }
  for (const fs::path& folder : {root, root / "aclImdb" / ""}) {
    const fs::path out = scratch_.path() / "from-folder" / folder.parent_path().filename();
    task("text").prepare({.out = out, .source = folder});
    EXPECT_EQ(open_data(out, "text", /*check_hashes=*/true).manifest().fingerprint(), from_archive);
  }
}

TEST_F(Text, EmptyFilesAreLeftOutAndCounted) {
  std::vector<ArchiveEntry> entries = small_imdb(3);
  entries.push_back({.name = "aclImdb/train/pos/70_9.txt", .content = ""});
  entries.push_back({.name = "aclImdb/test/neg/70_1.txt", .content = " \n"});
  write(entries);
  const PreparedData data = prepare();
  EXPECT_EQ(data.split("test").size(), 6);
  EXPECT_EQ(data.manifest().options.at("empty_files_skipped"), 2);
}

TEST_F(Text, BadSourcesAreNamed) {
  const auto with = [&](const ArchiveEntry& entry) {
    std::vector<ArchiveEntry> entries = small_imdb(3);
    entries.push_back(entry);
    write(entries);
    return error_of();
  };
  EXPECT_EQ(with({.name = "aclImdb/train/pos/8_7.txt", .content = "again"}),
            where_ +
                ": two reviews have the id 8 in train/pos: aclImdb/train/pos/8_9.txt and "
                "aclImdb/train/pos/8_7.txt; remove one");
  for (const char* name : {"x.txt", "8.txt", "8_.txt", "_8.txt", "-8_9.txt", "8_9x.txt"}) {
    const std::string path = std::string("aclImdb/train/pos/") + name;
    EXPECT_EQ(with({.name = path, .content = "x"}),
              where_ + ": " + path + ": the name should be <id>_<rating>.txt, as 12_9.txt");
  }
  EXPECT_EQ(
      with({.name = "aclImdb/train/pos/99_9.txt", .content = std::string((1 << 20) + 1, 'x')}),
      where_ + ": aclImdb/train/pos/99_9.txt should have at most 1048576 bytes, it has more");
  write({{.name = "aclImdb/train/pos/1_9.txt", .content = "x"}});
  EXPECT_EQ(error_of(), where_ +
                            " holds no reviews train/neg/<id>_<rating>.txt; the data is "
                            "aclImdb_v1.tar.gz of https://ai.stanford.edu/~amaas/data/sentiment/");
  EXPECT_FALSE(fs::exists(scratch_.path() / ("out" + std::to_string(runs_))));
}

// By the program that knew of no copies: where there are none, nothing changes.
TEST_F(Text, WithoutCopiesTheFingerprintIsAsItWas) {
  write(small_imdb(30));
  EXPECT_EQ(prepare().manifest().fingerprint(),
            "a0472cc4cdc89e1d89016c2e7130b021fa285810d0fb5e973b6d2e947a9be21f");
}

// The i-th entry of a label and half gets the text of another.
void copy_text(std::vector<ArchiveEntry>& entries, const std::string& from, const std::string& to) {
  const auto at = std::ranges::find(entries, "aclImdb/" + from, &ArchiveEntry::name);
  const auto copy = std::ranges::find(entries, "aclImdb/" + to, &ArchiveEntry::name);
  ASSERT_TRUE(at != entries.end() && copy != entries.end());
  copy->content = "\n" + at->content;  // but for white space at the ends
}

// Half of the training half are copies, one of them with the other label.
TEST_F(Text, DevHoldsNoCopyOfATrainReview) {
  std::vector<ArchiveEntry> entries = small_imdb(30);
  for (int id = 8; id < 24; id += 2) {
    for (const std::string label : {"neg", "pos"}) {
      const std::string end = label == "neg" ? "_2.txt" : "_9.txt", begin = "train/" + label + "/";
      copy_text(entries, begin + std::to_string(id) + end, begin + std::to_string(id + 1) + end);
    }
  }
  copy_text(entries, "train/neg/30_2.txt", "train/pos/30_9.txt");
  write(entries);
  for (uint64_t seed = 0; seed < 5; ++seed) {
    const PreparedData data = prepare({.seed = seed});
    EXPECT_EQ(data.split("train").size(), 54);
    EXPECT_EQ(data.split("dev").size(), 6);
    const std::set<std::string> train = texts(data.split("train")), dev = texts(data.split("dev"));
    EXPECT_EQ(train.size() + dev.size(), 43u);  // 16 + 1 repeats
    for (const std::string& text : dev) EXPECT_FALSE(train.contains(text)) << seed << " " << text;
    int64_t positive = 0;
    for (int64_t i = 0; i < 6; ++i) positive += data.split("dev").label(i);
    EXPECT_EQ(positive, 3);
  }
  EXPECT_EQ(error_of({.dev = 40}), where_ +
                                       " holds too few reviews that stand once for --dev 40: "
                                       "copies of a review stay in train");
}

TEST_F(Text, ReviewsThatStandInTrainAndTestAreCounted) {
  std::vector<ArchiveEntry> entries = small_imdb(30);
  copy_text(entries, "train/neg/8_2.txt", "test/neg/20_2.txt");
  copy_text(entries, "train/neg/8_2.txt", "test/pos/9_9.txt");
  copy_text(entries, "train/neg/8_2.txt", "train/neg/9_2.txt");
  copy_text(entries, "test/pos/11_9.txt", "test/pos/12_9.txt");
  write(entries);
  const Manifest manifest = prepare().manifest();
  EXPECT_EQ(manifest.generator, "imdb/2");
  EXPECT_EQ(manifest.split, "dev of train, copies on one side");
  EXPECT_EQ(manifest.options.at("test_reviews_in_train"), 2);
  ASSERT_EQ(manifest.notes.size(), 2u);
  EXPECT_EQ(manifest.notes[0],
            "test reviews that stand word for word in train or dev: 2; repeats within train and "
            "dev: 1, within test: 2");
  EXPECT_EQ(manifest.notes[1],
            "WARNING: the source has 60 reviews for train and dev and 60 for test; the public data "
            "have 25000 and 25000");
}

TEST_F(Text, RatingsThatContradictTheirFolderAreCounted) {
  auto entries = small_imdb(30);
  entries.push_back({.name = "aclImdb/train/neg/90_9.txt", .content = "praise"});
  entries.push_back({.name = "aclImdb/test/pos/90_1.txt", .content = "blame"});
  write(entries);
  EXPECT_EQ(prepare().manifest().notes.back(),
            "WARNING: reviews whose rating contradicts their folder: 2 (pos has 7 to 10, neg 1 to "
            "4)");
}

TEST_F(Text, WrongUsageIsSaid) {
  write(small_imdb(3));
  EXPECT_EQ(error_of({.synthetic = true}), "the task text has no --synthetic");
  EXPECT_EQ(error_of({.settings = {{"foo", 3}}}),
            "the task text has no settings of its own for --set; it has no options of its own");
  EXPECT_EQ(error_of({.difficulty = "hard"}), "the task text has no --difficulty");
  EXPECT_EQ(error_of({.min_length = 3}), "the task text has no --min-length and --max-length");
  EXPECT_NE(error_text([&] {
              task("text").prepare({.out = scratch_.path() / "o"});
            }).find("aclImdb_v1.tar.gz"),
            std::string::npos);
}

TEST_F(Text, StoppedItLeavesNothing) {
  write(small_imdb(3));
  const std::atomic<bool> stop{true};
  EXPECT_EQ(error_of({.stop = &stop}), "stopped while reading " + where_ + "; nothing was written");
  EXPECT_EQ(std::distance(fs::directory_iterator(scratch_.path()), {}), 1);  // the archive
}

TEST_F(Text, AFullDiskLeavesNothing) {
  write(small_imdb(2000));
  const SmallDisk disk(128);
  if (!disk.mounted()) GTEST_SKIP() << "mounting a small tmpfs is not allowed here";
  const std::string message =
      error_text([&] { task("text").prepare({.out = disk.path(), .source = archive_}); });
  EXPECT_TRUE(message.ends_with(kFullDisk)) << message;
  EXPECT_EQ(disk.entries(), 0);
}

TEST(Bytes, RenderingKeepsUtf8AndEscapesTheRest) {
  const auto shown = [](std::string_view text) { return render_bytes(byte_ids(text)); };
  EXPECT_EQ(shown("caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"),
            "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
  EXPECT_EQ(shown(std::string_view("a\n\t\r\0\x1b[31m\x7f", 11)), "a\\n\\t\\r\\x00\\x1b[31m\\x7f");
  EXPECT_EQ(shown("\xc3(\xff\xe2\x82"), "\\xc3(\\xff\\xe2\\x82");
  EXPECT_EQ(shown("\xc0\xaf \xed\xa0\x80 \xc2\x9b"),  // too long, a surrogate, a control
            "\\xc0\\xaf \\xed\\xa0\\x80 \\xc2\\x9b");
  EXPECT_EQ(byte_ids("abc", 2), (std::vector<uint16_t>{'a' + 1, 'b' + 1}));
}

// numpy.percentile's linear interpolation.
double percentile(std::vector<int64_t> values, double share) {
  std::ranges::sort(values);
  const double at = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(at);
  const double low = static_cast<double>(values[below]),
               high = static_cast<double>(values[std::min(below + 1, values.size() - 1)]);
  return low + (high - low) * (at - static_cast<double>(below));
}

void expect_statistics(const std::vector<Review>& reviews, const json& expected) {
  std::vector<int64_t> lengths;
  std::array<bool, 256> seen{};
  int64_t total = 0, non_ascii = 0, with_br = 0, positive = 0;
  for (const Review& review : reviews) {
    lengths.push_back(static_cast<int64_t>(review.text.size()));
    total += lengths.back();
    for (const char c : review.text) seen[static_cast<unsigned char>(c)] = true;
    non_ascii += std::ranges::any_of(review.text, [](char c) { return (c & 0x80) != 0; }) ? 1 : 0;
    with_br += review.text.find("<br") != std::string::npos ? 1 : 0;
    positive += review.label;
  }
  const auto count = static_cast<double>(reviews.size());
  const auto longer = [&](int64_t length) {
    return static_cast<double>(
               std::ranges::count_if(lengths, [&](int64_t n) { return n > length; })) /
           count;
  };
  const json& of_lengths = expected.at("byte_len");
  EXPECT_EQ(reviews.size(), expected.at("n"));
  EXPECT_EQ(positive, 12'500);
  EXPECT_NEAR(static_cast<double>(total) / count, of_lengths.at("mean"), 1e-9);
  EXPECT_EQ(percentile(lengths, 0.5), of_lengths.at("median"));
  EXPECT_EQ(std::ranges::min(lengths), of_lengths.at("min"));
  EXPECT_EQ(std::ranges::max(lengths), of_lengths.at("max"));
  EXPECT_NEAR(percentile(lengths, 0.9), of_lengths.at("p90"), 1e-6);
  EXPECT_NEAR(percentile(lengths, 0.99), of_lengths.at("p99"), 1e-6);
  for (const int64_t length : {1000, 2048, 4000, 4095}) {
    EXPECT_NEAR(longer(length), of_lengths.at("frac_gt_" + std::to_string(length)), 1e-12);
  }
  EXPECT_EQ(std::ranges::count(seen, true), expected.at("distinct_bytes"));
  EXPECT_EQ(non_ascii, expected.at("files_with_non_ascii"));
  EXPECT_EQ(with_br, expected.at("files_with_br"));
}

TEST(TextRealData, HasTheStatisticsOfTheReference) {
  const fs::path archive = test_data("aclImdb.tar.xz");
  if (archive.empty()) GTEST_SKIP() << no_test_data("aclImdb.tar.xz");
  const auto begin = std::chrono::steady_clock::now();
  const Reviews reviews = read({.source = archive});
  const Splits splits = split(reviews, {.source = archive});
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
  const json expected = read_json(LRA_SOURCE_DIR "/tests/reference/imdb_stats.json");
  expect_statistics(reviews.train, expected.at("train"));
  expect_statistics(reviews.test, expected.at("test"));
  EXPECT_EQ(reviews.empty, 0);
  EXPECT_EQ(splits.train.size(), 22'500u);
  EXPECT_EQ(splits.dev.size(), 2'500u);
  EXPECT_EQ(splits.test.size(), 25'000u);
  const Repeats copies = repeats(reviews, splits);
  EXPECT_EQ(copies.test_in_train, 123);
  EXPECT_EQ(copies.within_train, 96);
  EXPECT_EQ(copies.within_test, 199);
}

}  // namespace
}  // namespace lra::text
