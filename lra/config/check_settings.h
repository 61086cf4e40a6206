// What the settings of a run ask of each other, of its task and of its attention.
#pragma once

#include "lra/config/config.h"

namespace lra {

/// Brings settings that depend on each other and on the task to the values in effect. Throws
/// UsageError that names the setting where they do not go together.
void settle(Config& config);

/// Throws UsageError where `config.overridden` names a setting that nothing reads beside the
/// others.
void check_read(const Config& config);

/// Throws UsageError where the parts of a batch are to be computed one after another and the
/// attention computes with the whole of it.
void check_coupling(const Config& config);

}  // namespace lra
