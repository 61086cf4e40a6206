#undef _FORTIFY_SOURCE  // its longjmp refuses another stack
#include "tests/cuda_emulator/emulator.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <exception>
#include <memory>
#include <numeric>
#include <vector>

#include "tests/cuda_emulator/fiber.h"

constinit thread_local lra::emulator::Index threadIdx, blockIdx, blockDim, gridDim;

namespace lra::emulator {
namespace {

enum class State { ready, at_block_barrier, at_warp, done };

struct Thread {
  std::unique_ptr<Fiber> fiber;
  Index index;
  State state = State::ready;
  Site site = {};    // where it waits
  size_t taken = 0;  // parts of shared memory
};

struct Warp {
  uint32_t words[2][kLanes][kWords];  // by turns: a lane reads one while another writes the next
  unsigned turn = 0, arrived = 0;
  Site site = {};  // of the first that arrived
};

std::string text_of(const Site& site) {
  return std::string(site.what) + " (" + site.file + ":" + std::to_string(site.line) + ")";
}

bool same(const Site& a, const Site& b) {
  return a.line == b.line && (a.file == b.file || std::strcmp(a.file, b.file) == 0);
}

// xorshift64* (Vigna, ACM TOMS 2016).
struct Random {
  uint64_t state;
  size_t below(size_t n) {
    state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
    return static_cast<size_t>((state * 0x2545F4914F6CDD1D) >> 33) % n;
  }
};

void put_in_order(std::vector<size_t>& of, Order order, Random& random) {
  if (order == Order::descending) std::reverse(of.begin(), of.end());
  if (order != Order::random) return;
  for (size_t i = of.size(); i > 1; --i) std::swap(of[i - 1], of[random.below(i)]);
}

// The shared memory of a block: parts with zones between them that nobody may touch.
class SharedMemory {
 public:
  void reset(size_t bytes) {
    allowed_ = bytes, used_ = 0;
    parts_.clear();
    allow_access(bytes_.data(), bytes_.size());
    bytes_.resize(bytes + kZone * (kMaxParts + 1) + kAlignment);
    for (size_t i = 0; i + 4 <= bytes_.size(); i += 4)
      std::memcpy(bytes_.data() + i, &kUnwritten, 4);
    const auto at = reinterpret_cast<uintptr_t>(bytes_.data());
    next_ = (at + kAlignment - 1) / kAlignment * kAlignment - at + kZone;
    forbid_access(bytes_.data(), bytes_.size());
  }

  /// Part `number`; throws Fault where it is not as the first thread had it, or is too large.
  void* take(size_t number, size_t bytes) {
    if (number == parts_.size()) add(bytes);
    if (parts_[number].bytes != bytes) {
      throw Fault(
          "threads take different parts of shared memory: " + std::to_string(parts_[number].bytes) +
          " and " + std::to_string(bytes) + " bytes");
    }
    return bytes_.data() + parts_[number].begin;
  }

  void check_zones() {
    allow_access(bytes_.data(), bytes_.size());
    size_t at = 0;
    for (const Part& part : parts_) {
      check_zone(at, part.begin);
      at = part.begin + part.bytes;
    }
    check_zone(at, bytes_.size() / 4 * 4);
  }

 private:
  static constexpr size_t kZone = 64, kAlignment = 16, kMaxParts = 64;
  struct Part {
    size_t begin, bytes;
  };

  void add(size_t bytes) {
    const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    used_ += rounded;
    if (used_ > allowed_ || parts_.size() == kMaxParts) {
      throw Fault("a kernel takes " + std::to_string(used_) + " bytes of shared memory in " +
                  std::to_string(parts_.size() + 1) + " parts, of the " + std::to_string(allowed_) +
                  " bytes of its launch");
    }
    parts_.push_back({next_, bytes});
    allow_access(bytes_.data() + next_, bytes);
    next_ += rounded + kZone;
  }

  void check_zone(size_t begin, size_t end) const {
    for (size_t i = begin; i < end; ++i) {
      if (bytes_[i] != reinterpret_cast<const unsigned char*>(&kUnwritten)[i % 4])
        throw Fault("a kernel writes past a part of its shared memory");
    }
  }

  std::vector<unsigned char> bytes_;
  std::vector<Part> parts_;
  size_t next_ = 0, used_ = 0, allowed_ = 0;
};

// The block that this thread runs.
class Block {
 public:
  /// Throws Fault.
  void run(const Index& size, size_t shared_bytes, const Schedule& schedule, Random& random,
           void (*body)(const void*), const void* argument);

  void wait_for_block(const Site& site);
  LaneWords wait_for_warp(const Site& site, const uint32_t* words, int count);
  /// As wait_for_warp(), and what a lane wrote before it others read after it.
  void order_warp(const Site& site);
  void* take(size_t bytes) {
    try {
      return shared_.take(current_->taken++, bytes);
    } catch (const Fault& fault) {
      stop(fault.what());
    }
  }
  int lane() const { return static_cast<int>(number_of(*current_) % kLanes); }

 private:
  size_t number_of(const Thread& thread) const {
    const Index& at = thread.index;
    return (at.z * size_.y + at.y) * size_.x + at.x;
  }
  void prepare(const Index& size, size_t shared_bytes);
  void resume(Thread& thread);
  void pause(State state, const Site& site) {
    current_->state = state;
    current_->site = site;
    current_->fiber->leave();
  }
  [[noreturn]] void stop(const std::string& why) {
    fault_ = why;
    for (;;) current_->fiber->leave();  // never resumed
  }
  [[noreturn]] void abandon();
  std::string who_waits() const;

  Index size_;
  void (*body_)(const void*) = nullptr;
  const void* argument_ = nullptr;
  std::deque<Thread> threads_;
  size_t count_ = 0, at_barrier_ = 0, alive_ = 0;
  Site barrier_ = {};
  std::vector<Warp> warps_;
  SharedMemory shared_;
  Thread* current_ = nullptr;
  std::string fault_;
};

void Block::prepare(const Index& size, size_t shared_bytes) {
  size_ = size;
  count_ = alive_ = size_t{size.x} * size.y * size.z;
  at_barrier_ = 0;
  warps_.assign(count_ / kLanes, {});
  fault_.clear();
  shared_.reset(shared_bytes);
  while (threads_.size() < count_) threads_.emplace_back();
  for (size_t t = 0; t < count_; ++t) {
    Thread& thread = threads_[t];
    const auto n = static_cast<unsigned>(t);
    thread.index = {n % size.x, n / size.x % size.y, n / size.x / size.y};
    thread.state = State::ready;
    thread.taken = 0;
    if (thread.fiber == nullptr) {
      thread.fiber = std::make_unique<Fiber>([this, &thread] {
        acquire_from(&count_);
        body_(argument_);
        release_to(&alive_);
        thread.state = State::done;
        --alive_;
      });
    }
  }
}

void Block::run(const Index& size, size_t shared_bytes, const Schedule& schedule, Random& random,
                void (*body)(const void*), const void* argument) {
  body_ = body, argument_ = argument;
  prepare(size, shared_bytes);
  release_to(&count_);
  std::vector<size_t> turn;
  while (alive_ > 0) {
    turn.clear();
    for (size_t t = 0; t < count_; ++t) {
      if (threads_[t].state == State::ready) turn.push_back(t);
    }
    if (turn.empty())
      fault_ = "not all threads of a block, or lanes of a warp, meet: " + who_waits();
    put_in_order(turn, schedule.threads, random);
    for (size_t t : turn) {
      if (fault_.empty()) resume(threads_[t]);
    }
    if (!fault_.empty()) abandon();
  }
  acquire_from(&alive_);
  shared_.check_zones();
}

void Block::resume(Thread& thread) {
  current_ = &thread;
  threadIdx = thread.index;
  thread.fiber->enter();
}

void Block::abandon() {
  for (size_t t = 0; t < count_; ++t) threads_[t].fiber.reset();
  throw Fault(fault_);
}

std::string Block::who_waits() const {
  size_t done = 0;
  std::string text;
  const Site* named = nullptr;
  for (size_t t = 0; t < count_; ++t) {
    const Thread& thread = threads_[t];
    if (thread.state == State::done) ++done;
    if (thread.state == State::done || (named != nullptr && same(*named, thread.site))) continue;
    named = &thread.site;
    text += "thread " + std::to_string(t) + " waits in " + text_of(thread.site) + ", ";
  }
  return text + std::to_string(done) + " of " + std::to_string(count_) + " have returned";
}

void Block::wait_for_block(const Site& site) {
  if (at_barrier_ == 0) barrier_ = site;
  if (!same(barrier_, site))
    stop("threads of a block wait at different barriers: " + text_of(barrier_) + ", " +
         text_of(site));
  release_to(&barrier_);
  if (++at_barrier_ < count_) {
    pause(State::at_block_barrier, site);
  } else {
    at_barrier_ = 0;
    for (size_t t = 0; t < count_; ++t) {
      if (threads_[t].state == State::at_block_barrier) threads_[t].state = State::ready;
    }
  }
  acquire_from(&barrier_);
}

LaneWords Block::wait_for_warp(const Site& site, const uint32_t* words, int count) {
  const size_t own = number_of(*current_);
  Warp& warp = warps_[own / kLanes];
  if (warp.arrived == 0) warp.site = site;
  if (!same(warp.site, site))
    stop("lanes of a warp are in different collectives: " + text_of(warp.site) + ", " +
         text_of(site));
  auto* slots = warp.words[warp.turn % 2];
  for (int w = 0; w < count; ++w) slots[own % kLanes][w] = words[w];
  if (++warp.arrived < kLanes) {
    pause(State::at_warp, site);
  } else {
    warp.arrived = 0;
    ++warp.turn;
    const size_t first = own / kLanes * kLanes;
    for (size_t t = first; t < first + kLanes; ++t) {
      if (threads_[t].state == State::at_warp) threads_[t].state = State::ready;
    }
  }
  return slots;
}

void Block::order_warp(const Site& site) {
  Warp& warp = warps_[number_of(*current_) / kLanes];
  release_to(&warp);
  wait_for_warp(site, nullptr, 0);
  acquire_from(&warp);
}

thread_local Block t_block;
thread_local Schedule t_schedule;
thread_local size_t t_shared_bytes = 163 * 1024;
std::atomic<int64_t> g_launches = 0;

void check_launch(const Index& grid, const Index& block, size_t shared_bytes) {
  const size_t threads = size_t{block.x} * block.y * block.z;
  const auto refuse = [](const std::string& what) {
    throw std::invalid_argument("a GPU would refuse this launch: " + what);
  };
  if (threads == 0 || threads > 1024 || threads % kLanes != 0)
    refuse("a block of " + std::to_string(threads) + " threads");
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) refuse("an empty grid");
  if (grid.x > 0x7FFFFFFF || grid.y > 65535 || grid.z > 65535) refuse("too large a grid");
  if (shared_bytes > t_shared_bytes)
    refuse(std::to_string(shared_bytes) + " bytes of shared memory; there are " +
           std::to_string(t_shared_bytes) + " a block");
}

}  // namespace

WithSchedule::WithSchedule(const Schedule& schedule) : before_(t_schedule) {
  t_schedule = schedule;
}
WithSchedule::~WithSchedule() { t_schedule = before_; }

WithSharedBytes::WithSharedBytes(size_t most) : before_(t_shared_bytes) { t_shared_bytes = most; }
WithSharedBytes::~WithSharedBytes() { t_shared_bytes = before_; }

int64_t launches() { return g_launches; }

void run(const Index& grid, const Index& block, size_t shared_bytes, void (*body)(const void*),
         const void* argument) {
  check_launch(grid, block, shared_bytes);
  ++g_launches;
  gridDim = grid, blockDim = block;
  Random random{t_schedule.seed * 0x9E3779B97F4A7C15 + 1};
  std::vector<size_t> blocks(size_t{grid.x} * grid.y * grid.z);
  std::iota(blocks.begin(), blocks.end(), size_t{0});
  put_in_order(blocks, t_schedule.blocks, random);
  for (size_t number : blocks) {
    const auto n = static_cast<unsigned>(number);
    blockIdx = {n % grid.x, n / grid.x % grid.y, n / grid.x / grid.y};
    t_block.run(block, shared_bytes, t_schedule, random, body, argument);
  }
}

void block_barrier(const Site& site) { t_block.wait_for_block(site); }
void warp_barrier(const Site& site) { t_block.order_warp(site); }
LaneWords warp_gather(const Site& site, const uint32_t* words, int count) {
  return t_block.wait_for_warp(site, words, count);
}
int lane() { return t_block.lane(); }
void* take_shared(size_t bytes) { return t_block.take(bytes); }

}  // namespace lra::emulator
