// The extension module _lra: the program as Python hosts it.
#include <torch/csrc/utils/pybind.h>

#include <string>
#include <vector>

#include "harness/commands/program.h"
#include "harness/host/self_command.h"
#include "harness/python/python_modules.h"

namespace py = pybind11;

namespace {

// The program's command line, argv[0] first; returns its exit status. Children are `program`,
// started with the words `start`, argv[0] first, before their own; `file` is this module.
int run(std::vector<std::string> words, const std::string& program,
        const std::vector<std::string>& start, const std::string& file) {
  lra::host::set_self_command({.program = program, .words = start, .file = file});
  lra::python::install_host();
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const py::gil_scoped_release unlocked;
  return lra::run_program(static_cast<int>(words.size()), argv.data());
}

}  // namespace

PYBIND11_MODULE(_lra, module) {
  module.doc() = "The Long Range Arena in C++; use the package lra.";
  module.attr("torch_version") = LRA_TORCH_VERSION;
  module.attr("version") = LRA_VERSION;
  module.def("run", &run, py::arg("words"), py::arg("program"), py::arg("start"), py::arg("file"));
}
