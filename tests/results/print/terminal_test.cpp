// Tables within the columns of a terminal.
#include "results/print/terminal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

namespace lra {
namespace {

using Lines = std::vector<std::string>;

Lines lines_of(const std::string& text) {
  Lines lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

Table example() {
  return {.title = "Variants",
          .columns = {{"name", Align::kLeft},
                      {"what it does", Align::kLeft},
                      {"linear"},
                      {"parameters"},
                      {"", Align::kLeft}},
          .rows = {{"nyström", "approaches softmax by means of landmarks", "yes", "208918", ""},
                   {"fnet", "a Fourier transform", "yes", "175498", ""}},
          .notes = {"parameters: of the whole model under the default protocol"}};
}

TEST(Terminal, WithoutAWidthATableIsWhole) {
  EXPECT_EQ(to_terminal(example(), 0), to_text(example()));
}

TEST(Terminal, WhatFitsStaysAsItIs) { EXPECT_EQ(to_terminal(example(), 200), to_text(example())); }

TEST(Terminal, ColumnsThatSayNothingGoBeforeCellsWrap) {
  EXPECT_EQ(to_terminal(example(), 64),
            "Variants\n"
            "name     what it does                              parameters\n"
            "-------  ----------------------------------------  ----------\n"
            "nyström  approaches softmax by means of landmarks      208918\n"
            "fnet     a Fourier transform                           175498\n"
            "  * of all rows: linear yes\n"
            "  * parameters: of the whole model under the default protocol\n");
}

TEST(Terminal, CellsAndNotesWrapBetweenWords) {
  EXPECT_EQ(to_terminal(example(), 40),
            "Variants\n"
            "name     what it does         parameters\n"
            "-------  -------------------  ----------\n"
            "nyström  approaches softmax       208918\n"
            "         by means of\n"
            "         landmarks\n"
            "fnet     a Fourier transform      175498\n"
            "  * of all rows: linear yes\n"
            "  * parameters: of the whole model under\n"
            "    the default protocol\n");
}

TEST(Terminal, WhatNoWrappingFitsIsABlockARow) {
  EXPECT_EQ(to_terminal(example(), 30),
            "Variants\n"
            "nyström\n"
            "  what it does  approaches\n"
            "                softmax by\n"
            "                means of\n"
            "                landmarks\n"
            "  parameters    208918\n"
            "fnet\n"
            "  what it does  a Fourier\n"
            "                transform\n"
            "  parameters    175498\n"
            "  * of all rows: linear yes\n"
            "  * parameters: of the whole\n"
            "    model under the default\n"
            "    protocol\n");
}

TEST(Terminal, NoLineIsWiderThanTheTerminal) {
  Table table = example();
  table.rows[0][1] = std::string(150, 'x');
  for (size_t width = 30; width < 130; ++width) {
    std::string text;
    for (const std::string& line : lines_of(to_terminal(table, width))) {
      EXPECT_LE(display_width(line), width) << line;
      text += line;
    }
    EXPECT_EQ(std::ranges::count(text, 'x'), 150) << "nothing is lost at " << width;
  }
}

TEST(Terminal, WrapsWordsByTheColumnsTheyTake) {
  EXPECT_EQ(wrapped("one two three", 8), (Lines{"one two", "three"}));
  EXPECT_EQ(wrapped("ÄÖÜ ÄÖÜ", 7), (Lines{"ÄÖÜ ÄÖÜ"}));
  EXPECT_EQ(wrapped("ÄÖÜÄÖÜ", 4), (Lines{"ÄÖÜÄ", "ÖÜ"}));
  EXPECT_EQ(wrapped("a 注意機構", 4), (Lines{"a", "注意", "機構"}));
  EXPECT_EQ(wrapped("", 4), (Lines{""}));
  EXPECT_EQ(wrapped("anything at all", 0), (Lines{"anything at all"}));
}

}  // namespace
}  // namespace lra
