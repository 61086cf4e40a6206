// JSON in messages.
#include "attention_variants/base/json_text.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace lra {
namespace {

// Each difference as "path: left -> right", "-" where there is none.
std::vector<std::string> lines(const char* left, const char* right) {
  std::vector<std::string> result;
  const auto text = [](const std::optional<json>& value) { return value ? value->dump() : "-"; };
  for (const JsonDifference& difference : json_differences(json::parse(left), json::parse(right))) {
    result.push_back(difference.path + ": " + text(difference.left) + " -> " +
                     text(difference.right));
  }
  return result;
}

TEST(JsonDifferences, ArePathsAndBothValues) {
  using Lines = std::vector<std::string>;
  EXPECT_EQ(lines(R"({"a": {"b": 1, "c": 2}, "d": 3})", R"({"d": 3, "a": {"c": 2, "b": 1}})"),
            Lines{});
  EXPECT_EQ(lines(R"({"a": {"b": 1, "c": 2}, "d": 3})", R"({"a": {"b": 1, "c": 4}, "d": 5})"),
            (Lines{"a.c: 2 -> 4", "d: 3 -> 5"}));
  EXPECT_EQ(lines(R"({"a": {"b": null}})", R"({"a": {"c": 1}})"),
            (Lines{"a.b: null -> -", "a.c: - -> 1"}));
  EXPECT_EQ(lines(R"({"a": {"b": 1}})", R"({"a": [1]})"), (Lines{R"(a: {"b":1} -> [1])"}));
  EXPECT_EQ(lines("1", "2"), (Lines{": 1 -> 2"}));
}

TEST(JsonText, OfUnknownOriginIsCutAndPrintable) {
  EXPECT_EQ(printable_json(json("a\x7f\n")), R"("a\x7f\n")");
  const std::string many(500, 'x');
  EXPECT_EQ(printable_json(json(many)), fmt::format("\"{}...", many.substr(0, 199)));
}

}  // namespace
}  // namespace lra
