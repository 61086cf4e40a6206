#include "harness/child.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include "harness/signals.h"

namespace lra {

ChildStatus run_child(const std::vector<std::string>& arguments) {
  static const char* kSelf = "/proc/self/exe";
  std::vector<char*> argv = {const_cast<char*>("lra")};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);

  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) throw Error(std::string("cannot start a process: ") + std::strerror(errno));
  if (child == 0) {
    // Only calls that are safe between fork and exec.
    setpgid(0, 0);  // a terminal's Ctrl-C reaches us alone, and we pass it on once
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(130);
    execv(kSelf, argv.data());
    _exit(127);
  }

  bool asked = false;
  for (;;) {
    int status = 0;
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended == child) {
      if (stop_requested()) throw Interrupted("stopped; the same command with --resume goes on");
      return {.exit = WIFEXITED(status) ? WEXITSTATUS(status) : 0,
              .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0};
    }
    if (ended < 0 && errno != EINTR)
      throw Error(std::string("cannot wait for a process: ") + std::strerror(errno));
    if (stop_requested() && !asked) {
      asked = true;
      kill(child, SIGTERM);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace lra
