#include "harness/host/self_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <system_error>

#include "attention_variants/base/error.h"
#include "harness/host/launch.h"

namespace lra::host {
namespace {

namespace fs = std::filesystem;

SelfCommand& current() {
  static SelfCommand command = {.program = "/proc/self/exe",
                                .words = {"lra"},
                                .file = "/proc/self/exe",
                                .called = program_invocation_name};
  return command;
}

// "a:b", or "b" where there is no a.
void prepend_path(const char* name, const fs::path& folder) {
  const std::optional<std::string> had = environment_variable(name);
  const std::string value = folder.string() + (had && !had->empty() ? ":" + *had : "");
  setenv(name, value.c_str(), /*overwrite=*/1);
}

}  // namespace

const SelfCommand& self_command() { return current(); }

void set_self_command(SelfCommand command) { current() = std::move(command); }

fs::path module_file(const fs::path& built, const fs::path& file) {
  std::error_code error;  // then it is not there
  const fs::path beside = fs::canonical(file, error).parent_path() / built.filename();
  return !built.empty() && beside.is_absolute() && fs::exists(beside, error) ? beside : built;
}

void go_on_under_python(char** argv) {
  // The package lra lies beside the folder of the program.
  const fs::path package = fs::path(LRA_PYTHON_PACKAGE);
  if (package.empty() || !fs::is_directory(package)) {
    throw Error(
        "a class of Python is named, and this build of lra has no module for Python: build it "
        "where "
        "LibTorch is that of Python's package torch and Python's headers (libpython3-dev) are "
        "there");
  }
  std::string python = environment_variable("LRA_PYTHON").value_or("");
  if (python.empty()) python = LRA_TORCH_PYTHON;
  prepend_path("PYTHONPATH", package.parent_path());
  setenv("LRA_CALLED", current().called.c_str(), /*overwrite=*/1);
  setenv("LRA_PROGRAM", fs::canonical(current().file).c_str(), /*overwrite=*/1);
  // As `-m lra`, but for the working folder, which comes last: no file of the user's there stands
  // for one of Python's own modules.
  std::vector<std::string> words = {
      python, "-c",
      "import sys; '' in sys.path[:1] and sys.path.append(sys.path.pop(0)); "
      "sys.argv[0] = '-m'; import runpy; "
      "runpy.run_module('lra', run_name='__main__', alter_sys=True)"};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  for (char** argument = argv + 1; *argument != nullptr; ++argument) arguments.push_back(*argument);
  arguments.push_back(nullptr);
  execvp(python.c_str(), arguments.data());
  throw Error(fmt::format(
      "a class of Python is named, and '{}' cannot be started: {}; set LRA_PYTHON to a Python with "
      "torch {}",
      python, std::strerror(errno), LRA_TORCH_VERSION));
}

}  // namespace lra::host
