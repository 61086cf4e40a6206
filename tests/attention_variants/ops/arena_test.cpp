#include "attention_variants/ops/cpu/kernels/rows/arena.h"

#include <gtest/gtest.h>

#include <array>

namespace lra::ops::cpu {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr int64_t kGap = 64;
#else
constexpr int64_t kGap = 0;
#endif
constexpr int64_t kLines = 64;  // of the memory in these tests

struct alignas(Arena::kLine) ArenaMemory {
  std::array<std::byte, kLines * Arena::kLine> bytes;
  std::byte* begin() { return bytes.data(); }
  int64_t size() const { return static_cast<int64_t>(bytes.size()); }
};

// A layout: a matrix, then two of which only one lives at a time.
struct ArenaTestLayout {
  ArenaTestLayout(int64_t rows, int64_t columns, Arena& arena)
      : matrix(arena.matrix(rows, columns)) {
    {
      const Arena::Frame first(arena);
      arena.take(16);
    }
    const Arena::Frame second(arena);
    counts = arena.take<int32_t>(100);
  }
  Matrix matrix;
  int32_t* counts;
};

TEST(ArenaTest, HandsOutCacheLines) {
  ArenaMemory memory;
  Arena arena(memory.begin(), memory.size());
  float* const one = arena.take(1);
  const Matrix x = arena.matrix(3, 7);
  auto* const bits = arena.take<uint16_t>(33);
  EXPECT_EQ(reinterpret_cast<std::byte*>(one), memory.begin());
  EXPECT_EQ(reinterpret_cast<std::byte*>(x.data), memory.begin() + Arena::kLine + kGap);
  EXPECT_EQ(x.stride, 7);
  EXPECT_EQ(reinterpret_cast<std::byte*>(bits), memory.begin() + 3 * Arena::kLine + 2 * kGap);
  EXPECT_EQ(arena.peak(), 5 * Arena::kLine + 3 * kGap);
}

TEST(ArenaTest, CountsWhatItWouldTake) {
  const int64_t bytes = bytes_of<ArenaTestLayout>(4, 16);
  EXPECT_EQ(bytes, (4 + 7) * Arena::kLine + 2 * kGap);
  ArenaMemory memory;
  Arena arena(memory.begin(), bytes);  // as much as was counted, and no more
  const ArenaTestLayout layout(4, 16, arena);
  EXPECT_EQ(arena.peak(), bytes);
  EXPECT_EQ(reinterpret_cast<std::byte*>(layout.matrix.data), memory.begin());
}

TEST(ArenaTest, FramesGiveBack) {
  ArenaMemory memory;
  Arena arena(memory.begin(), memory.size());
  float* first = nullptr;
  {
    const Arena::Frame frame(arena);
    first = arena.take(8 * 16);
    {
      const Arena::Frame inner(arena);
      arena.take(8 * 16);
    }
    arena.take(16);
  }
  EXPECT_EQ(arena.peak(), 16 * Arena::kLine + 2 * kGap);
  EXPECT_EQ(arena.take(1), first);
  EXPECT_EQ(arena.peak(), 16 * Arena::kLine + 2 * kGap);
}

TEST(ArenaDeathTest, EndsAtItsEnd) {
  ArenaMemory memory;
  Arena arena(memory.begin(), 4 * (Arena::kLine + kGap));
  arena.take(48);
  EXPECT_DEATH(arena.take(1024), "scratch of .* no room for 4096 more");
  EXPECT_DEATH(arena.take(-1), "no room for -4 more");
  EXPECT_DEATH(arena.take<double>(kLines), "no room for 512 more");
  EXPECT_DEATH(Arena(memory.begin() + 4, 64), "does not begin at a cache line");
}

#if defined(__SANITIZE_ADDRESS__)
TEST(ArenaDeathTest, SanitizerSeesWhatIsNotTaken) {
  ArenaMemory memory;
  Arena arena(memory.begin(), memory.size());
  volatile float* const x = arena.take(20);
  x[19] = 1;
  EXPECT_DEATH(x[20] = 1, "use-after-poison");  // the rest of the line
  arena.take(16);
  EXPECT_DEATH(x[32] = 1, "use-after-poison");  // between two
  volatile float* given_back = nullptr;
  {
    const Arena::Frame frame(arena);
    given_back = arena.take(16);
    given_back[15] = 1;
  }
  EXPECT_DEATH(given_back[0] = 1, "use-after-poison");
}
#endif

TEST(ArenaTest, LeavesItsMemoryUsable) {
  ArenaMemory memory;
  { Arena arena(memory.begin(), memory.size()); }
  memory.bytes.fill(std::byte{1});
  EXPECT_EQ(memory.bytes.back(), std::byte{1});
}

}  // namespace
}  // namespace lra::ops::cpu
