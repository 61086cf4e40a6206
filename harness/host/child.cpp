#include "harness/host/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <thread>

#include "harness/host/kernel_facts.h"
#include "harness/host/launch.h"
#include "harness/host/self_command.h"
#include "harness/host/signals.h"

namespace lra::host {
namespace {

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> result;
  for (const std::string& word : words) result.push_back(const_cast<char*>(word.c_str()));
  result.push_back(nullptr);
  return result;
}

// "NAME=value" words: ours, with those given in place of ours of the same name, and without those
// of some names.
std::vector<std::string> environment_with(
    const std::vector<std::pair<std::string, std::string>>& given,
    const std::vector<std::string>& without) {
  std::vector<std::string> words;
  for (const auto& [name, value] : given) words.push_back(name + "=" + value);
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string word = *entry, name = word.substr(0, word.find('='));
    bool replaced = std::ranges::count(without, name) > 0;
    for (const auto& [other, value] : given) replaced |= other == name;
    if (!replaced) words.push_back(word);
  }
  return words;
}

// How many processes the kernel has killed so far because memory ran out.
int64_t memory_kills() { return number_after("/proc/vmstat", "oom_kill").value_or(0); }

// A file without a name, in memory: unlike a pipe it never fills up, so it can be read at the end.
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

// Holds back what asks to stop while a process is made: until its program runs, our handlers would
// take the signal there, and exec forget it.
class HeldSignals {
 public:
  HeldSignals() {
    sigset_t stops;
    sigemptyset(&stops);
    for (const int signal : kStops) sigaddset(&stops, signal);
    pthread_sigmask(SIG_BLOCK, &stops, &before_);
  }
  ~HeldSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

  // In the new process, before exec: they end it from now on, where they are not ignored.
  void release_to_default() const {
    for (const int signal : kStops) {
      struct sigaction now {};
      if (sigaction(signal, nullptr, &now) == 0 && now.sa_handler != SIG_IGN)
        std::signal(signal, SIG_DFL);
    }
    sigprocmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  static constexpr int kStops[] = {SIGINT, SIGTERM, SIGHUP};
  sigset_t before_{};
};

using Clock = std::chrono::steady_clock;

}  // namespace

struct Child::State {
  State(const ChildOptions& given) : options(given), out(given.capture), err(given.capture) {}

  ChildOptions options;
  Capture out, err;
  pid_t pid = -1;
  Clock::time_point begin = Clock::now(), asked_at;
  RecentKills kills{memory_kills(), 0};
  bool asked = false, timed_out = false, killed = false, ended = false;

  double seconds() const { return std::chrono::duration<double>(Clock::now() - begin).count(); }
  void ask() {
    asked = true;
    asked_at = Clock::now();
    kill(pid, SIGTERM);
  }
  bool out_of_grace() const {
    return std::chrono::duration<double>(Clock::now() - asked_at).count() > options.grace;
  }
};

void RecentKills::look(int64_t count, double seconds) {
  before_ = last_;
  last_ = count;
  looked_ = seconds;
}

std::string ChildStatus::text(const std::string& said) const {
  const std::string how =
      signal != 0 ? fmt::format("ended by signal {}", signal) : fmt::format("exit status {}", exit);
  const std::string last = last_line(said);
  return last.empty() ? how : how + ": " + last;
}

Child::Child(const std::vector<std::string>& arguments, const ChildOptions& options)
    : state_(std::make_unique<State>(options)) {
  const SelfCommand& self = self_command();
  std::vector<std::string> words =
      options.program.empty() ? self.words : std::vector<std::string>{options.program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  const std::vector<char*> argv = pointers(words);
  // This program again, under a launcher, is not one of the launcher's processes.
  const std::vector<std::string> environment =
      environment_with(options.environment,
                       options.program.empty() ? launch_variables() : std::vector<std::string>());
  const std::vector<char*> envp = pointers(environment);
  int log = -1;
  if (!options.log.empty()) {
    log = open(options.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (log < 0)
      throw Error(fmt::format("cannot write {}: {}", options.log.string(), std::strerror(errno)));
  }

  std::fflush(stdout);  // what was printed so far comes before what the child prints
  const pid_t parent = getpid();
  const char* const folder = options.folder.c_str();
  const HeldSignals held;
  const pid_t child = fork();
  if (child == 0) {
    // Only calls that are safe between fork and exec.
    held.release_to_default();
    setpgid(0, 0);                  // a terminal's Ctrl-C reaches us alone, and we pass it on once
    std::signal(SIGTTOU, SIG_IGN);  // in the background now, and may print there all the same
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(130);
    if (options.oom_preferred) {
      const int score = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
      if (score >= 0 && write(score, "1000", 4) != 4) close(score);
    }
    if (options.capture || log >= 0) {
      dup2(options.capture ? state_->out.descriptor() : log, STDOUT_FILENO);
      dup2(options.capture ? state_->err.descriptor() : log, STDERR_FILENO);
    }
    if (*folder != '\0' && chdir(folder) != 0) _exit(kNotFound);
    if (options.program.empty()) {
      execve(self.program.c_str(), argv.data(), envp.data());
    } else {
      execvpe(argv[0], argv.data(), envp.data());
    }
    _exit(kNotFound);
  }
  const int error = errno;
  if (log >= 0) close(log);
  if (child < 0) throw Error(std::string("cannot start a process: ") + std::strerror(error));
  state_->pid = child;
}

Child::Child(Child&&) noexcept = default;

Child::~Child() {
  if (state_ == nullptr || state_->pid < 0 || state_->ended) return;
  if (state_->options.grace > 0) {
    if (!state_->asked) state_->ask();
    while (!state_->out_of_grace()) {
      if (waitpid(state_->pid, nullptr, WNOHANG) != 0) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
  kill(state_->pid, SIGKILL);
  waitpid(state_->pid, nullptr, 0);
}

pid_t Child::pid() const { return state_->pid; }

void Child::ask_to_stop() noexcept {
  if (state_ != nullptr && !state_->ended && !state_->asked) state_->ask();
}

std::optional<ChildStatus> Child::poll() {
  State& state = *state_;
  int status = 0;
  const pid_t ended = waitpid(state.pid, &status, WNOHANG);
  if (ended == state.pid) {
    state.ended = true;
    const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    return ChildStatus{
        .exit = WIFEXITED(status) ? WEXITSTATUS(status) : 0,
        .signal = signal,
        .timed_out = state.timed_out,
        .out_of_memory = signal == SIGKILL && !state.killed && state.kills.any(memory_kills()),
        .seconds = state.seconds(),
        .out = state.out.text(),
        .err = state.err.text()};
  }
  if (ended < 0 && errno != EINTR)
    throw Error(std::string("cannot wait for a process: ") + std::strerror(errno));
  if (state.kills.due(state.seconds())) state.kills.look(memory_kills(), state.seconds());
  if (stop_requested() && !state.asked && !state.options.to_its_end) state.ask();
  const double limit = state.options.timeout;
  if (limit > 0 && !state.timed_out && state.seconds() > limit) {
    state.timed_out = true;
    if (state.options.grace > 0 && !state.asked) state.ask();
  }
  if (state.timed_out && !state.killed && (!state.asked || state.out_of_grace())) {
    state.killed = true;
    kill(state.pid, SIGKILL);
  }
  return std::nullopt;
}

ChildStatus run_child(const std::vector<std::string>& arguments, const ChildOptions& options) {
  Child child(arguments, options);
  auto pause = std::chrono::milliseconds(1);  // short work should not wait for us
  for (;;) {
    if (auto ended = child.poll()) {
      if (stop_requested() && !options.to_its_end) throw Interrupted("stopped");
      return std::move(*ended);
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, std::chrono::milliseconds(20));
  }
}

std::string last_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  const size_t at = text.rfind('\n');
  return at == std::string::npos ? text : text.substr(at + 1);
}

}  // namespace lra::host
