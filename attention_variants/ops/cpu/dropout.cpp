#include "attention_variants/ops/cpu/dropout.h"
#include "attention_variants/ops/heads.h"

#include <ATen/Dispatch.h>
#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>

#include "attention_variants/ops/autograd_state.h"
#include "attention_variants/ops/cpu/kernels/rows/dropout_bits.h"
#include "attention_variants/ops/cpu/operators.h"

namespace lra::ops::cpu {
namespace {

constexpr int64_t kLanes = kDropoutLanes, kHalves = kDropoutHalves, kBlock = kDropoutBlock;

int64_t blocks_of(int64_t count) { return (count + kBlock - 1) / kBlock; }

// Elements as the row kernels take them.
template <class T>
T* raw(T* x) {
  return x;
}
const uint16_t* raw(const c10::BFloat16* x) { return reinterpret_cast<const uint16_t*>(x); }
uint16_t* raw(c10::BFloat16* x) { return reinterpret_cast<uint16_t*>(x); }

enum class Draw { anew, as_before };

// Elements [start, start + count) of the whole batch's tensor, `start` that of a block. Leaves the
// bits in `kept` where it is not null.
template <class T>
void keep_blocks(const T* x, T* y, int64_t start, int64_t count, const DropoutMask& mask,
                 uint16_t* kept) {
  constexpr int64_t kChunk = 64 * kBlock;
  std::array<uint16_t, kChunk / kLanes> chunk;
  const auto scale = static_cast<at::opmath_type<T>>(mask.scale());
  for (int64_t begin = 0; begin < count; begin += kChunk) {
    const int64_t n = std::min(kChunk, count - begin);
    uint16_t* bits = kept == nullptr ? chunk.data() : kept + begin / kLanes;
    philox_keep_bits(mask.seed, (start + begin) / kBlock, blocks_of(n), mask.threshold, bits);
    apply_keep_bits(raw(x + begin), raw(y + begin), bits, n, scale);
  }
}

// Elements [start, start + count) of the tensor, `start` a multiple of kBlock from its beginning or
// from that of the whole batch's tensor.
template <class T>
void keep(const T* x, T* y, int64_t start, int64_t count, const DropoutMask& mask, Draw draw) {
  if (mask.bits.defined()) {
    uint16_t* bits = mask.bits.mutable_data_ptr<uint16_t>() + start / kLanes;
    if (draw == Draw::anew) return keep_blocks(x, y, mask.first + start, count, mask, bits);
    return apply_keep_bits(raw(x), raw(y), bits, count,
                           static_cast<at::opmath_type<T>>(mask.scale()));
  }
  start += mask.first;
  const int64_t before = start % kBlock;
  if (before > 0) {  // within a block: a copy of it stands at its beginning
    const int64_t n = std::min(kBlock - before, count);
    std::array<T, kBlock> block{};
    T* copy = block.data() + before;
    std::copy(x, x + n, copy);
    keep_blocks(block.data(), block.data(), start - before, before + n, mask, nullptr);
    std::copy(copy, copy + n, y);
    x += n, y += n, start += n, count -= n;
  }
  keep_blocks(x, y, start, count, mask, nullptr);
}

torch::Tensor masked(const torch::Tensor& given, const DropoutMask& mask, Draw draw) {
  const torch::Tensor x = dense(given);
  torch::Tensor y = torch::empty_like(x);
  const int64_t first = mask.first, last = first + x.numel();
  AT_DISPATCH_FLOATING_TYPES_AND(torch::kBFloat16, x.scalar_type(), "dropout", [&] {
    const auto* from = x.const_data_ptr<scalar_t>();
    auto* to = y.mutable_data_ptr<scalar_t>();
    const auto body = [&](int64_t begin, int64_t end) {
      const int64_t start = std::max(begin * kBlock, first) - first,
                    stop = std::min(end * kBlock, last) - first;
      keep(from + start, to + start, start, stop - start, mask, draw);
    };
    at::parallel_for(first / kBlock, blocks_of(last), 256, body);
  });
  return y;
}

class DropoutFunction : public torch::autograd::Function<DropoutFunction> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& x,
                               DropoutMask mask) {
    save_dropout(*context, "mask", mask);
    return masked(x, mask, Draw::anew);
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               const torch::autograd::tensor_list& gradients) {
    check_first_order();
    return {masked(gradients[0], saved_dropout(*context, "mask"), Draw::as_before), {}};
  }
};

void drop_out_of(const DropoutMask& mask, int64_t start, int64_t count, const float* x, float* y,
                 Draw draw) {
  if (mask.threshold != 0) return keep(x, y, start, count, mask, draw);
  if (x != y) std::copy(x, x + count, y);
}

}  // namespace

bool takes(const Place& place, const DropoutShape& shape) {
  return place.device == torch::kCPU && dropout_threshold(shape.p) < 65536;
}

torch::Tensor run(const DropoutCall& call) {
  return DropoutFunction::apply(call.x,
                                make_dropout_mask(call.p, /*training=*/true, call.x.numel()));
}

DropoutMask make_dropout_mask(double p, bool training, int64_t count, DropoutBits bits) {
  const DrawnDropout drawn = draw_dropout(p, training, count);
  TORCH_CHECK(drawn.device_seed == nullptr, "a recorded dropout should run on a GPU");
  DropoutMask mask{.seed = drawn.seed, .threshold = drawn.threshold, .first = drawn.first};
  if (drawn.threshold != 0 && bits == DropoutBits::kept && at::GradMode::is_enabled() &&
      mask.first % kBlock == 0)
    mask.bits = torch::empty({blocks_of(count) * kHalves}, torch::kUInt16);
  return mask;
}

void save_dropout(torch::autograd::AutogradContext& context, const std::string& name,
                  const DropoutMask& mask) {
  context.saved_data[name] = static_cast<int64_t>(mask.seed);
  context.saved_data[name + "_share"] = static_cast<int64_t>(mask.threshold);
  context.saved_data[name + "_first"] = mask.first;
  if (mask.bits.defined()) context.saved_data[name + "_bits"] = mask.bits;
}

DropoutMask saved_dropout(const torch::autograd::AutogradContext& context,
                          const std::string& name) {
  const auto value = [&](const char* of) { return context.saved_data.at(name + of).toInt(); };
  DropoutMask mask{.seed = static_cast<uint64_t>(value("")),
                   .threshold = static_cast<uint32_t>(value("_share")),
                   .first = value("_first")};
  const auto bits = context.saved_data.find(name + "_bits");
  if (bits != context.saved_data.end()) mask.bits = bits->second.toTensor();
  return mask;
}

void apply_dropout(const DropoutMask& mask, int64_t start, int64_t count, const float* x,
                   float* y) {
  drop_out_of(mask, start, count, x, y, Draw::anew);
}

void reapply_dropout(const DropoutMask& mask, int64_t start, int64_t count, const float* x,
                     float* y) {
  drop_out_of(mask, start, count, x, y, Draw::as_before);
}

}  // namespace lra::ops::cpu
