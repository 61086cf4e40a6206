#include "tests/attention_variants/testing.h"

#include <c10/core/CPUAllocator.h>

#include <limits>
#include <mutex>
#include <unordered_map>

namespace lra {
namespace {

// Hands on to the allocator it stands before, and counts. Sizes live in a table and not beside the
// memory: raw_allocate(), which oneDNN uses, wants the pointer itself as its context.
class CountingAllocator : public c10::Allocator {
 public:
  explicit CountingAllocator(c10::Allocator* inner) : inner_(inner) { instance_ = this; }

  c10::DataPtr allocate(size_t bytes) override {
    void* const data = inner_->raw_allocate(bytes);
    const std::lock_guard lock(mutex_);
    if (data != nullptr) sizes_[data] = static_cast<int64_t>(bytes);
    live_ += static_cast<int64_t>(data != nullptr ? bytes : 0);
    peak_ = std::max(peak_, live_);
    return {data, data, &release, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

  /// Makes what lives now the start.
  int64_t restart() {
    const std::lock_guard lock(mutex_);
    return peak_ = live_;
  }
  int64_t peak() {
    const std::lock_guard lock(mutex_);
    return peak_;
  }

 private:
  static void release(void* data) {
    if (data == nullptr) return;
    {
      const std::lock_guard lock(instance_->mutex_);
      const auto it = instance_->sizes_.find(data);
      instance_->live_ -= it->second;
      instance_->sizes_.erase(it);
    }
    instance_->inner_->raw_deallocate(data);
  }
  static inline CountingAllocator* instance_ = nullptr;
  c10::Allocator* inner_;
  std::mutex mutex_;
  std::unordered_map<void*, int64_t> sizes_;
  int64_t live_ = 0, peak_ = 0;
};

}  // namespace

int64_t peak_bytes(const std::function<void()>& work) {
  // Never freed: a tensor made under it may outlive this call.
  static auto* const counting = [] {
    auto* made = new CountingAllocator(c10::GetCPUAllocator());
    c10::SetCPUAllocator(made, /*priority=*/100);
    return made;
  }();
  const int64_t start = counting->restart();
  work();
  return counting->peak() - start;
}

void expect_nan_stays_in_its_sample(const std::string& spec, int64_t length) {
  for (const auto type : {torch::kFloat, torch::kDouble}) {
    const auto attention = make(spec, type);
    attention->train();
    for (const int64_t place : {int64_t{0}, length - 1}) {
      Inputs in = make_inputs({length, length, length}, length, type);
      for (torch::Tensor* t : {&in.q, &in.k, &in.v}) {
        t->select(0, 1).select(1, place).fill_(std::numeric_limits<double>::quiet_NaN());
        t->set_requires_grad(true);
      }
      const torch::Tensor out = attend(*attention, in);
      out.sum().backward();
      for (const torch::Tensor& found : {out, in.q.grad(), in.k.grad(), in.v.grad()}) {
        EXPECT_TRUE(finite(found[0]) && finite(found[2]))
            << spec << ", N = " << length << ", position " << place << " in " << type;
      }
    }
  }
}

int64_t attend_peak(const std::string& spec, const AttentionContext& context, int64_t batch,
                    bool training) {
  const auto attention = make(spec, torch::kFloat, context);
  attention->train(training);
  Inputs in = make_inputs(std::vector<int64_t>(static_cast<size_t>(batch), context.max_length),
                          context.max_length, torch::kFloat, context.heads, context.head_dim);
  for (torch::Tensor* t : {&in.q, &in.k, &in.v}) t->set_requires_grad(training);
  if (attention->projections() != Projections::query_key_value) in.k = in.q;
  if (attention->projections() == Projections::value_only) in.v = in.q;
  const torch::Tensor gradient = torch::ones_like(in.q);
  return peak_bytes([&] {
    torch::AutoGradMode grad(training);
    torch::Tensor out = attend(*attention, in);
    if (training) out.backward(gradient);
  });
}

}  // namespace lra
