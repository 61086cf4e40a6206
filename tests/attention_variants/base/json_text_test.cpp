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

TEST(JsonDifferences, AreToldOfBothSides) {
  const json there = {{"seeds", {0, 1}}, {"sets", json::array()}, {"dtype", "float32"}},
             here = {{"seeds", {0}}, {"sets", {"a=1", "b=2"}}, {"dtype", "float32"}};
  EXPECT_EQ(there_and_here(there, here, {{"sets", "--set"}, {"seeds", "--seeds"}, {"x", "--x"}}),
            "--set none there, a=1,b=2 here; --seeds 0,1 there, 0 here");
  EXPECT_EQ(there_and_here(there, here, {{"dtype", "--dtype"}}), "");
  EXPECT_EQ(there_and_here({{"a", {{"b", 1}, {"c", nullptr}}}}, {{"a", {{"b", 2}}}}),
            "a.b 1 there, 2 here");
  json left = json::array(), right;
  for (int i = 0; i < 20; ++i) left.push_back("training.log_every=" + std::to_string(i));
  right = left;
  right[19] = "training.log_every=20";
  EXPECT_EQ(there_and_here({{"sets", left}}, {{"sets", right}}, {{"sets", "--set"}}),
            "--set training.log_every=19 there alone, training.log_every=20 here alone");
  json many = json::object();
  for (int i = 0; i < 6; ++i) many["k" + std::to_string(i)] = i;
  EXPECT_EQ(there_and_here(many, json::object()),
            "k0 0 there, none here; k1 1 there, none here; k2 2 there, none here; k3 3 there, none "
            "here; 2 more");
}

TEST(JsonText, OfUnknownOriginIsCutAndPrintable) {
  EXPECT_EQ(printable_json(json("a\x7f\n")), R"("a\x7f\n")");
  const std::string many(500, 'x');
  EXPECT_EQ(printable_json(json(many)), fmt::format("\"{}...", many.substr(0, 199)));
}

}  // namespace
}  // namespace lra
