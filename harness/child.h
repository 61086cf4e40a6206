// Work in a process of its own: this program again, with other arguments.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace lra {

/// What a child is run with besides its arguments.
struct ChildOptions {
  std::vector<std::pair<std::string, std::string>> environment;  // over our own
  double timeout = 0;    // seconds until it is killed; 0 = none
  bool capture = false;  // keep its output instead of passing it on
  bool victim = false;   // where memory runs out, the kernel takes it before any other process
};

/// How a child ended.
struct ChildStatus {
  int exit = 0;            // its exit status, where it ended by itself
  int signal = 0;          // the signal that ended it, or 0
  bool timed_out = false;  // it was killed for its time
  std::string out, err;    // what it wrote, where that was captured
};

/// Runs this program with `arguments` and waits. Its output goes where ours goes, unless it is
/// captured. It dies with us; after Ctrl-C it is asked to stop too, and then Interrupted is thrown.
ChildStatus run_child(const std::vector<std::string>& arguments, const ChildOptions& options = {});

}  // namespace lra
