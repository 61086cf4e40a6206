// Google Test's main() without the end that LibTorch would make of it.
#pragma once

#include <gtest/gtest.h>

#include "attention_variants/base/end_process.h"

namespace lra {

/// Runs the tests and ends this process; the destructors of LibTorch's static objects are a third
/// of what most suites take.
[[noreturn]] inline void run_tests(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  end_without_destructors(RUN_ALL_TESTS());
}

}  // namespace lra
