// CUDA kernels on a CPU, for tests: each thread of a block is a fiber, and fibers change places at
// barriers and at what a warp does together, in a chosen order; blocks run one after another. What
// a GPU leaves undefined is a Fault: a barrier or a shuffle that some threads do not reach, a write
// past a part of shared memory, parts of shared memory that threads disagree on.
//
// Memory that nothing has written holds NaN. AddressSanitizer sees the bounds of shared memory, and
// ThreadSanitizer each thread of a block as one of its own: what no barrier orders is a race.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>

namespace lra::emulator {

class Fault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Index {
  unsigned x = 1, y = 1, z = 1;
};

enum class Order { ascending, descending, random };

/// How the threads of a block follow each other between barriers, and the blocks of a grid.
struct Schedule {
  Order threads = Order::ascending, blocks = Order::ascending;
  uint64_t seed = 1;  // of what is random
};

/// The schedule of this thread's launches while it lives.
class WithSchedule {
 public:
  explicit WithSchedule(const Schedule& schedule);
  ~WithSchedule();
  WithSchedule(const WithSchedule&) = delete;
  WithSchedule& operator=(const WithSchedule&) = delete;

 private:
  Schedule before_;
};

/// While it lives, a block of this thread's launches has no more shared memory than that.
class WithSharedBytes {
 public:
  explicit WithSharedBytes(size_t most);
  ~WithSharedBytes();
  WithSharedBytes(const WithSharedBytes&) = delete;
  WithSharedBytes& operator=(const WithSharedBytes&) = delete;

 private:
  size_t before_;
};

/// Kernels launched so far.
int64_t launches();

/// Runs body(argument) as every thread of every block. Throws Fault, and std::invalid_argument
/// where a GPU would refuse the launch: a block not of whole warps or of more than 1024 threads,
/// an empty grid, more than 163 KiB of shared memory (sm_80; or WithSharedBytes).
void run(const Index& grid, const Index& block, size_t shared_bytes, void (*body)(const void*),
         const void* argument);

/// Where a thread is, for messages.
struct Site {
  const char* what;
  const char* file;
  int line;
};

// What kernels call, below by CUDA's names.
void block_barrier(const Site& site);
void warp_barrier(const Site& site);

/// All 32 lanes' words, `count` <= kWords of each, in rows of kWords; valid until the lane's next
/// collective.
inline constexpr int kLanes = 32, kWords = 8;
using LaneWords = const uint32_t (*)[kWords];
LaneWords warp_gather(const Site& site, const uint32_t* words, int count);
int lane();

/// The next part of the block's shared memory, aligned to 16 bytes.
void* take_shared(size_t bytes);

/// What memory holds that nothing has written: as float32 and twice as bfloat16 a signalling NaN,
/// as an integer an index far out of bounds.
inline constexpr uint32_t kUnwritten = 0x7FA57FA5;

}  // namespace lra::emulator

extern constinit thread_local lra::emulator::Index threadIdx, blockIdx, blockDim, gridDim;

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define LRA_HERE(what) \
  lra::emulator::Site { what, file, line }
#define LRA_SITE const char *file = __builtin_FILE(), int line = __builtin_LINE()

inline constexpr unsigned kFullWarp = 0xFFFFFFFF;

inline void __syncthreads(LRA_SITE) { lra::emulator::block_barrier(LRA_HERE("__syncthreads")); }
inline void __syncwarp(unsigned = kFullWarp, LRA_SITE) {
  lra::emulator::warp_barrier(LRA_HERE("__syncwarp"));
}

namespace lra::emulator {
/// The value that lane `from` has.
template <class T>
T shuffle(const Site& site, T value, int from) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  uint32_t words[2];
  std::memcpy(words, &value, sizeof(T));
  const LaneWords all = warp_gather(site, words, sizeof(T) / 4);
  std::memcpy(&value, all[from], sizeof(T));
  return value;
}
}  // namespace lra::emulator

template <class T>
T __shfl_sync(unsigned, T value, int from, LRA_SITE) {
  return lra::emulator::shuffle(LRA_HERE("__shfl_sync"), value, from & 31);
}
template <class T>
T __shfl_xor_sync(unsigned, T value, int with, LRA_SITE) {
  return lra::emulator::shuffle(LRA_HERE("__shfl_xor_sync"), value, lra::emulator::lane() ^ with);
}
template <class T>
T __shfl_down_sync(unsigned, T value, int by, LRA_SITE) {
  const int own = lra::emulator::lane(), from = own + by;
  return lra::emulator::shuffle(LRA_HERE("__shfl_down_sync"), value, from < 32 ? from : own);
}
template <class T>
T __shfl_up_sync(unsigned, T value, int by, LRA_SITE) {
  const int own = lra::emulator::lane(), from = own - by;
  return lra::emulator::shuffle(LRA_HERE("__shfl_up_sync"), value, from >= 0 ? from : own);
}
inline unsigned __ballot_sync(unsigned, bool of, LRA_SITE) {
  const uint32_t own = of ? 1 : 0;
  const auto all = lra::emulator::warp_gather(LRA_HERE("__ballot_sync"), &own, 1);
  unsigned bits = 0;
  for (int l = 0; l < 32; ++l) bits |= all[l][0] << l;
  return bits;
}
inline bool __any_sync(unsigned mask, bool of, LRA_SITE) {
  return __ballot_sync(mask, of, file, line) != 0;
}
inline bool __all_sync(unsigned mask, bool of, LRA_SITE) {
  return __ballot_sync(mask, of, file, line) == kFullWarp;
}
#undef LRA_SITE
#undef LRA_HERE

struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

template <class T>
T __ldg(const T* x) {
  return *x;
}
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
inline float __expf(float x) { return std::exp(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline unsigned __float_as_uint(float x) {
  unsigned bits;
  std::memcpy(&bits, &x, 4);
  return bits;
}
inline float __uint_as_float(unsigned bits) {
  float x;
  std::memcpy(&x, &bits, 4);
  return x;
}
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
