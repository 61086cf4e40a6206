// What the settings of a run ask of each other, of its task and of its attention.
#pragma once

#include "lra/config/config.h"

namespace lra {

/// Brings settings that depend on each other and on the task to the values in effect. Throws
/// UsageError that names the setting where they do not go together.
void settle(Config& config);

}  // namespace lra
