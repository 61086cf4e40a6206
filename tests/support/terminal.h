// What programs write to a terminal made for a test.
#pragma once

#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <utility>

namespace lra {

/// All that is written to the terminal of forkpty(), until its process `child` has ended, and the
/// status that waitpid() gives. Closes the terminal.
inline std::pair<std::string, int> read_terminal(int terminal, pid_t child) {
  std::string text;
  char buffer[4096];
  for (ssize_t count = 0; (count = read(terminal, buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<size_t>(count));
  close(terminal);
  int status = 0;
  waitpid(child, &status, 0);
  return {text, status};
}

}  // namespace lra
