// Preparing data with progress, for `lra data prepare` and `lra suite` alike.
#pragma once

#include <string>

#include "lra/task.h"

namespace lra {

/// Prepares `options.out`/<name> with a progress line; Ctrl-C stops it with Interrupted and leaves
/// nothing. True where it was there already.
bool prepare_with_progress(const std::string& name, PrepareOptions options);

}  // namespace lra
