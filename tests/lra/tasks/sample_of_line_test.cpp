// Samples that somebody wrote as a line of text, of every task.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lra/data/byte_tokens.h"
#include "lra/data/task.h"
#include "tests/support/scratch.h"

namespace lra {
namespace {

using Ids = std::vector<uint16_t>;

void expect_refused(const std::string& name, const std::string& line, const std::string& message) {
  const std::string said = error_text([&] { sample_of_line(task(name), line); });
  EXPECT_TRUE(contains(said, message)) << name << ": '" << line << "': " << said;
}

TEST(SampleOfLine, ReadsWhatRenderWrites) {
  const Ids expression = {2, 8, 4, 9, 10, 5, 5};
  EXPECT_EQ(sample_of_line(task("listops"), task("listops").render(expression)),
            std::vector<Ids>{expression});
  const Ids tokens = {3, 0, 7};
  for (const char* name : {"mqar", "selective_copying", "induction"}) {
    EXPECT_EQ(sample_of_line(task(name), task(name).render(tokens)), std::vector<Ids>{tokens})
        << name;
  }
}

TEST(SampleOfLine, TakesIdsOfImages) {
  EXPECT_EQ(sample_of_line(task("image"), " 0 255  7\t1 "), (std::vector<Ids>{{0, 255, 7, 1}}));
  const Task coloured = task("image", Reading{.colours = Colours::rgb});
  EXPECT_EQ(sample_of_line(coloured, "1 2\t3 4\t5 6"), (std::vector<Ids>{{1, 2}, {3, 4}, {5, 6}}));
  expect_refused("image", "1 256", "ids should be from 0 to 255, not '256'");
  expect_refused("image", "1 -2", "ids should be from 0 to 255, not '-2'");
  expect_refused("image", "1 2.5", "ids should be from 0 to 255, not '2.5'");
  expect_refused("image", " ", "there is nothing in it");
}

TEST(SampleOfLine, ReadsReviewsAsTheirFilesAreRead) {
  EXPECT_EQ(sample_of_line(task("text"), "  a\tb \r"), std::vector<Ids>{byte_ids("a\tb")});
  expect_refused("text", " \t", "there is nothing in it");
}

TEST(SampleOfLine, ReadsPapersAsTheReleaseHasThem) {
  EXPECT_EQ(sample_of_line(task("retrieval"), "b'it is'\tplain"),
            (std::vector<Ids>{byte_ids("b'it is'"), byte_ids("b'plain'")}));
  expect_refused("retrieval", "one",
                 "a sample of retrieval should be 2 sequences with a tab between them, not 1");
  expect_refused("retrieval", "\tb", "there is nothing in it");
  expect_refused("retrieval", "a\tb\tc", "should be 2 sequences with a tab between them, not 3");
}

}  // namespace
}  // namespace lra
