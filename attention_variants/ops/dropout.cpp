#include "attention_variants/ops/dropout.h"

#include <ATen/CPUGeneratorImpl.h>

#include <mutex>
#include <utility>

namespace lra::ops {
namespace {

thread_local const BatchSlice* t_slice = nullptr;

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
  {
    const std::lock_guard lock(generator.mutex());
    drawn.seed = generator.get<at::CPUGeneratorImpl>()->random64();
  }
  if (slice != nullptr) drawn.first = slice->first_of(count);
  return drawn;
}

}  // namespace lra::ops
