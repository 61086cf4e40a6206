// What signals do: Ctrl-C, SIGTERM and SIGHUP (a terminal that closes) ask work that can be
// continued to stop at its next step, and a second one, at least 0.3 s later, ends the process at
// once. What cannot be continued ends with the first.
#pragma once

#include <atomic>

#include "attention_variants/base/error.h"

namespace lra::host {

/// Makes errors of what would end the process without a word: a file beyond the largest size
/// allowed fails to be written, and a mapped file that became shorter is named. Call once from
/// main().
void install_signal_handlers();

/// From now on SIGINT, SIGTERM and, where it is not ignored, SIGHUP ask to stop. For commands whose
/// work looks at stop_requested(); without it they end the process, as they do by default.
void stop_at_signals();

/// From now on work goes on where what reads standard error has ended, as `2>&1 | tee log` does at
/// the Ctrl-C that asks us to stop; what is printed from then on is lost. For commands whose work
/// is in files; without it, and where standard output alone has no reader, the next write ends the
/// process, as of a listing that is piped into `head`.
void outlive_readers();

/// Whether that has happened.
bool reader_gone();

/// True after one of them, where stop_at_signals() was called.
const std::atomic<bool>& stop_requested();

/// The same, or what a SignalPoll says: of loops whose process may be another program's.
bool asked_to_stop();

/// Whether the process has gone on after it was suspended (SIGCONT) since the last call, where
/// stop_at_signals() was called: times around that hold the pause.
bool take_continued();

/// While it lives, asked_to_stop() calls `poll`, too: of a program that has handlers of its own, as
/// Python has. One within another, in one thread at a time.
class SignalPoll {
 public:
  explicit SignalPoll(bool (*poll)());
  ~SignalPoll();
  SignalPoll(const SignalPoll&) = delete;
  SignalPoll& operator=(const SignalPoll&) = delete;

 private:
  bool (*before_)();
};

/// The signal that asked first; 0 where there was none, as in a process that stops because another
/// one does.
int stop_signal();

/// Thrown where work stops for that reason, with the signal that asked for it, of this process or
/// of another; 0 where none did. Exit status 128 + the signal (exit_status() in runtime.h).
class Interrupted : public Error {
 public:
  explicit Interrupted(const std::string& message, int signal = stop_signal())
      : Error(message), signal_(signal) {}
  int signal() const { return signal_; }

 private:
  int signal_;
};

}  // namespace lra::host
