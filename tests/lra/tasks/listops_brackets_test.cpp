// ListOps as a tokeniser of letters and digits reads it: input.brackets = drop.
#include <gtest/gtest.h>

#include "lra/config/protocol.h"
#include "lra/model/model.h"
#include "lra/tasks/listops/listops.h"
#include "tests/support/scratch.h"

namespace lra::listops {
namespace {

namespace fs = std::filesystem;

constexpr Reading kDropped = {.brackets = Brackets::drop};

// Three sources of one data set, rows of expressions and their values.
class BracketsTrap : public testing::Test {
 protected:
  void SetUp() override {
    const std::string rows =
        "Source\tTarget\n[MAX 2 [SM 3 4 ] ]\t7\n[MAX 2 [SM 3 ] 4 ]\t4\n[MIN 9 [MED 8 5 0 1 6 ] "
        "]\t5\n";
    for (const char* name : {"basic_train.tsv", "basic_val.tsv", "basic_test.tsv"})
      write_file(tsv_.path() / name, rows);
    task("listops").prepare({.out = data_, .source = tsv_.path()});
  }

  static std::vector<uint16_t> ids_of(const PreparedData& data, int64_t row) {
    const Split& split = data.split("train");
    std::vector<int64_t> ids(static_cast<size_t>(split.length(row)));
    split.copy(row, 0, split.length(row), ids.data());
    return {ids.begin(), ids.end()};
  }

  Scratch tsv_, folder_;
  fs::path data_ = folder_.path() / "data";
};

TEST_F(BracketsTrap, DropLeavesOperatorsAndDigits) {
  const PreparedData data = open_data(data_, "listops", /*check_hashes=*/true, kDropped);
  const Task read = task("listops", kDropped);
  EXPECT_EQ(read.render(ids_of(data, 0)), "MAX 2 SM 3 4");
  EXPECT_EQ(ids_of(data, 0), (std::vector<uint16_t>{2, 7, 4, 8, 9}));
  // Another tree of the same leaves, whose value is another.
  EXPECT_EQ(ids_of(data, 1), ids_of(data, 0));
  EXPECT_NE(data.split("train").label(1), data.split("train").label(0));
  EXPECT_EQ(read.render(ids_of(data, 2)), "MIN 9 MED 8 5 0 1 6");
  EXPECT_EQ(data.split("test").length(2), 8);
}

// 14 tokens and padding; with brackets 15.
TEST_F(BracketsTrap, VocabularyIsOfFourteenTokens) {
  const Config dropped = make_config(load_protocol("skyformer2021"), "listops",
                                     parse_attention("standard"), {}, 0, "float32"),
               kept = make_config(load_protocol("nystromformer2021"), "listops",
                                  parse_attention("standard"), {}, 0, "float32");
  EXPECT_EQ(dropped.settings.input.brackets, Brackets::drop);
  EXPECT_EQ(kept.settings.input.brackets, Brackets::keep);
  const auto rows = [](const Config& config) {
    const Model model(task("listops", config.settings.input.reading()), config);
    return model.named_parameters()["tokens.weight"].size(0);
  };
  EXPECT_EQ(rows(dropped), 15);
  EXPECT_EQ(rows(kept), 16);
  std::vector<uint16_t> all(16);
  for (uint16_t id = 0; id < 16; ++id) all[id] = id;
  EXPECT_EQ(render(all), "<0> [MIN [MAX [MED [SM ] 0 1 2 3 4 5 6 7 8 9");
  all.pop_back();
  EXPECT_EQ(render_without_brackets(all), "<0> MIN MAX MED SM 0 1 2 3 4 5 6 7 8 9");
}

// Nothing that belongs to one reading is taken for the other's.
TEST_F(BracketsTrap, FingerprintAndNameTellTheReadingsApart) {
  const PreparedData kept = open_data(data_, "listops", /*check_hashes=*/true),
                     dropped = open_data(data_, "listops", /*check_hashes=*/true, kDropped);
  EXPECT_EQ(kept.manifest().fingerprint(),
            Manifest::read(data_ / "listops/manifest.json").fingerprint());
  EXPECT_NE(dropped.manifest().fingerprint(), kept.manifest().fingerprint());
  EXPECT_EQ(dropped.manifest().source, kept.manifest().source + ", without brackets");
  EXPECT_EQ(kept.manifest().vocabulary, 16);
  EXPECT_EQ(dropped.manifest().vocabulary, 15);
}

TEST_F(BracketsTrap, OtherTasksHaveNone) {
  for (const char* name : {"text", "image"}) {
    EXPECT_EQ(error_text([&] {
                make_config(load_protocol("lra-strict"), name, parse_attention("standard"),
                            {"input.brackets=drop"}, 0, "float32");
              }),
              std::string("input.brackets should be keep: the task ") + name + " has no brackets");
  }
}

}  // namespace
}  // namespace lra::listops
