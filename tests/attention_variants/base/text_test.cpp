// Text as messages and tables of samples show it.
#include "attention_variants/base/text.h"

#include <gtest/gtest.h>

namespace lra {
namespace {

TEST(Printable, MessagesStayOnOneLineOfUtf8AndAreCut) {
  EXPECT_EQ(printable("caf\xc3\xa9\n\x1b[2J\xff\x7f"), "caf\xc3\xa9\\n\\x1b[2J\\xff\\x7f");
  EXPECT_EQ(printable("abc", 3), "abc");
  EXPECT_EQ(printable("abcd", 3), "abc...");
  EXPECT_EQ(printable("ab\xc3\xa9", 3), "ab...");  // never within a character
  EXPECT_EQ(printable(""), "");
}

// As Python's repr() writes them.
TEST(Bytes, LiteralsAreThoseOfPython) {
  EXPECT_EQ(bytes_literal("it's"), R"(b"it's")");
  EXPECT_EQ(bytes_literal(R"(a "b")"), R"(b'a "b"')");
  EXPECT_EQ(bytes_literal(R"(a'b"c)"), R"(b'a\'b"c')");
  EXPECT_EQ(bytes_literal("tab\t\n\r\\ \x07\xc3\xa9 \x7f"), R"(b'tab\t\n\r\\ \x07\xc3\xa9 \x7f')");
}

}  // namespace
}  // namespace lra
