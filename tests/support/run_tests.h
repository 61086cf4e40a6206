// Google Test's main() without the end that LibTorch would make of it.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>

namespace lra {

/// Runs the tests and ends this process without the destructors of LibTorch's static objects, a
/// third of what most suites take; under a sanitizer it returns, as that reports at the end.
inline int run_tests(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const int status = RUN_ALL_TESTS();
#ifdef LRA_SANITIZED
  return status;
#else
  std::cout.flush();
  std::fflush(nullptr);
  _exit(status);
#endif
}

}  // namespace lra
