// Fibers, by ucontext and, faster, by setjmp once they run; as the sanitizers see them.
#pragma once

#include <cstddef>
#include <functional>

namespace lra::emulator {

/// Runs its body again and again on a stack of its own, between enter() and leave().
class Fiber {
 public:
  explicit Fiber(std::function<void()> body);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Runs the body, or the rest of it, until it calls leave() or returns.
  void enter();
  void leave();

  struct Machine;

 private:
  Machine* machine_;
};

/// For AddressSanitizer; nothing without it.
void allow_access(const void* memory, size_t bytes);
void forbid_access(const void* memory, size_t bytes);

/// For ThreadSanitizer: what came before release_to(key) comes before what follows
/// acquire_from(key).
void release_to(void* key);
void acquire_from(void* key);

}  // namespace lra::emulator
