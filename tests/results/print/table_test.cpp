// The four printers, and hostile cells in each.
#include "results/print/table.h"

#include <gtest/gtest.h>

#include "results/print/latex.h"

namespace lra {
namespace {

Table small() {
  return {.title = "T_1",
          .columns = {{"attention", Align::kLeft}, {"512"}},
          .rows = {{"Nyström", "1 / 2"}, {"x"}},
          .notes = {"50 % of it"}};
}

Table with(const std::string& cell) {
  return {.title = "", .columns = {{"a", Align::kLeft}}, .rows = {{cell}}, .notes = {}};
}

TEST(Tables, TextAlignsByDisplayWidth) {
  EXPECT_EQ(to_text(small()),
            "T_1\n"
            "attention    512\n"
            "---------  -----\n"
            "Nyström    1 / 2\n"
            "x\n"
            "  * 50 % of it\n");
}

TEST(Tables, MarkdownIsAPipeTable) {
  EXPECT_EQ(to_markdown(small()),
            "**T\\_1**\n\n"
            "| attention | 512 |\n"
            "| :--- | ---: |\n"
            "| Nyström | 1 / 2 |\n"
            "| x |  |\n"
            "\n- 50 % of it\n");
}

TEST(Tables, CsvIsRfc4180) {
  EXPECT_EQ(to_csv(small()), "attention,512\r\nNyström,1 / 2\r\nx,\r\n");
}

TEST(Tables, LatexIsABooktabsTable) {
  Table table = small();
  table.rows.push_back({"best", "3.50±0.1 n=2"});
  table.bold = {{2, 1}};
  EXPECT_EQ(to_latex(table, "a-1"),
            "% needs \\usepackage{booktabs,graphicx}\n% 50 \\% of it\n"
            "\\begin{table}[t]\n\\centering\n\\caption{T\\_1}\n\\label{tab:a-1}\n"
            "\\smallskip\\footnotesize\n\\setlength{\\tabcolsep}{3pt}\n"
            "\\resizebox{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}{!}{%\n"
            "\\begin{tabular}{lr}\n\\toprule\nattention & 512 \\\\\n\\midrule\n"
            "Nyström & 1 / 2 \\\\\nx &  \\\\\n"
            "best & \\textbf{3.50{\\tiny$\\pm$0.1 n=2}} \\\\\n"
            "\\bottomrule\n\\end{tabular}}\n\\end{table}\n");
  EXPECT_NE(to_latex(table, "a", /*wide=*/true).find("\\begin{table*}[t]"), std::string::npos);
}

// pdfLaTeX has letters with accents, and stops at what it has not.
TEST(Tables, LatexPrintsForeignLettersAsTheirCodePoints) {
  const std::string text = to_latex(with("注é 意"), "x");
  EXPECT_NE(text.find("\\lraunicode{6CE8}{注}é \\lraunicode{610F}{意} "), std::string::npos);
  EXPECT_NE(text.find("\\DeclareRobustCommand{\\lraunicode}[2]"), std::string::npos);
  EXPECT_EQ(to_latex(with("é"), "x").find("lraunicode"), std::string::npos);
}

TEST(Tables, GatheredNotesStandOnceAndAreNamedByNumber) {
  Table one = small(), two = small();
  one.notes = {"own", "common", "WARNING: x"};
  two.notes = {"common", "WARNING: x"};
  std::vector<Table*> both{&one, &two};
  EXPECT_EQ(gather_notes(both), (std::vector<std::string>{"common"}));
  EXPECT_EQ(one.notes, (std::vector<std::string>{"own", "WARNING: x"}));
  EXPECT_TRUE(to_text(two).ends_with("  * WARNING: x\n  * see [1]\n"));
  EXPECT_TRUE(to_markdown(two).ends_with("- WARNING: x\n- see \\[1\\]\n"));
}

TEST(Tables, WidthsCountWhatATerminalShows) {
  EXPECT_EQ(display_width("Nyström"), 7u);
  EXPECT_EQ(display_width("e\xCC\x81"), 1u);  // e and a combining accent
  EXPECT_EQ(display_width("注意"), 4u);
  EXPECT_EQ(display_width("\xF0\x9F\x98\x80"), 2u);  // an emoji
  EXPECT_EQ(display_width("\xFF\xC3"), 2u);          // malformed
}

TEST(Tables, TextShowsNoControlCharacter) {
  const std::string text = to_text(with("\x1b[2Jx\r\ny\x7f\xC2\x9B\xE2\x80\xAE\xFF"));
  EXPECT_EQ(text, "a\n------------\n?[2Jx? y???\xEF\xBF\xBD\n");
}

TEST(Tables, MarkdownEscapesMarkup) {
  EXPECT_EQ(to_markdown(with("a|b\n<img src=x> [l](http://e) `c` *d* \\")),
            "****\n\n| a |\n| :--- |\n| a\\|b &lt;img src=x&gt; \\[l\\](http&#58;//e) \\`c\\` "
            "\\*d\\* \\\\ |\n");
  EXPECT_EQ(to_markdown(with("www.e.example ww.w")),
            "****\n\n| a |\n| :--- |\n| &#119;ww.e.example ww.w |\n");
}

TEST(Tables, CsvQuotesAndDefusesFormulas) {
  EXPECT_EQ(to_csv(with("a,\"b\"\r\nc")), "a\r\n\"a,\"\"b\"\"? c\"\r\n");
  EXPECT_EQ(to_csv(with("\x1b[2Jx")), "a\r\n?[2Jx\r\n");
  EXPECT_EQ(to_csv(with("=HYPERLINK(1)")), "a\r\n'=HYPERLINK(1)\r\n");
  EXPECT_EQ(to_csv(with("@x")), "a\r\n'@x\r\n");
  EXPECT_EQ(to_csv(with("-1.5e3")), "a\r\n-1.5e3\r\n");
}

TEST(Tables, TextIsCutInTheMiddle) {
  EXPECT_EQ(cut_in_the_middle("Nyström", 7), "Nyström");
  EXPECT_EQ(cut_in_the_middle("abcdefgh", 7), "abc…fgh");
  EXPECT_EQ(cut_in_the_middle("abcdefgh", 6), "ab…gh");
  EXPECT_EQ(cut_in_the_middle("öööööööö", 5), "öö…öö");
  EXPECT_EQ(cut_in_the_middle("注意力机制注意力", 8), "注…力");  // each takes two columns
  EXPECT_EQ(cut_in_the_middle("a\xff\xff\xff\xff\xffz", 5), "a\xff…\xffz");
}

TEST(Tables, LatexEscapesEverySpecialCharacter) {
  const std::string text = to_latex(with("*|\\input{x} & % $ # _ ~ ^ < > [2pt] ± × –"), "x");
  EXPECT_NE(
      text.find(
          "\n{*}\\textbar{}\\textbackslash{}input\\{x\\} \\& \\% \\$ \\# \\_ \\textasciitilde{} "
          "\\textasciicircum{} "
          "\\textless{} \\textgreater{} {[}2pt{]} $\\pm$ $\\times$ -- \\\\"),
      std::string::npos)
      << text;
}

}  // namespace
}  // namespace lra
