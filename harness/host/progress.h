// Progress on stderr: a bar with rate and ETA on a terminal, a plain line now and then elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace lra::host {

/// --quiet: nothing is shown at all.
void set_quiet(bool quiet);
bool is_quiet();

/// Shows nothing for a scope.
class Quiet {
 public:
  Quiet() { set_quiet(true); }
  ~Quiet() { set_quiet(before_); }
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;

 private:
  const bool before_ = is_quiet();
};

/// A line, or several, on stderr, above a bar if one is drawn; nothing when quiet. What a terminal
/// would obey stands escaped.
void say(const std::string& line);

/// An error's line, "lra: ..." on stderr, quiet or not.
void say_error(const std::string& message);

class Progress {
 public:
  /// `what` names the work, `total` its units; `start` units are done already (a resumed run), and
  /// do not count in the rate.
  Progress(std::string what, int64_t total, int64_t start = 0);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Draws at most ten times a second on a terminal, once in 30 seconds elsewhere.
  void update(int64_t done, const std::string& note = "");
  /// Ends the line.
  void finish();

 private:
  void draw(int64_t done, const std::string& note);

  std::string what_;
  int64_t total_, start_;
  bool terminal_, open_ = false, finished_ = false;
  std::chrono::steady_clock::time_point begin_, last_;
};

/// A bar of `width` letters, "#####.....", with `share` of them full.
std::string bar_text(double share, size_t width);

/// Such a bar and a text, in a line that ends before the last of a terminal's columns, so that it
/// does not scroll: a shorter bar, then less of the text. 0 columns = no limit.
std::string bar_line(double share, const std::string& text, size_t columns);

/// 75 -> "1m15s", 4000 -> "1h06m".
std::string duration_text(double seconds);

}  // namespace lra::host
