// The tests' main(), and lra's: a test's fork that goes on as lra (program.h) starts processes by
// this file and the name lra, as lra does by its own.
#include <string_view>

#include "tests/harness/program.h"
#include "tests/support/run_tests.h"

int main(int argc, char** argv) {
  if (argc > 0 && std::string_view(argv[0]) == "lra")
    lra::host::end_process(lra::run_program(argc, argv));
  lra::run_tests(argc, argv);
}
