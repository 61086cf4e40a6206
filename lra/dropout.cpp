#include "lra/dropout.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <mutex>
#include <utility>

#include "attention_variants/kernels/cpu/vector_math.h"
#include "lra/random.h"

namespace lra {
namespace {

// Counters that are computed side by side, and the elements they serve: 8 halves of 4 words each.
constexpr int64_t kLanes = 16, kBlock = 8 * kLanes;
using Block = std::array<uint16_t, kBlock>;

// philox() of the counters [block * kLanes, (block + 1) * kLanes) under key `seed`. Element
// w * kLanes + l of a block is half w of counter l.
LRA_INLINE void draw(uint64_t seed, int64_t block, uint16_t* numbers) {
  const std::array<uint32_t, 2> key = {static_cast<uint32_t>(seed),
                                       static_cast<uint32_t>(seed >> 32)};
  for (int64_t l = 0; l < kLanes; ++l) {
    const auto counter = static_cast<uint64_t>(block * kLanes + l);
    const std::array<uint32_t, 4> words =
        philox({static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0}, key);
    for (int64_t w = 0; w < 4; ++w) {
      const uint32_t word = words[static_cast<size_t>(w)];
      numbers[2 * w * kLanes + l] = static_cast<uint16_t>(word);
      numbers[(2 * w + 1) * kLanes + l] = static_cast<uint16_t>(word >> 16);
    }
  }
}

// y[i] = x[i] * scale where number i is at least `threshold`, else 0, over whole blocks and a tail.
LRA_FOR_EACH_CPU void keep_float(const float* x, float* y, int64_t first_block, int64_t count,
                                 uint64_t seed, uint32_t threshold, float scale) {
  for (int64_t start = 0; start < count; start += kBlock) {
    alignas(64) Block numbers;
    draw(seed, first_block + start / kBlock, numbers.data());
    const int64_t n = std::min(kBlock, count - start);
    for (int64_t i = 0; i < n; ++i)
      y[start + i] = numbers[static_cast<size_t>(i)] >= threshold ? x[start + i] * scale : 0.0F;
  }
}

// The same for the bits of bfloat16 numbers, rounded to the nearest, ties to even.
LRA_FOR_EACH_CPU void keep_bfloat16(const uint16_t* x, uint16_t* y, int64_t first_block,
                                    int64_t count, uint64_t seed, uint32_t threshold, float scale) {
  for (int64_t start = 0; start < count; start += kBlock) {
    alignas(64) Block numbers;
    draw(seed, first_block + start / kBlock, numbers.data());
    const int64_t n = std::min(kBlock, count - start);
    for (int64_t i = 0; i < n; ++i) {
      const float value = std::bit_cast<float>(static_cast<uint32_t>(x[start + i]) << 16) * scale;
      const auto bits = std::bit_cast<uint32_t>(value);
      const uint32_t rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
      const uint32_t number = value == value ? rounded : 0x7FC0;
      y[start + i] =
          static_cast<uint16_t>(numbers[static_cast<size_t>(i)] >= threshold ? number : 0);
    }
  }
}

LRA_FOR_EACH_CPU void numbers_of(uint64_t seed, int64_t block, uint16_t* numbers) {
  draw(seed, block, numbers);
}

// From the first number of a block on.
template <class T>
void keep_blocks(const T* x, T* y, int64_t first_block, int64_t count, uint64_t seed,
                 uint32_t threshold, double scale) {
  if constexpr (std::is_same_v<T, float>) {
    keep_float(x, y, first_block, count, seed, threshold, static_cast<float>(scale));
  } else if constexpr (std::is_same_v<T, c10::BFloat16>) {
    keep_bfloat16(reinterpret_cast<const uint16_t*>(x), reinterpret_cast<uint16_t*>(y), first_block,
                  count, seed, threshold, static_cast<float>(scale));
  } else {
    for (int64_t start = 0; start < count; start += kBlock) {
      Block numbers;
      numbers_of(seed, first_block + start / kBlock, numbers.data());
      const int64_t n = std::min(kBlock, count - start);
      for (int64_t i = 0; i < n; ++i) {
        const bool kept = numbers[static_cast<size_t>(i)] >= threshold;
        y[start + i] =
            kept ? static_cast<T>(static_cast<double>(x[start + i]) * scale) : static_cast<T>(0);
      }
    }
  }
}

// Elements [start, start + count) of the whole batch's tensor.
template <class T>
void keep(const T* x, T* y, int64_t start, int64_t count, const DropoutMask& mask, double scale) {
  const int64_t before = start % kBlock;
  if (before > 0) {  // within a block: a copy of it stands at its beginning
    const int64_t n = std::min(kBlock - before, count);
    std::array<T, kBlock> block{};
    T* copy = block.data() + before;
    std::copy(x, x + n, copy);
    keep_blocks(block.data(), block.data(), start / kBlock, before + n, mask.seed, mask.threshold,
                scale);
    std::copy(copy, copy + n, y);
    x += n, y += n, start += n, count -= n;
  }
  keep_blocks(x, y, start / kBlock, count, mask.seed, mask.threshold, scale);
}

torch::Tensor masked(const torch::Tensor& given, const DropoutMask& mask) {
  const torch::Tensor x = given.contiguous();
  torch::Tensor y = torch::empty_like(x);
  const double scale = 65536.0 / (65536.0 - mask.threshold);
  const int64_t first = mask.first, last = first + x.numel();
  AT_DISPATCH_FLOATING_TYPES_AND(torch::kBFloat16, x.scalar_type(), "dropout", [&] {
    const auto* from = x.const_data_ptr<scalar_t>();
    auto* to = y.mutable_data_ptr<scalar_t>();
    const auto body = [&](int64_t begin, int64_t end) {
      const int64_t start = std::max(begin * kBlock, first), stop = std::min(end * kBlock, last);
      keep(from + (start - first), to + (start - first), start, stop - start, mask, scale);
    };
    at::parallel_for(first / kBlock, (last + kBlock - 1) / kBlock, 256, body);
  });
  return y;
}

int64_t threshold_of(double p) { return std::lround(p * 65536); }

class DropoutFunction : public torch::autograd::Function<DropoutFunction> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& x,
                               DropoutMask mask) {
    save_dropout(*context, "mask", mask);
    return masked(x, mask);
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               const torch::autograd::tensor_list& gradients) {
    return {masked(gradients[0], saved_dropout(*context, "mask")), {}};
  }
};

thread_local const BatchPart* t_part = nullptr;

}  // namespace

torch::Tensor philox_dropout(const torch::Tensor& x, double p, bool training) {
  TORCH_CHECK(p >= 0 && p <= 1, "dropout should have a probability from 0 to 1, not ", p);
  if (!training || p == 0) return x;
  if (!x.is_cpu() || threshold_of(p) >= 65536) return torch::dropout(x, p, /*train=*/true);
  return DropoutFunction::apply(x, draw_dropout(p, training, x.numel()));
}

BatchPart::BatchPart(int64_t begin, int64_t count, at::Generator seeds)
    : begin_(begin), count_(count), seeds_(std::move(seeds)) {
  TORCH_CHECK(begin >= 0 && count >= 1 && t_part == nullptr,
              "a part of a batch should begin at 0 or later, hold a sample and be the only one, "
              "not begin at ",
              begin, " and hold ", count);
  t_part = this;
}

BatchPart::~BatchPart() { t_part = nullptr; }

DropoutMask draw_dropout(double p, bool training, int64_t count) {
  if (!training || p == 0) return {};
  at::Generator generator =
      t_part == nullptr ? at::detail::getDefaultCPUGenerator() : t_part->seeds_;
  DropoutMask mask{.threshold = static_cast<uint32_t>(threshold_of(p))};
  {
    const std::lock_guard lock(generator.mutex());
    mask.seed = generator.get<at::CPUGeneratorImpl>()->random64();
  }
  if (t_part != nullptr) {
    TORCH_CHECK(count % t_part->count_ == 0, "a dropout of ", count,
                " elements should be one of rows of ", t_part->count_, " samples");
    mask.first = t_part->begin_ * (count / t_part->count_);
  }
  return mask;
}

void save_dropout(torch::autograd::AutogradContext& context, const std::string& name,
                  const DropoutMask& mask) {
  context.saved_data[name] = static_cast<int64_t>(mask.seed);
  context.saved_data[name + "_share"] = static_cast<int64_t>(mask.threshold);
  context.saved_data[name + "_first"] = mask.first;
}

DropoutMask saved_dropout(const torch::autograd::AutogradContext& context,
                          const std::string& name) {
  const auto value = [&](const char* of) { return context.saved_data.at(name + of).toInt(); };
  return {.seed = static_cast<uint64_t>(value("")),
          .threshold = static_cast<uint32_t>(value("_share")),
          .first = value("_first")};
}

void drop_out(const DropoutMask& mask, int64_t start, int64_t count, const float* x, float* y) {
  if (mask.threshold == 0) {
    if (x != y) std::copy(x, x + count, y);
    return;
  }
  keep(x, y, mask.first + start, count, mask, mask.scale());
}

std::vector<uint16_t> dropout_numbers(uint64_t seed, int64_t count) {
  std::vector<uint16_t> numbers;
  for (int64_t block = 0; block * kBlock < count; ++block) {
    Block drawn;
    numbers_of(seed, block, drawn.data());
    numbers.insert(numbers.end(), drawn.begin(), drawn.end());
  }
  numbers.resize(static_cast<size_t>(count));
  return numbers;
}

}  // namespace lra
