// AAN's pairs in LRA's form, with and without texts; the stand-in; bad sources.
#include <gtest/gtest.h>

#include <set>

#include "attention_variants/base/text.h"
#include "lra/tasks/retrieval/retrieval.h"
#include "tests/lra/tasks/source_fixture.h"
#include "tests/support/archives.h"
#include "tests/support/scratch.h"
#include "tests/support/small_disk.h"

namespace lra::retrieval {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTrain = "lra_release/lra_release/tsv_data/new_aan_pairs.train.tsv";
constexpr const char* kRow = "1.0\tP00-1001\tW01-0102\tb'one \\xe2'\tb\"it's\"\n";

std::string text_of(const Split& split, int64_t index, int64_t input) {
  std::vector<int64_t> ids(static_cast<size_t>(split.length(index, input)));
  split.copy(index, input, split.length(index, input), ids.data());
  std::string text;
  for (const int64_t id : ids) text += static_cast<char>(id - 1);
  return text;
}

class Retrieval : public SourceTest {
 protected:
  Retrieval() : SourceTest("retrieval", "lra_release.tar.gz") {}
  // LRA's release with this train file.
  static std::vector<ArchiveEntry> release(const std::string& train) {
    const std::string folder = "lra_release/lra_release/";
    return {{.name = folder + "listops-1000/basic_train.tsv", .content = "Source\tTarget\n"},
            {.name = folder + "tsv_data/new_aan_pairs.eval.tsv", .content = kRow},
            {.name = folder + "tsv_data/new_aan_pairs.test.tsv", .content = kRow},
            {.name = kTrain, .content = train}};
  }
  // The message that a train file of this text gives.
  std::string error_of(const std::string& train, const PrepareOptions& options = {}) {
    write_archive(archive_, release(train));
    return error_text([&] { prepare(options); });
  }

  std::string where_ = archive_.string() + ": " + kTrain;
};

TEST_F(Retrieval, TextsAreTakenAsTheyStand) {
  const std::string quotes = "0\ta\tb\tb'\"'\tb\"''\"\n";
  write_archive(archive_, release(kRow + quotes));
  const PreparedData data = prepare();
  const Split& train = data.split("train");
  ASSERT_EQ(train.size(), 2);
  EXPECT_EQ(train.inputs(), 2);
  EXPECT_EQ(train.label(0), 1);
  EXPECT_EQ(train.label(1), 0);
  EXPECT_EQ(text_of(train, 0, 0), "b'one \\xe2'");
  EXPECT_EQ(text_of(train, 0, 1), "b\"it's\"");
  EXPECT_EQ(text_of(train, 1, 0), "b'\"'");
  EXPECT_EQ(text_of(train, 1, 1), "b\"''\"");
  EXPECT_EQ(data.split("dev").size(), 1);
  EXPECT_EQ(data.manifest().source, "AAN pairs (LRA's TSV), from lra_release.tar.gz");
  EXPECT_FALSE(data.manifest().synthetic);
  EXPECT_EQ(data.manifest().vocabulary, 257);
  EXPECT_EQ(data.manifest().notes,
            (std::vector<std::string>{
                "WARNING: the source has 2 rows for train; the public data have 147086",
                "WARNING: the source has 1 rows for dev; the public data have 18090",
                "WARNING: the source has 1 rows for test; the public data have 17437",
                "WARNING: samples of dev that stand in train: 1, of test that stand in train or "
                "dev: 1"}));
}

TEST_F(Retrieval, TextsThatAreNoLiteralsAreCounted) {
  write_archive(archive_, release(kRow + std::string("0\ta\tb\tdecoded\tb'cut\n")));
  EXPECT_EQ(prepare().manifest().notes.front(),
            "WARNING: 2 of 4 texts of train do not stand as Python prints bytes (b'...'), as those "
            "of LRA's files do: they were decoded, or a row is cut short");
}

TEST_F(Retrieval, TextsEndAfterTenThousandBytes) {
  const std::string text = random_text(10'001);
  write_archive(archive_, release("0\ta\tb\t" + text + "\t" + text.substr(2) + "\n"));
  const PreparedData data = prepare();
  EXPECT_EQ(text_of(data.split("train"), 0, 0), text.substr(0, 10'000));
  EXPECT_EQ(text_of(data.split("train"), 0, 1), text.substr(2));
}

TEST_F(Retrieval, AFolderGivesTheSameAndCountsTakeTheFirstRows) {
  write_archive(archive_, release(std::string(kRow) + "0\ta\tb\tx\ty\r\n" + kRow));
  const std::string fingerprint = prepare({.train = 2}).manifest().fingerprint();
  const fs::path folder = scratch_.path() / "tsv_data";
  fs::create_directory(folder);
  write_file(folder / "new_aan_pairs.train.tsv", std::string(kRow) + "0\ta\tb\tx\ty");
  write_file(folder / "new_aan_pairs.eval.tsv", kRow);
  write_file(folder / "new_aan_pairs.test.tsv", kRow);
  archive_ = folder;
  EXPECT_EQ(prepare().manifest().fingerprint(), fingerprint);
  EXPECT_EQ(error_text([&] { prepare({.train = 3}); }),
            (folder / "new_aan_pairs.train.tsv").string() +
                " holds 2 rows, fewer than the --train 3 asked for");
}

TEST_F(Retrieval, BadRowsAreNamedByFileAndLine) {
  const std::string row = kRow;
  EXPECT_EQ(error_of(row + "1\ta\tb\tx\n"),
            where_ +
                ":2: expected 5 columns (label, id1, id2, text1, text2) or 3 (label, id1, id2) "
                "separated by tabs, not 4");
  EXPECT_EQ(error_of(row + "1\ta\tb\n"),
            where_ + ":2: expected 5 columns as in the rows above, not 3");
  EXPECT_EQ(error_of("1\ta\tb\n" + row),
            where_ + ":2: expected 3 columns as in the rows above, not 5");
  EXPECT_EQ(error_of(row + "\xff\ta\tb\tx\ty\n"),
            where_ + ":2: the label should be 0 or 1 (or 0.0, 1.0), not '\\xff'");
  for (const std::string label : {"2", "-1", "0.5", "nan", "", "1.0x", "label"}) {
    EXPECT_EQ(error_of(row + label + "\ta\tb\tx\ty\n"),
              where_ + ":2: the label should be 0 or 1 (or 0.0, 1.0), not '" + label + "'");
  }
  EXPECT_EQ(error_of(row + row + "1\ta\tb\tx\t\n"), where_ + ":3: a text is empty");
  EXPECT_EQ(error_of(""), where_ + " holds no rows for train");
  EXPECT_FALSE(fs::exists(scratch_.path() / ("out" + std::to_string(runs_))));
}

TEST_F(Retrieval, BytesThatAreNoUtf8AreTokensLikeAnyOthers) {
  write_archive(archive_, release("0\ta\tb\t\xff\xc3\t\x01\x80\n"));
  const PreparedData data = prepare();
  EXPECT_EQ(text_of(data.split("train"), 0, 0), "\xff\xc3");
  EXPECT_EQ(text_of(data.split("train"), 0, 1), "\x01\x80");
}

TEST_F(Retrieval, MissingAndDoubledFilesAreNamed) {
  std::vector<ArchiveEntry> entries = release(kRow);
  entries.push_back({.name = "copy/new_aan_pairs.test.tsv", .content = kRow});
  write_archive(archive_, entries);
  EXPECT_EQ(error_text([&] { prepare(); }),
            archive_.string() +
                " holds two files new_aan_pairs.test.tsv (lra_release/lra_release/tsv_data/"
                "new_aan_pairs.test.tsv and copy/new_aan_pairs.test.tsv); give the folder of one "
                "of them");
  entries.erase(entries.begin() + 1);
  entries.pop_back();
  write_archive(archive_, entries);
  EXPECT_EQ(error_text([&] { prepare(); }),
            archive_.string() +
                " holds no new_aan_pairs.eval.tsv: retrieval needs new_aan_pairs.train.tsv, "
                "new_aan_pairs.eval.tsv, new_aan_pairs.test.tsv");
}

TEST_F(Retrieval, ThreeColumnsTakeTheirTextsFromAFileOfTexts) {
  std::vector<ArchiveEntry> entries = {
      {.name = "new_aan_pairs.train.tsv", .content = "1\ta\tb\n0.0\tb\tb\n"},
      {.name = "new_aan_pairs.eval.tsv", .content = "0\tb\ta\n"},
      {.name = "new_aan_pairs.test.tsv", .content = kRow}};
  write_archive(archive_, entries);
  const std::string first = archive_.string() + ": new_aan_pairs.eval.tsv:1: ";
  EXPECT_EQ(error_text([&] { prepare(); }),
            first +
                "there are 3 columns, so the texts should be in a file aan_texts.tsv of the "
                "same source (id, tab, text; a document a line), and there is none");
  const auto with_texts = [&](const std::string& texts) {
    std::vector<ArchiveEntry> all = entries;
    all.push_back({.name = "aan_texts.tsv", .content = texts});
    write_archive(archive_, all);
  };
  with_texts("b\tbe\tta\na\talpha\nunused\tx\n");
  const PreparedData data = prepare();
  const Split& train = data.split("train");
  ASSERT_EQ(train.size(), 2);
  EXPECT_EQ(text_of(train, 0, 0), "alpha");
  EXPECT_EQ(text_of(train, 0, 1), "be\tta");
  EXPECT_EQ(text_of(train, 1, 0), "be\tta");
  EXPECT_EQ(train.label(0), 1);
  EXPECT_EQ(train.label(1), 0);
  EXPECT_EQ(text_of(data.split("test"), 0, 0), "b'one \\xe2'");

  with_texts("b\tx\n");
  EXPECT_EQ(error_text([&] { prepare(); }), first + "aan_texts.tsv has no text of 'a'");
  const std::string texts = archive_.string() + ": aan_texts.tsv";
  with_texts("a\tx\nb\ty\na\tz\n");
  EXPECT_EQ(error_text([&] { prepare(); }), texts + ":3: there is a text of 'a' above");
  with_texts("a\tx\nb\n");
  EXPECT_EQ(error_text([&] { prepare(); }),
            texts + ":2: expected an id and a text separated by a tab");
}

TEST_F(Retrieval, AFullDiskLeavesNothing) {
  std::string rows;
  for (int i = 0; i < 20; ++i) rows += "0\ta\tb\t" + random_text(5'000) + "\ty\n";
  write_archive(archive_, release(rows));
  const SmallDisk disk(64);
  if (!disk.mounted()) GTEST_SKIP() << "mounting a small tmpfs is not allowed here";
  const std::string text =
      error_text([&] { task("retrieval").prepare({.out = disk.path(), .source = archive_}); });
  EXPECT_TRUE(text.ends_with(kFullDisk)) << text;
  EXPECT_EQ(disk.entries(), 0);
}

TEST_F(Retrieval, ACutReleaseGivesNothing) {
  write_archive(archive_, release(std::string(kRow) + "0\ta\tb\t" + random_text(90'000) + "\ty\n"));
  const std::string whole = read_file(archive_);
  write_file(archive_, whole.substr(0, whole.size() / 2));
  EXPECT_EQ(error_text([&] { prepare(); }),
            archive_.string() + ", at " + kTrain +
                ": gzip: unexpected end of file; it is cut short or damaged, or no tar (plain, "
                "gzip, xz) or zip");
}

// Reviews whose words tell the review, half and label apart.
class StandIn : public Retrieval {
 protected:
  static constexpr int64_t kReviews = 40;  // of each label and half
  void SetUp() override {
    std::vector<ArchiveEntry> entries;
    for (const std::string half : {"train", "test"}) {
      for (const std::string label : {"neg", "pos"}) {
        for (int64_t id = 0; id < kReviews; ++id) {
          const std::string word = half + label + std::to_string(id);
          std::string text = word;
          for (int64_t i = 0; i < 4 + id; ++i) text += " " + word;
          entries.push_back(
              {.name = half + "/" + label + "/" + std::to_string(id) + "_5.txt", .content = text});
        }
      }
    }
    write_archive(archive_, entries);
  }
  // The word that a literal b'word word ...' repeats.
  static std::string word_of(const std::string& literal) {
    EXPECT_EQ(literal.substr(0, 2), "b'");
    EXPECT_EQ(literal.back(), '\'');
    return literal.substr(2, literal.find_first_of(" '", 2) - 2);
  }
};

TEST_F(StandIn, PairsHalvesOfTheSameReviewOrOfTwo) {
  const PreparedData data = prepare({.synthetic = true});
  EXPECT_TRUE(data.manifest().synthetic);
  EXPECT_EQ(data.manifest().source, "synthetic stand-in of IMDB reviews, from lra_release.tar.gz");
  std::set<std::string> seen;
  for (const std::string name : {"train", "dev", "test"}) {
    const Split& split = data.split(name);
    EXPECT_EQ(split.size(), name == "train" ? 72 : name == "dev" ? 8 : 80);
    int64_t same = 0;
    std::multiset<std::string> first, second;
    for (int64_t i = 0; i < split.size(); ++i) {
      const std::string a = word_of(text_of(split, i, 0)), b = word_of(text_of(split, i, 1));
      EXPECT_EQ(a == b, split.label(i) == 1) << a << " " << b;
      // Of one label and nearly one length, so that only the content tells.
      EXPECT_EQ(a.find("pos") == std::string::npos, b.find("pos") == std::string::npos);
      same += split.label(i);
      first.insert(a);
      second.insert(b);
    }
    EXPECT_EQ(2 * same, split.size());
    EXPECT_EQ(first, second);
    for (const std::string& word : first) {
      EXPECT_TRUE(seen.insert(word).second) << word << " twice";
      EXPECT_EQ(word.find("test") != std::string::npos, name == "test");
    }
  }
}

// IMDB has copies, whose halves make one review whichever they are taken from.
TEST_F(StandIn, TwoReviewsOfOneTextGiveNoPairOfLabelZero) {
  std::vector<ArchiveEntry> entries;
  for (const std::string half : {"train", "test"}) {
    for (const std::string label : {"neg", "pos"}) {
      for (int64_t id = 0; id < kReviews; ++id) {
        // The first 16 are 8 texts, each twice: of equal length they stand side by side.
        const int64_t number = id < 16 ? id / 2 : id;
        const std::string word = half + label + std::to_string(number);
        std::string text = word;
        for (int64_t i = 0; i < 4 + number; ++i) text += " " + word;
        entries.push_back(
            {.name = half + "/" + label + "/" + std::to_string(id) + "_5.txt", .content = text});
      }
    }
  }
  write_archive(archive_, entries);
  int64_t copies = 0;
  for (const uint64_t seed : {0, 1, 2}) {
    const PreparedData data = prepare({.seed = seed, .synthetic = true});
    for (const char* name : kSplits) {
      const Split& split = data.split(name);
      int64_t same = 0;
      for (int64_t i = 0; i < split.size(); ++i) {
        const std::string a = word_of(text_of(split, i, 0)), b = word_of(text_of(split, i, 1));
        EXPECT_EQ(a == b, split.label(i) == 1) << a << " " << b;
        same += split.label(i);
        copies += a.size() == std::string("testneg0").size() && a.back() < '8';
      }
      EXPECT_EQ(2 * same, split.size());
    }
  }
  EXPECT_GT(copies, 0);
}

TEST_F(StandIn, SizesThatNobodyGaveAreRounded) {
  std::vector<ArchiveEntry> entries;
  for (const std::string half : {"train", "test"}) {
    for (const std::string label : {"neg", "pos"}) {
      for (int64_t id = 0; id < 23; ++id)
        entries.push_back({.name = half + "/" + label + "/" + std::to_string(id) + "_5.txt",
                           .content = half + label + std::to_string(id) + " x"});
    }
  }
  write_archive(archive_, entries);
  const PreparedData data = prepare({.synthetic = true});
  EXPECT_EQ(data.split("train").size(), 40);
  EXPECT_EQ(data.split("dev").size(), 4);
  EXPECT_EQ(data.split("test").size(), 44);
}

TEST_F(StandIn, TheSeedDecidesIt) {
  const std::string first = prepare({.synthetic = true}).manifest().fingerprint();
  EXPECT_EQ(first, "8efb065577465a544a253cc9448200ea6c37bfc130fd6080f77eac26042f1fb4")
      << "data of a seed never change";
  EXPECT_EQ(prepare({.synthetic = true}).manifest().fingerprint(), first);
  EXPECT_NE(prepare({.seed = 1, .synthetic = true}).manifest().fingerprint(), first);
}

TEST_F(StandIn, SaysHowItsReviewsWereDivided) {
  const Manifest manifest = prepare({.synthetic = true}).manifest();
  EXPECT_EQ(manifest.generator, "retrieval-stand-in/3");
  EXPECT_EQ(manifest.split, "dev of train, copies on one side");
  ASSERT_EQ(manifest.notes.size(), 2u) << "the other: these are not all reviews";
  EXPECT_TRUE(manifest.notes[0].starts_with("test reviews that stand word for word in train"));
}

TEST_F(StandIn, CountsAreMultiplesOfFour) {
  const PreparedData data = prepare({.train = 8, .dev = 4, .test = 4, .synthetic = true});
  EXPECT_EQ(data.split("train").size(), 8);
  EXPECT_EQ(data.split("dev").size(), 4);
  EXPECT_EQ(data.split("test").size(), 4);
  for (const int64_t train : {6, 7}) {
    EXPECT_EQ(error_text([&] { prepare({.train = train, .synthetic = true}); }),
              "pairs are made of two reviews of one sentiment, and half of them have either label, "
              "so --train should be a multiple of 4, not " +
                  std::to_string(train));
  }
}

TEST_F(StandIn, ItIsMadeWhenAskedForAlone) {
  EXPECT_NE(error_text([&] { prepare(); }).find(" holds no new_aan_pairs.train.tsv"),
            std::string::npos);
  EXPECT_NE(error_text([&] {
              task("retrieval").prepare({.out = scratch_.path() / "o"});
            }).find("--synthetic"),
            std::string::npos);
}

}  // namespace
}  // namespace lra::retrieval
