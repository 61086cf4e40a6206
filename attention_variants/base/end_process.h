// The end of a process that has LibTorch loaded.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>

namespace lra {

/// Ends this process without the destructors of static objects, of which LibTorch's are a third of
/// a short command's time; what stdout and stderr hold is written. Under a sanitizer it ends as by
/// std::exit(), where sanitizers report.
[[noreturn]] inline void end_without_destructors(int status) {
  std::cout.flush();
  std::fflush(nullptr);
#ifdef LRA_SANITIZED
  std::exit(status);
#else
  _exit(status);
#endif
}

}  // namespace lra
