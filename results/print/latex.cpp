#include "results/print/latex.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <string_view>

#include "attention_variants/base/utf8.h"

namespace lra {
namespace {

constexpr const char* kUnicodeCommand = R"tex(\ifdefined\lraunicode\else
\DeclareRobustCommand{\lraunicode}[2]{\ifdefined\XeTeXversion#2\else
  \ifdefined\directlua#2\else{\tiny U+#1}\fi\fi}\fi
)tex";

// Letters with the accents that LaTeX composes by itself stay; of any other character pdfLaTeX
// would stop.
std::string other_character(uint32_t code, std::string_view bytes) {
  const bool letter = code >= 0xC0 && code <= 0xFF && code != 0xD0 && code != 0xDE &&
                      code != 0xF0 && code != 0xF7 && code != 0xFE;
  if (code < 0x80 || letter) return std::string(bytes);
  return fmt::format("\\lraunicode{{{:04X}}}{{{}}}", code, bytes);
}

struct LatexCommand {
  uint32_t code;
  std::string_view command;
};
// A bracket after \\ would be read as a length, and a star as a command of its own.
constexpr LatexCommand kCommands[] = {{'&', "\\&"},
                                      {'%', "\\%"},
                                      {'$', "\\$"},
                                      {'#', "\\#"},
                                      {'_', "\\_"},
                                      {'{', "\\{"},
                                      {'}', "\\}"},
                                      {'\\', "\\textbackslash{}"},
                                      {'~', "\\textasciitilde{}"},
                                      {'^', "\\textasciicircum{}"},
                                      {'<', "\\textless{}"},
                                      {'>', "\\textgreater{}"},
                                      {'|', "\\textbar{}"},
                                      {'*', "{*}"},
                                      {'[', "{[}"},
                                      {']', "{]}"},
                                      {0xB1, "$\\pm$"},
                                      {0xD7, "$\\times$"},
                                      {0x2013, "--"},
                                      {0x2020, "$\\dagger$"},
                                      {0x2021, "$\\ddagger$"},
                                      {0x2014, "---"},
                                      {0x2026, "\\ldots{}"}};

std::string escaped_latex(std::string_view raw) {
  std::string result;
  const std::string text = one_line(raw);
  for (size_t at = 0; at < text.size();) {
    const Utf8Point point = decode_utf8(text, at);
    const auto* known = std::ranges::find(kCommands, point.code, &LatexCommand::code);
    result += known != std::end(kCommands)
                  ? std::string(known->command)
                  : other_character(point.code, std::string_view(text).substr(at, point.bytes));
    at += point.bytes;
  }
  return result;
}

// A cell, with what follows a number's ± small.
std::string cell_latex(const std::string& text, bool bold) {
  constexpr std::string_view kSign = "±";
  std::string result = escaped_latex(text);
  const size_t at = text.find(kSign);
  if (at != std::string::npos && at > 0 &&
      std::isdigit(static_cast<unsigned char>(text[at - 1])) != 0)
    result = fmt::format("{}{{\\tiny$\\pm${}}}", escaped_latex(text.substr(0, at)),
                         escaped_latex(text.substr(at + kSign.size())));
  return bold ? "\\textbf{" + result + "}" : result;
}

std::string comments(const Table& table) {
  std::string text;
  for (const std::string& note : table.notes) text += "% " + escaped_latex(note) + "\n";
  return text;
}

}  // namespace

std::string to_latex(const Table& table, const std::string& label, bool wide) {
  std::string spec;
  for (const Column& column : table.columns) spec += column.align == Align::kLeft ? 'l' : 'r';
  const char* environment = wide ? "table*" : "table";
  std::string body = fmt::format(
      "\\begin{{{}}}[t]\n\\centering\n\\caption{{{}}}\n\\label{{tab:{}}}"
      "\n\\smallskip\\footnotesize\n"
      "\\setlength{{\\tabcolsep}}{{3pt}}\n"
      "\\resizebox{{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}}{{!}}{{%\n"
      "\\begin{{tabular}}{{{}}}\n\\toprule\n",
      environment, escaped_latex(table.title), label, spec);
  const auto add_line = [&](const auto& content) {
    for (size_t c = 0; c < table.columns.size(); ++c)
      body.append(c == 0 ? "" : " & ").append(content(c));
    body += " \\\\\n";
  };
  add_line([&](size_t c) { return escaped_latex(table.columns[c].header); });
  body += "\\midrule\n";
  for (size_t r = 0; r < table.rows.size(); ++r) {
    const auto& row = table.rows[r];
    add_line([&](size_t c) {
      return c < row.size() ? cell_latex(row[c], table.bold.contains({r, c})) : std::string();
    });
  }
  body += fmt::format("\\bottomrule\n\\end{{tabular}}}}\n\\end{{{}}}\n", environment);
  const bool unicode = body.find("\\lraunicode") != std::string::npos;
  return "% needs \\usepackage{booktabs,graphicx}\n" + comments(table) +
         (unicode ? kUnicodeCommand : "") + body;
}

}  // namespace lra
