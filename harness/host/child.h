// Work in a process of its own: this program again with other arguments, or another program.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lra::host {

/// What a child is run with besides its arguments.
struct ChildOptions {
  std::vector<std::pair<std::string, std::string>> environment;  // over our own
  double timeout = 0;         // seconds until it is ended; 0 = none
  double grace = 0;           // seconds between being asked to stop, for its time or as its Child
                              // is destroyed, and being killed
  bool capture = false;       // keep its output instead of passing it on
  std::filesystem::path log;  // its output goes to the end of this file; empty = where ours goes
  std::string program;        // another program, found in PATH; empty = this one
  std::filesystem::path folder;  // it runs in; empty = where we do
  bool to_its_end = false;       // Ctrl-C waits for it: what it does elsewhere would go on unknown
  bool oom_preferred =
      false;  // where memory runs out, the kernel takes it before any other process
};

/// Whether the kernel has killed a process for memory of late: since the last look but one, a
/// minute to two before. Its count goes up before what it kills has ended, which may take seconds.
class RecentKills {
 public:
  static constexpr double kApart = 60;  // seconds

  /// With the count of now, `seconds` since any beginning.
  RecentKills(int64_t count, double seconds) : before_(count), last_(count), looked_(seconds) {}
  bool due(double seconds) const { return seconds - looked_ >= kApart; }
  void look(int64_t count, double seconds);
  bool any(int64_t count) const { return count > before_; }

 private:
  int64_t before_, last_;  // counts of the last look but one and of the last
  double looked_;
};

/// How a child ended.
struct ChildStatus {
  int exit = 0;                // its exit status, where no signal ended it
  int signal = 0;              // the signal that ended it, or 0
  bool timed_out = false;      // it was ended for its time
  bool out_of_memory = false;  // the kernel killed it, or another process about then, for memory
  double seconds = 0;          // it ran
  std::string out, err;        // what it wrote, where that was captured

  /// "ended by signal 9" or "exit status 1", and after ": " the last line of `said`, if any.
  std::string text(const std::string& said = "") const;
};

/// The reason of a child that is out_of_memory.
inline constexpr const char* kKilledForMemory = "out of memory: killed by the kernel";

/// A running child. It ends with its parent: when the thread that started it ends, it gets SIGTERM.
class Child {
 public:
  explicit Child(const std::vector<std::string>& arguments, const ChildOptions& options = {});
  ~Child();  // ends it where it still runs
  Child(Child&&) noexcept;
  Child& operator=(Child&&) = delete;

  /// Looks after it without waiting: how it ended, or nothing while it runs. Call often: this is
  /// what ends it for its time, and passes Ctrl-C on. Not to be called again after it has ended.
  std::optional<ChildStatus> poll();
  pid_t pid() const;
  /// Asks it to stop, as poll() does after Ctrl-C.
  void ask_to_stop() noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The exit status of a program that is not there, as shells say it.
inline constexpr int kNotFound = 127;

/// Runs this program with `arguments` and waits; throws Interrupted after Ctrl-C, once the child
/// has stopped; not of one that goes to its end.
ChildStatus run_child(const std::vector<std::string>& arguments, const ChildOptions& options = {});

/// The last line of what a process wrote, "" where it wrote nothing.
std::string last_line(std::string text);

}  // namespace lra::host
