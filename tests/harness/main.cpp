// Google Test's main(), and lra's: a test's fork that goes on as lra (program.h) starts processes
// by this file and the name lra, as lra does by its own.
#include <gtest/gtest.h>

#include <string_view>

#include "tests/harness/program.h"

int main(int argc, char** argv) {
  if (argc > 0 && std::string_view(argv[0]) == "lra") return lra::run_program(argc, argv);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
