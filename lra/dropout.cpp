#include "lra/dropout.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <mutex>

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

template <class T>
void keep(const T* x, T* y, int64_t first_block, int64_t count, uint64_t seed, uint32_t threshold,
          double scale) {
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

torch::Tensor masked(const torch::Tensor& given, uint64_t seed, uint32_t threshold) {
  const torch::Tensor x = given.contiguous();
  torch::Tensor y = torch::empty_like(x);
  const double scale = 65536.0 / (65536.0 - threshold);
  const int64_t count = x.numel();
  AT_DISPATCH_FLOATING_TYPES_AND(torch::kBFloat16, x.scalar_type(), "dropout", [&] {
    const auto* from = x.const_data_ptr<scalar_t>();
    auto* to = y.mutable_data_ptr<scalar_t>();
    at::parallel_for(0, (count + kBlock - 1) / kBlock, 256, [&](int64_t begin, int64_t end) {
      const int64_t start = begin * kBlock;
      keep(from + start, to + start, begin, std::min(end * kBlock, count) - start, seed, threshold,
           scale);
    });
  });
  return y;
}

int64_t threshold_of(double p) { return std::lround(p * 65536); }

class DropoutFunction : public torch::autograd::Function<DropoutFunction> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& x,
                               int64_t seed, int64_t threshold) {
    context->saved_data["seed"] = seed;
    context->saved_data["threshold"] = threshold;
    return masked(x, static_cast<uint64_t>(seed), static_cast<uint32_t>(threshold));
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               const torch::autograd::tensor_list& gradients) {
    const auto seed = static_cast<uint64_t>(context->saved_data["seed"].toInt());
    const auto threshold = static_cast<uint32_t>(context->saved_data["threshold"].toInt());
    return {masked(gradients[0], seed, threshold), {}, {}};
  }
};

}  // namespace

torch::Tensor philox_dropout(const torch::Tensor& x, double p, bool training) {
  TORCH_CHECK(p >= 0 && p <= 1, "dropout should have a probability from 0 to 1, not ", p);
  if (!training || p == 0) return x;
  if (!x.is_cpu() || threshold_of(p) >= 65536) return torch::dropout(x, p, /*train=*/true);
  const DropoutMask mask = draw_dropout(p, training);
  return DropoutFunction::apply(x, static_cast<int64_t>(mask.seed),
                                static_cast<int64_t>(mask.threshold));
}

DropoutMask draw_dropout(double p, bool training) {
  if (!training || p == 0) return {};
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  return {.seed = generator.get<at::CPUGeneratorImpl>()->random64(),
          .threshold = static_cast<uint32_t>(threshold_of(p))};
}

void drop_out(const DropoutMask& mask, int64_t start, int64_t count, const float* x, float* y) {
  if (mask.threshold == 0) {
    if (x != y) std::copy(x, x + count, y);
    return;
  }
  keep(x, y, start / kBlock, count, mask.seed, mask.threshold, mask.scale());
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
