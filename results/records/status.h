// How a run or a cell ended, or where it stands.
#pragma once

#include "attention_variants/base/enum_names.h"

namespace lra {

enum class Status { ok, oom, timeout, crash, diverged, unsupported, pending, running };
constexpr auto names(Status) {
  return std::array{"ok",       "oom",         "timeout", "crash",
                    "diverged", "unsupported", "pending", "running"};
}

}  // namespace lra
