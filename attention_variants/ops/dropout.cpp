#include "attention_variants/ops/dropout.h"

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

}  // namespace lra::ops
