// cuda_faults NAME [sound]: runs a kernel of faults.h, with its fault or without, for a sanitizer
// to report; says "no fault" where nothing has ended it.
#include <cstdio>
#include <cstring>
#include <vector>

#include "tests/cuda_emulator/faults.h"

namespace {

struct Named {
  const char* name;
  void (*kernel)(lra::emulator::faults::Params);
};

#define LRA_FAULT(name) \
  { #name, lra::emulator::faults::name }
constexpr Named kFaults[] = {
    LRA_FAULT(missing_barrier),   LRA_FAULT(barrier_of_a_warp), LRA_FAULT(order_of_threads),
    LRA_FAULT(write_past_shared), LRA_FAULT(read_past_shared),  LRA_FAULT(write_past_array),
    LRA_FAULT(read_past_array),
};
#undef LRA_FAULT

}  // namespace

int main(int argc, char** argv) {
  constexpr unsigned kThreads = 64;
  for (const Named& known : kFaults) {
    if (argc < 2 || std::strcmp(argv[1], known.name) != 0) continue;
    const std::vector<float> x(kThreads, 1);
    std::vector<float> y(kThreads, 0);
    const lra::emulator::faults::Params params{x.data(), y.data(), static_cast<int>(kThreads),
                                               argc < 3};
    // Twice: stacks and shared memory are used again.
    for (int times = 0; times < 2; ++times) {
      lra::ops::cuda::launch(known.kernel, {3}, {kThreads}, 2 * kThreads * sizeof(float), nullptr,
                             params);
    }
    std::puts("no fault");
    return 0;
  }
  std::fputs("cuda_faults NAME [sound], of:\n", stderr);
  for (const Named& known : kFaults) std::fprintf(stderr, "  %s\n", known.name);
  return 2;
}
