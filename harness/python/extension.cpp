// The extension module _lra: the program as Python hosts it.
#include <torch/csrc/utils/pybind.h>

#include <string>
#include <vector>

#include "attention_variants/base/error.h"
#include "harness/commands/program.h"
#include "harness/host/gpu.h"
#include "harness/host/self_command.h"
#include "harness/python/bindings.h"
#include "harness/python/python_modules.h"

namespace py = pybind11;

namespace {

// The program's command line, argv[0] first; returns its exit status. Children are `program`,
// started with the words `start`, argv[0] first, before their own; `file` is this module.
int run(std::vector<std::string> words, const std::string& program,
        const std::vector<std::string>& start, const std::string& file) {
  lra::host::set_self_command(
      {.program = program, .words = start, .file = file, .called = words.front()});
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const py::gil_scoped_release unlocked;
  return lra::run_program(static_cast<int>(words.size()), argv.data());
}

// Our CUDA kernels, for attentions of the package; `file` is this module. Whether they are there.
bool load_cuda(const std::string& file, const std::string& driver) {
  return lra::host::load_cuda(driver.c_str(), file);
}

// UsageError before Error, whose child it is: translators are asked in the reverse order.
void bind_errors(py::module_& module) {
  static const py::exception<lra::Error> error(module, "Error", PyExc_RuntimeError);
  static const py::exception<lra::UsageError> usage(module, "UsageError", error.ptr());
  py::register_exception_translator([](std::exception_ptr raised) {
    try {
      std::rethrow_exception(raised);
    } catch (const lra::UsageError& caught) {
      PyErr_SetString(usage.ptr(), caught.what());
    } catch (const lra::Error& caught) {
      PyErr_SetString(error.ptr(), caught.what());
    }
  });
}

}  // namespace

PYBIND11_MODULE(_lra, module) {
  module.doc() = "The Long Range Arena in C++; use the package lra.";
  module.attr("torch_version") = LRA_TORCH_VERSION;
  module.attr("version") = LRA_VERSION;
  module.def("run", &run, py::arg("words"), py::arg("program"), py::arg("start"), py::arg("file"));
  module.def("load_cuda", &load_cuda, py::arg("file"), py::arg("driver") = "libcuda.so.1");
  bind_errors(module);
  lra::python::bind_attentions(module);
  lra::python::bind_data(module);
  lra::python::bind_runs(module);
  lra::python::install_host();
}
