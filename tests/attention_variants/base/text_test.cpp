#include "attention_variants/base/text.h"

#include <gtest/gtest.h>

namespace lra {
namespace {

TEST(Printable, ControlsOfTheDirectionOfWritingAreEscaped) {
  EXPECT_EQ(printable("a\u202eb"), "a\\xe2\\x80\\xaeb");
  for (const char* control :
       {"\u202a", "\u202b", "\u202c", "\u202d", "\u202e", "\u2066", "\u2067", "\u2068", "\u2069"}) {
    EXPECT_EQ(printable(control).substr(0, 4), "\\xe2") << printable(control);
    EXPECT_EQ(printable(control).size(), 12u);
  }
  for (const char* kept : {"\u2029", "\u202f", "\u2065", "\u206a"})
    EXPECT_EQ(printable(kept), kept);
}

}  // namespace
}  // namespace lra
