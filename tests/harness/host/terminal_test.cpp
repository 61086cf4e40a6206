// What is printed where standard output and error are a terminal.
#include "harness/host/terminal.h"

#include <gtest/gtest.h>
#include <pty.h>
#include <unistd.h>

#include <algorithm>

#include "harness/host/progress.h"
#include "results/print/table.h"
#include "tests/harness/program.h"
#include "tests/support/terminal.h"

namespace lra {
namespace {

// What the program writes to a terminal of that many columns.
std::string on_terminal(unsigned short columns, std::vector<std::string> words) {
  winsize size{.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
  words.insert(words.begin(), "lra");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  int terminal = -1;
  const pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
  if (child == 0) {
    execv(LRA_PROGRAM, argv.data());
    _exit(127);
  }
  auto [text, status] = read_terminal(terminal, child);
  EXPECT_EQ(status, 0) << text;
  std::erase(text, '\r');
  return text;
}

size_t widest(const std::string& text) {
  size_t width = 0;
  for (const std::string& line : text_lines(text)) width = std::max(width, display_width(line));
  return width;
}

TEST(TerminalTest, ListingsFitIt) {
  for (const char* what : {"attentions", "tasks", "protocols"}) {
    for (const unsigned short columns : {80, 120})
      EXPECT_LE(widest(on_terminal(columns, {"list", what})), columns) << what;
  }
  EXPECT_GT(widest(on_terminal(80, {"list", "attentions", "--wide"})), 80U);
  EXPECT_GT(widest(run_program({"list", "attentions"}).out), 80U) << "a file holds all";
}

TEST(ProgressTest, ABarEndsBeforeTheLastColumn) {
  const std::string text = "train 1234/5000 12.3/s ETA 5m06s  loss 0.1234 · accuracy 45.6";
  for (const size_t columns : {10, 40, 60, 80, 120})
    EXPECT_LT(display_width(host::bar_line(0.25, text, columns)), columns);
  EXPECT_EQ(host::bar_line(0.5, "train", 60), "[##########..........] train");
  EXPECT_EQ(host::bar_line(0.5, "train 1234/5000 12.3/s ETA 5m06s", 50),
            "[#######.......] train 1234/5000 12.3/s ETA 5m06s");
  EXPECT_EQ(host::bar_line(0.5, text, 0), "[##########..........] " + text);
}

}  // namespace
}  // namespace lra
