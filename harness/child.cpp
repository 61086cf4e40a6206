#include "harness/child.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include "harness/signals.h"

namespace lra {
namespace {

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> result;
  for (const std::string& word : words) result.push_back(const_cast<char*>(word.c_str()));
  result.push_back(nullptr);
  return result;
}

// "NAME=value" words: ours, with those given in place of ours of the same name.
std::vector<std::string> environment_with(
    const std::vector<std::pair<std::string, std::string>>& given) {
  std::vector<std::string> words;
  for (const auto& [name, value] : given) words.push_back(name + "=" + value);
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string word = *entry, name = word.substr(0, word.find('='));
    bool replaced = false;
    for (const auto& [other, value] : given) replaced |= other == name;
    if (!replaced) words.push_back(word);
  }
  return words;
}

// A file without a name, in memory: unlike a pipe it never fills up, so nobody need read along.
class Capture {
 public:
  explicit Capture(bool wanted) : descriptor_(wanted ? memfd_create("output", MFD_CLOEXEC) : -1) {
    if (wanted && descriptor_ < 0)
      throw Error(std::string("cannot keep a process's output: ") + std::strerror(errno));
  }
  ~Capture() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  int descriptor() const { return descriptor_; }
  std::string text() const {
    std::string text;
    if (descriptor_ < 0 || lseek(descriptor_, 0, SEEK_SET) < 0) return text;
    char buffer[4096];
    for (ssize_t count = 0; (count = read(descriptor_, buffer, sizeof buffer)) > 0;)
      text.append(buffer, static_cast<size_t>(count));
    return text;
  }

 private:
  int descriptor_;
};

}  // namespace

ChildStatus run_child(const std::vector<std::string>& arguments, const ChildOptions& options) {
  using Clock = std::chrono::steady_clock;
  static const char* kSelf = "/proc/self/exe";
  std::vector<std::string> words = {"lra"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  const std::vector<char*> argv = pointers(words);
  const std::vector<std::string> environment = environment_with(options.environment);
  const std::vector<char*> envp = pointers(environment);
  const Capture out(options.capture), err(options.capture);

  const pid_t parent = getpid();
  const auto begin = Clock::now();
  const pid_t child = fork();
  if (child < 0) throw Error(std::string("cannot start a process: ") + std::strerror(errno));
  if (child == 0) {
    // Only calls that are safe between fork and exec.
    setpgid(0, 0);  // a terminal's Ctrl-C reaches us alone, and we pass it on once
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(130);
    if (options.victim) {
      const int score = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
      if (score >= 0 && write(score, "1000", 4) != 4) close(score);
    }
    if (options.capture) {
      dup2(out.descriptor(), STDOUT_FILENO);
      dup2(err.descriptor(), STDERR_FILENO);
    }
    execve(kSelf, argv.data(), envp.data());
    _exit(127);
  }

  bool asked = false, timed_out = false;
  auto pause = std::chrono::milliseconds(1);  // short work should not wait for us
  for (;;) {
    int status = 0;
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended == child) {
      if (stop_requested()) throw Interrupted("stopped; the same command with --resume goes on");
      return {.exit = WIFEXITED(status) ? WEXITSTATUS(status) : 0,
              .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0,
              .timed_out = timed_out,
              .out = out.text(),
              .err = err.text()};
    }
    if (ended < 0 && errno != EINTR)
      throw Error(std::string("cannot wait for a process: ") + std::strerror(errno));
    if (stop_requested() && !asked) {
      asked = true;
      kill(child, SIGTERM);
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    if (options.timeout > 0 && seconds > options.timeout && !timed_out) {
      timed_out = true;
      kill(child, SIGKILL);
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, std::chrono::milliseconds(20));
  }
}

}  // namespace lra
