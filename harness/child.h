// Work in a process of its own: this program again, with other arguments.
#pragma once

#include <string>
#include <vector>

namespace lra {

/// How a child ended.
struct ChildStatus {
  int exit = 0;    // its exit status, where it ended by itself
  int signal = 0;  // the signal that ended it, or 0
};

/// Runs this program with `arguments` and waits. Its output goes where ours goes. It dies with us;
/// after Ctrl-C it is asked to stop too, and then Interrupted is thrown.
ChildStatus run_child(const std::vector<std::string>& arguments);

}  // namespace lra
