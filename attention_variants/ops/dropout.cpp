#include "attention_variants/ops/dropout.h"

#include <ATen/CPUGeneratorImpl.h>

#include <mutex>
#include <utility>

#include "attention_variants/ops/autocast.h"

namespace lra::ops {
namespace {

thread_local const BatchSlice* t_slice = nullptr;
thread_local SeedTape* t_tape = nullptr;
thread_local bool t_of_all = false;  // what is dropped is no part of a batch

constexpr int64_t kMostSeeds = 4096;

struct OfAllScope {
  OfAllScope() { t_of_all = true; }
  ~OfAllScope() { t_of_all = false; }
  OfAllScope(const OfAllScope&) = delete;
  OfAllScope& operator=(const OfAllScope&) = delete;
};

}  // namespace

BatchSlice::BatchSlice(int64_t begin, int64_t count, at::Generator seeds)
    : begin_(begin), count_(count), seeds_(std::move(seeds)) {
  TORCH_CHECK(begin >= 0 && count >= 1 && t_slice == nullptr,
              "a part of a batch should begin at 0 or later, hold a sample and be the only one, "
              "not begin at ",
              begin, " and hold ", count);
  t_slice = this;
}

BatchSlice::~BatchSlice() { t_slice = nullptr; }

const BatchSlice* BatchSlice::current() { return t_slice; }

int64_t BatchSlice::first_of(int64_t elements) const {
  TORCH_CHECK(elements % count_ == 0, "a dropout of ", elements,
              " elements should be one of rows of ", count_, " samples");
  return begin_ * (elements / count_);
}

DrawnDropout draw_dropout(double p, bool training, int64_t count) {
  if (!training || p == 0) return {};
  const BatchSlice* slice = BatchSlice::current();
  at::Generator generator =
      slice == nullptr ? at::detail::getDefaultCPUGenerator() : slice->seeds();
  DrawnDropout drawn{.threshold = static_cast<uint32_t>(dropout_threshold(p))};
  if (SeedTape* tape = SeedTape::current()) {
    drawn.device_seed = tape->next();
  } else {
    const std::lock_guard lock(generator.mutex());
    drawn.seed = generator.get<at::CPUGeneratorImpl>()->random64();
  }
  if (slice != nullptr && !t_of_all) drawn.first = slice->first_of(count);
  return drawn;
}

torch::Tensor philox_dropout_of_all(const torch::Tensor& x, double p, bool training) {
  const OfAllScope of_all;
  return philox_dropout(x, p, training);
}

torch::Tensor tied_dropout(const torch::Tensor& x, double p, bool training) {
  if (!training || p == 0) return x;
  // In float32 also for bfloat16: 1 / (1 - p) keeps its digits.
  const auto options = x.options().dtype(wide_type(x.scalar_type())).requires_grad(false);
  const torch::Tensor kept =
      philox_dropout(torch::ones({x.size(0), 1, x.size(2)}, options), p, training);
  return (x * kept).to(x.scalar_type());
}

SeedTape::SeedTape(torch::Device device)
    : seeds_(
          torch::zeros({kMostSeeds}, torch::TensorOptions().dtype(torch::kInt64).device(device))) {}

SeedTape* SeedTape::current() { return t_tape; }

const uint64_t* SeedTape::next() {
  TORCH_CHECK(count_ < kMostSeeds, "a recorded step may have at most ", kMostSeeds, " dropouts");
  return static_cast<const uint64_t*>(seeds_.data_ptr()) + count_++;
}

void SeedTape::draw() {
  if (count_ == 0) return;
  // Pinned memory is kept until the copy is done.
  const torch::Tensor drawn = torch::empty(
      {count_}, torch::TensorOptions().dtype(torch::kInt64).pinned_memory(seeds_.is_cuda()));
  auto* const values = drawn.data_ptr<int64_t>();
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  {
    const std::lock_guard lock(generator.mutex());
    for (int64_t i = 0; i < count_; ++i)
      values[i] = static_cast<int64_t>(generator.get<at::CPUGeneratorImpl>()->random64());
  }
  seeds_.narrow(0, 0, count_).copy_(drawn, /*non_blocking=*/true);
}

SeedTape::Recording::Recording(SeedTape& tape) {
  TORCH_CHECK(t_tape == nullptr, "a recording of seeds should be the only one of its thread");
  tape.count_ = 0;
  tape.kept_.clear();
  t_tape = &tape;
}

SeedTape::Recording::~Recording() { t_tape = nullptr; }

}  // namespace lra::ops
