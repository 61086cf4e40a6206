// The parts of the extension module _lra, each with the functions of a theme. Wrapped by the
// package lra (harness/python/lra), which documents them.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace lra::python {

void bind_attentions(pybind11::module_& module);
void bind_data(pybind11::module_& module);
void bind_runs(pybind11::module_& module);

}  // namespace lra::python
