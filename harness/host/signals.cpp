#include "harness/host/signals.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <ctime>

#include "attention_variants/base/mapped_file.h"
#include "harness/host/progress.h"

namespace lra::host {
namespace {

std::atomic<bool> g_stop{false};
std::atomic<bool (*)()> g_poll{nullptr};
std::atomic<int> g_signal{0};
std::atomic<int64_t> g_first_ms{0};
std::atomic<bool> g_continued{false}, g_reader_gone{false};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int64_t>::is_always_lock_free,
              "a signal handler sets them");

// timeout(1) sends its signal to its child and then to the child's group, the child in it.
constexpr int64_t kSameStopMs = 300;

// All that a handler may use of an output.
void write_text(const char* text) {
  if (write(STDERR_FILENO, text, std::strlen(text)) < 0) {
    // There is nowhere to say so.
  }
}

int64_t now_ms() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);  // which a handler may call
  return int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

void handle_stop(int signal) {
  int64_t first = 0;
  const int64_t now = now_ms();
  if (!g_first_ms.compare_exchange_strong(first, now)) {  // in any thread
    if (now - first < kSameStopMs) return;
    std::signal(signal, SIG_DFL);
    raise(signal);
    return;
  }
  g_signal = signal;
  g_stop = true;
  // Only a person who waits at a terminal presses Ctrl-C twice.
  if (signal != SIGINT || is_quiet()) return;
  const int of_the_interrupted = errno;
  if (isatty(STDERR_FILENO) != 0) write_text("\r\x1b[K");
  write_text("stopping after this step; press Ctrl-C again to end at once\n");
  errno = of_the_interrupted;
}

// A write to a pipe without a reader. One of standard error is passed over: from then on it, and
// standard output where that has none either, lead nowhere. Any other ends us, as by default.
void handle_pipe(int signal) {
  const int of_the_interrupted = errno;
  pollfd outputs[] = {{STDOUT_FILENO, POLLOUT, 0}, {STDERR_FILENO, POLLOUT, 0}};
  poll(outputs, 2, 0);
  const bool told = (outputs[1].revents & POLLERR) != 0;
  const int nowhere = told ? open("/dev/null", O_WRONLY | O_CLOEXEC) : -1;
  if (nowhere < 0) {
    std::signal(signal, SIG_DFL);
    raise(signal);
    return;
  }
  g_reader_gone = true;
  for (const pollfd& output : outputs) {
    if ((output.revents & POLLERR) != 0) dup2(nowhere, output.fd);
  }
  close(nowhere);
  errno = of_the_interrupted;
}

void handle_continue(int) { g_continued = true; }

void handle_bus_error(int signal, siginfo_t* info, void*) {
  const char* name = mapped_file_at(info->si_addr);
  if (name == nullptr) {  // not of ours: it happens again, by default
    std::signal(signal, SIG_DFL);
    return;
  }
  write_text("lra: cannot read ");
  write_text(name);
  write_text(
      ": it became shorter, or its disk failed, while it was in use; put the whole file back and "
      "start again (a run goes on with --resume)\n");
  _exit(1);
}

}  // namespace

void install_signal_handlers() {
  std::signal(SIGXFSZ, SIG_IGN);
  struct sigaction action {};
  action.sa_sigaction = handle_bus_error;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, nullptr);
}

void stop_at_signals() {
  std::signal(SIGINT, handle_stop);
  std::signal(SIGTERM, handle_stop);
  struct sigaction now {};
  // What nohup starts ignores it.
  if (sigaction(SIGHUP, nullptr, &now) == 0 && now.sa_handler != SIG_IGN)
    std::signal(SIGHUP, handle_stop);
  std::signal(SIGCONT, handle_continue);
}

bool take_continued() { return g_continued.exchange(false); }

void outlive_readers() { std::signal(SIGPIPE, handle_pipe); }

bool reader_gone() { return g_reader_gone; }

const std::atomic<bool>& stop_requested() { return g_stop; }

bool asked_to_stop() {
  bool (*const poll)() = g_poll;
  return g_stop || (poll != nullptr && poll());
}

SignalPoll::SignalPoll(bool (*poll)()) : before_(g_poll.exchange(poll)) {}
SignalPoll::~SignalPoll() { g_poll = before_; }

int stop_signal() { return g_signal; }

}  // namespace lra::host
