// How this program starts again: as a child, as another host's job, or under Python.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lra::host {

/// The words that start this program; under Python python3 -m lra.
struct SelfCommand {
  std::filesystem::path program;   // is executed; an absolute path
  std::vector<std::string> words;  // its arguments before those of ours, argv[0] first
  std::filesystem::path file;      // that holds our code
  std::string called;              // as the user called it; messages do so too
};

/// This program's file under the name lra, or what set_self_command() said.
const SelfCommand& self_command();
void set_self_command(SelfCommand command);

/// A module of this program, which was built at `built`: beside `file`, as in an installed package
/// or a program that was carried elsewhere, or, where there is none, where it was built.
std::filesystem::path module_file(const std::filesystem::path& built,
                                  const std::filesystem::path& file = self_command().file);

/// Goes on as `python3 -m lra` with the same arguments: by LRA_PYTHON, or the Python that LibTorch
/// came with. The environment keeps argv[0], by which messages call this program, as LRA_CALLED,
/// and this program's file, by which children start, as LRA_PROGRAM. Returns only by throwing
/// Error: there is no such Python, or this build has no module for one.
[[noreturn]] void go_on_under_python(char** argv);

}  // namespace lra::host
