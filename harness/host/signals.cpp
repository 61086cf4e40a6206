#include "harness/host/signals.h"

#include <csignal>

namespace lra::host {
namespace {

std::atomic<bool> g_stop{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler sets it");

void handle(int signal) {
  if (g_stop.exchange(true)) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
}

}  // namespace

void install_signal_handlers() {
  std::signal(SIGINT, handle);
  std::signal(SIGTERM, handle);
}

const std::atomic<bool>& stop_requested() { return g_stop; }

}  // namespace lra::host
