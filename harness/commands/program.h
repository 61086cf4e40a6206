// lra, the program: what its fronts share (harness/main.cpp, harness/python).
#pragma once

namespace lra {

/// Parses the command line, runs one subcommand, turns errors into one line on standard error, and
/// returns the exit status: 0, 1 for what went wrong, 2 for what was asked wrongly, 130 and 143
/// after SIGINT and SIGTERM. To be called once in a process. Where the command needs a Python class
/// and Python does not host this process, it goes on as `python3 -m lra` and does not return.
int run_program(int argc, char** argv);

}  // namespace lra
