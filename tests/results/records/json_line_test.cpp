// JSON for people.
#include "results/records/json_line.h"

#include <gtest/gtest.h>

namespace lra {
namespace {

// Of a text in several directions a terminal would show another order than is there.
TEST(JsonText, EscapesWhatATerminalWouldObey) {
  const json value = {{"a\u202e", "\u2069 \u2028 \u0085 \x7f \x1b é 語"}};
  const std::string text = json_text(value);
  EXPECT_EQ(text, "{\n  \"a\\u202e\": \"\\u2069 \\u2028 \\u0085 \\u007f \\u001b é 語\"\n}");
  EXPECT_EQ(json::parse(text), value);
}

}  // namespace
}  // namespace lra
