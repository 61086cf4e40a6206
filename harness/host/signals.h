// Ctrl-C and SIGTERM: asks the work to stop at its next step; a second one ends the process at
// once.
#pragma once

#include <atomic>

#include "attention_variants/base/error.h"

namespace lra::host {

/// Installs the handlers. Call once from main().
void install_signal_handlers();

/// True after SIGINT or SIGTERM.
const std::atomic<bool>& stop_requested();

/// Thrown where work stops for that reason. Exit status 130.
class Interrupted : public Error {
 public:
  using Error::Error;
};

}  // namespace lra::host
