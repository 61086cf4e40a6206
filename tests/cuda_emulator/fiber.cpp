#undef _FORTIFY_SOURCE  // its longjmp refuses another stack
#include "tests/cuda_emulator/fiber.h"

#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <cstdint>
#include <new>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define LRA_IF_ASAN(...) __VA_ARGS__
#else
#define LRA_IF_ASAN(...)
#endif
// -fsanitize=thread, or LRA_FIBERS_UNDER_TSAN in a file that is itself not instrumented.
#if defined(__SANITIZE_THREAD__) || defined(LRA_FIBERS_UNDER_TSAN)
#include <sanitizer/tsan_interface.h>
#define LRA_IF_TSAN(...) __VA_ARGS__
#else
#define LRA_IF_TSAN(...)
#endif

namespace lra::emulator {
namespace {

constexpr size_t kGuard = 4096, kStack = 256 * 1024;  // touched as far as it is used

}  // namespace

struct Fiber::Machine {
  std::function<void()> body;
  char* stack = nullptr;  // [kGuard + kStack], the guard first
  ucontext_t start = {};
  jmp_buf inside = {}, outside = {};
  bool started = false;
  LRA_IF_ASAN(void* fake_inside = nullptr; void* fake_outside = nullptr;
              const void* outer_stack = nullptr; size_t outer_bytes = 0;)
  LRA_IF_TSAN(void* tsan = nullptr; void* tsan_outside = nullptr;)

  void arrived_inside() {
    LRA_IF_ASAN(__sanitizer_finish_switch_fiber(fake_inside, &outer_stack, &outer_bytes);)
  }

  static void entry(unsigned low, unsigned high) {
    auto* own = reinterpret_cast<Machine*>(uintptr_t{high} << 32 | low);
    own->arrived_inside();
    for (;;) {
      own->body();
      own->leave();
    }
  }

  void leave() {
    if (_setjmp(inside) == 0) {
      LRA_IF_ASAN(__sanitizer_start_switch_fiber(&fake_inside, outer_stack, outer_bytes);)
      LRA_IF_TSAN(__tsan_switch_to_fiber(tsan_outside, __tsan_switch_to_fiber_no_sync);)
      _longjmp(outside, 1);
    }
    arrived_inside();
  }

  void enter() {
    if (_setjmp(outside) == 0) {
      LRA_IF_ASAN(__sanitizer_start_switch_fiber(&fake_outside, stack + kGuard, kStack);)
      LRA_IF_TSAN(tsan_outside = __tsan_get_current_fiber();
                  __tsan_switch_to_fiber(tsan, __tsan_switch_to_fiber_no_sync);)
      if (started) _longjmp(inside, 1);
      started = true;
      setcontext(&start);
    }
    LRA_IF_ASAN(__sanitizer_finish_switch_fiber(fake_outside, nullptr, nullptr);)
  }
};

Fiber::Fiber(std::function<void()> body) : machine_(new Machine{.body = std::move(body)}) {
  void* stack = mmap(nullptr, kGuard + kStack, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stack == MAP_FAILED) throw std::bad_alloc();
  machine_->stack = static_cast<char*>(stack);
  mprotect(stack, kGuard, PROT_NONE);
  getcontext(&machine_->start);
  machine_->start.uc_stack.ss_sp = machine_->stack + kGuard;
  machine_->start.uc_stack.ss_size = kStack;
  const auto own = reinterpret_cast<uintptr_t>(machine_);
  makecontext(&machine_->start, reinterpret_cast<void (*)()>(&Machine::entry), 2,
              static_cast<unsigned>(own), static_cast<unsigned>(uint64_t{own} >> 32));
  LRA_IF_TSAN(machine_->tsan = __tsan_create_fiber(0);)
}

Fiber::~Fiber() {
  // What it has done comes before what its owner does next, though it may not have ended.
  LRA_IF_TSAN(void* const owner = __tsan_get_current_fiber();
              __tsan_switch_to_fiber(machine_->tsan, __tsan_switch_to_fiber_no_sync);
              __tsan_switch_to_fiber(owner, 0); __tsan_destroy_fiber(machine_->tsan);)
  allow_access(machine_->stack + kGuard, kStack);  // frames that were left for good
  munmap(machine_->stack, kGuard + kStack);
  delete machine_;
}

void Fiber::enter() { machine_->enter(); }
void Fiber::leave() { machine_->leave(); }

#if defined(__SANITIZE_ADDRESS__)
void allow_access(const void* memory, size_t bytes) { ASAN_UNPOISON_MEMORY_REGION(memory, bytes); }
void forbid_access(const void* memory, size_t bytes) { ASAN_POISON_MEMORY_REGION(memory, bytes); }
#else
void allow_access(const void*, size_t) {}
void forbid_access(const void*, size_t) {}
#endif

#if defined(__SANITIZE_THREAD__) || defined(LRA_FIBERS_UNDER_TSAN)
void release_to(void* key) { __tsan_release(key); }
void acquire_from(void* key) { __tsan_acquire(key); }
#else
void release_to(void*) {}
void acquire_from(void*) {}
#endif

}  // namespace lra::emulator
