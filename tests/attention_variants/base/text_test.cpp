// Text as messages and tables of samples show it.
#include "attention_variants/base/text.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace lra {
namespace {

TEST(Printable, MessagesStayOnOneLineOfUtf8AndAreCut) {
  EXPECT_EQ(printable("caf\xc3\xa9\n\x1b[2J\xff\x7f"), "caf\xc3\xa9\\n\\x1b[2J\\xff\\x7f");
  EXPECT_EQ(printable("\xef\xbb\xbfSource"), "\\xef\\xbb\\xbfSource") << "a byte order mark";
  EXPECT_EQ(printable("abc", 3), "abc");
  EXPECT_EQ(printable("abcd", 3), "abc...");
  EXPECT_EQ(printable("ab\xc3\xa9", 3), "ab...");  // never within a character
  EXPECT_EQ(printable(""), "");
}

TEST(CutText, NeverCutsWithinACharacter) {
  EXPECT_EQ(cut_text("ab\xc3\xa9", 4), "ab\xc3\xa9");
  EXPECT_EQ(cut_text("ab\xc3\xa9", 3), "ab");
  EXPECT_EQ(cut_text("ab\xc3\xa9", 2), "ab");
  EXPECT_EQ(cut_text("\xc3\xa9", 1), "");
}

// As Python's repr() writes them.
TEST(Bytes, LiteralsAreThoseOfPython) {
  EXPECT_EQ(bytes_literal("it's"), R"(b"it's")");
  EXPECT_EQ(bytes_literal(R"(a "b")"), R"(b'a "b"')");
  EXPECT_EQ(bytes_literal(R"(a'b"c)"), R"(b'a\'b"c')");
  EXPECT_EQ(bytes_literal("tab\t\n\r\\ \x07\xc3\xa9 \x7f"), R"(b'tab\t\n\r\\ \x07\xc3\xa9 \x7f')");
}

TEST(Printable, ControlsOfTheDirectionOfWritingAreEscaped) {
  EXPECT_EQ(printable("a\u202eb"), "a\\xe2\\x80\\xaeb");
  for (const char* control : {"\u2028", "\u2029", "\u202a", "\u202b", "\u202c", "\u202d", "\u202e",
                              "\u2066", "\u2067", "\u2068", "\u2069"}) {
    EXPECT_EQ(printable(control).substr(0, 4), "\\xe2") << printable(control);
    EXPECT_EQ(printable(control).size(), 12u);
  }
  for (const char* kept : {"\u2027", "\u202f", "\u2065", "\u206a"})
    EXPECT_EQ(printable(kept), kept);
}

TEST(CountText, OneIsSingularAndAnyOtherCountPlural) {
  EXPECT_EQ(count_text(1, "seed"), "1 seed");
  EXPECT_EQ(count_text(0, "seed"), "0 seeds");
  EXPECT_EQ(count_text(3, "earlier cell"), "3 earlier cells");
  EXPECT_EQ(count_text(std::numeric_limits<uint64_t>::max(), "run"), "18446744073709551615 runs");
  EXPECT_EQ(count_text(int64_t{-1}, "step"), "-1 steps");
}

TEST(Plural, NounsThatHissTakeEs) {
  const std::vector<std::pair<std::string, std::string>> nouns = {
      {"process", "processes"}, {"bus", "buses"},  {"box", "boxes"},     {"batch", "batches"},
      {"hash", "hashes"},       {"head", "heads"}, {"length", "lengths"}};
  for (const auto& [one, several] : nouns) {
    EXPECT_EQ(plural(one), several);
    EXPECT_EQ(plural(one, 1), one);
    EXPECT_EQ(plural(one, size_t{2}), several);
  }
}

}  // namespace
}  // namespace lra
