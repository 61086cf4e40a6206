// How a run or a cell ended, or where it stands.
#pragma once

#include <string_view>

namespace lra {

/// The words a status may be.
inline constexpr std::string_view kStatusWords[] = {
    "ok", "oom", "timeout", "crash", "diverged", "unsupported", "pending", "running"};

}  // namespace lra
