// Whether this process may use the tile registers of AMX.
#pragma once

namespace lra::ops::cpu {

/// True where the processor multiplies tiles of bfloat16 (AMX-BF16) and the system lets this
/// process: Linux saves the registers of those alone that have asked, which the first call does.
bool amx_multiplies_bfloat16();

}  // namespace lra::ops::cpu
