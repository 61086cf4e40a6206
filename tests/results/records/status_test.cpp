#include "results/records/status.h"

#include <gtest/gtest.h>

#include "results/records/record_fields.h"

namespace lra {
namespace {

TEST(StatusWords, ComeBackAsTheyWereWritten) {
  ASSERT_EQ(all_names<Status>().size(), 8u);
  for (const std::string& word : all_names<Status>()) {
    const auto status = parse_name<Status>(word);
    ASSERT_TRUE(status) << word;
    EXPECT_EQ(to_string(*status), word);
    EXPECT_EQ(json(*status), word);
    EXPECT_EQ(fmt::format("{}", *status), word);
  }
  EXPECT_EQ(parse_name<Status>("ok"), Status::ok);
  EXPECT_EQ(parse_name<Status>("running"), Status::running);
  EXPECT_EQ(parse_name<Status>("fine"), std::nullopt);
  EXPECT_EQ(parse_name<Status>(""), std::nullopt);
}

}  // namespace
}  // namespace lra
