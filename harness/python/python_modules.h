// Modules of Python classes, where Python hosts the program.
#pragma once

#include "attention_variants/python_host.h"

namespace lra::python {

/// Puts the host in place that calls harness/python/lra/_modules.py; called once, with the GIL.
void install_host();

}  // namespace lra::python
