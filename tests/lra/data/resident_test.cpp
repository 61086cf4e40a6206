// Samples on a device give the batches that a loader reads, to the bit.
#include "lra/data/resident.h"

#include <gtest/gtest.h>

#include "tests/support/scratch.h"

namespace lra {
namespace {

class ResidentTest : public testing::Test {
 protected:
  // Samples of 0 to 11 tokens; ids of 256 and more make two bytes of each.
  Split make_split(const std::string& name, int64_t count, int64_t inputs, uint16_t highest) const {
    SplitWriter writer(inputs);
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t j = 0; j < inputs; ++j) {
        std::vector<uint16_t> ids;
        for (int64_t k = 0; k < (i * 5 + j * 3) % 12; ++k)
          ids.push_back(static_cast<uint16_t>((i + j + k) % 4 == 0 ? 0 : highest - k));
        writer.tokens(ids);
      }
      writer.label(i % 3);
    }
    writer.write(scratch_.path() / name, highest + 1);
    return Split(scratch_.path() / name, inputs, 3, highest + 1);
  }

  Scratch scratch_;
};

TEST_F(ResidentTest, BatchesAreThoseOfTheStream) {
  for (const uint16_t highest : {200, 399}) {
    const std::string number = std::to_string(highest);
    for (const int64_t inputs : {1, 2}) {
      const std::string form = number + "-" + std::to_string(inputs);
      const std::vector<Split> splits = {make_split("a" + form, 13, inputs, highest),
                                         make_split("b" + form, 6, inputs, highest)};
      for (const LoaderOptions& options :
           {LoaderOptions{.batch = 4, .length = 8, .shuffle = true, .seed = 3},
            LoaderOptions{.batch = 5, .length = 16, .shuffle = true, .mask = InputMask::nonzero},
            LoaderOptions{.batch = 4, .length = 10, .mask = InputMask::none, .cut = 6},
            LoaderOptions{.batch = 6, .length = 4, .shuffle = true, .samples = {2, 4}}}) {
        TrainingStream stream(splits, options, /*start_batch=*/2);
        ResidentStream resident(splits, options, torch::kCPU, /*start_batch=*/2);
        for (int64_t i = 0; i < 300; ++i) {  // beyond the rows that are sent at a time
          const Batch expected = stream.next(), found = resident.next();
          ASSERT_TRUE(torch::equal(found.tokens, expected.tokens)) << form << ", batch " << i;
          ASSERT_TRUE(torch::equal(found.mask, expected.mask)) << form << ", batch " << i;
          ASSERT_TRUE(torch::equal(found.labels, expected.labels));
          ASSERT_TRUE(torch::equal(found.index, expected.index));
          ASSERT_EQ(found.full, expected.full);
          ASSERT_EQ(found.full, expected.mask.all().item<bool>());
          ASSERT_EQ(found.tokens.scalar_type(), expected.tokens.scalar_type());
        }
      }
    }
  }
}

TEST_F(ResidentTest, TakesTheBytesThatItSays) {
  const LoaderOptions options{.batch = 4, .length = 8};
  EXPECT_EQ(ResidentSamples::bytes({make_split("c", 10, 2, 255)}, options),
            10 * (2 * (8 * 1 + 8) + 8));
  EXPECT_EQ(ResidentSamples::bytes({make_split("d", 10, 2, 256)}, options),
            10 * (2 * (8 * 4 + 8) + 8));
}

}  // namespace
}  // namespace lra
