#include "results/records/status.h"

#include <gtest/gtest.h>

namespace lra {
namespace {

TEST(StatusWords, ComeBackAsTheyWereWritten) {
  ASSERT_EQ(status_words().size(), 8u);
  for (const std::string_view word : status_words()) {
    const auto status = parse_status(word);
    ASSERT_TRUE(status) << word;
    EXPECT_EQ(text(*status), word);
    EXPECT_EQ(json(*status), word);
    EXPECT_EQ(fmt::format("{}", *status), word);
  }
  EXPECT_EQ(parse_status("ok"), Status::ok);
  EXPECT_EQ(parse_status("running"), Status::running);
  EXPECT_EQ(parse_status("fine"), std::nullopt);
  EXPECT_EQ(parse_status(""), std::nullopt);
}

}  // namespace
}  // namespace lra
