#include "harness/steps/batch_feed.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <optional>
#include <utility>

#include "lra/data/resident.h"

namespace lra {
namespace {

torch::Tensor sent(const torch::Tensor& tensor, torch::Device device) {
  // Pinned memory goes back to LibTorch's allocator when the copy is done, not before.
  if (device.is_cuda()) return tensor.pin_memory().to(device, /*non_blocking=*/true);
  return tensor.to(device);
}

class HostFeed final : public BatchFeed {
 public:
  HostFeed(std::vector<Split> splits, const LoaderOptions& options, int64_t start_batch)
      : stream_(std::move(splits), options, start_batch) {}
  Batch next() override { return stream_.next(); }

 private:
  TrainingStream stream_;
};

class ResidentFeed final : public BatchFeed {
 public:
  ResidentFeed(const std::vector<Split>& splits, const LoaderOptions& options, torch::Device device,
               int64_t start_batch)
      : stream_(splits, options, device, start_batch) {}
  Batch next() override { return stream_.next(); }

 private:
  ResidentStream stream_;
};

// On a GPU copies are on a stream of their own, and each batch is on its way when the one before is
// given out.
class AheadFeed final : public BatchFeed {
 public:
  AheadFeed(std::vector<Split> splits, const LoaderOptions& options, torch::Device device,
            int64_t start_batch)
      : stream_(std::move(splits), options, start_batch), device_(device) {
    if (device.is_cuda())
      copies_ = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
  }

  Batch next() override {
    if (!coming_) start_copy();
    Batch batch = *std::exchange(coming_, std::nullopt);
    if (copies_) {
      const c10::Stream now = c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
      arrived_->block(now);
      // Its memory belongs to the other stream, which has to wait for this one before it reuses it.
      for (const torch::Tensor& tensor : {batch.tokens, batch.mask, batch.labels})
        tensor.record_stream(now);
    }
    start_copy();
    return batch;
  }

 private:
  void start_copy() {
    const Batch batch = stream_.next();
    if (!copies_) {
      coming_ = send(batch, device_);
      return;
    }
    const c10::StreamGuard guard(*copies_);
    coming_ = send(batch, device_);
    arrived_.emplace(device_.type());
    arrived_->record(*copies_);
  }

  TrainingStream stream_;
  torch::Device device_;
  std::optional<c10::Stream> copies_;  // of a GPU
  std::optional<Batch> coming_;
  std::optional<c10::Event> arrived_;  // `coming_` is there
};

}  // namespace

FeedKind feed_kind(const std::vector<Split>& splits, const LoaderOptions& options,
                   torch::Device device, int64_t room) {
  if (device.is_cpu()) return FeedKind::host;
  // Labels of tokens are made on the host.
  if (predicts_tokens(options.tokens.objective)) return FeedKind::ahead;
  return ResidentSamples::bytes(splits, options) <= room ? FeedKind::resident : FeedKind::ahead;
}

std::unique_ptr<BatchFeed> make_feed(FeedKind kind, std::vector<Split> splits,
                                     const LoaderOptions& options, torch::Device device,
                                     int64_t start_batch) {
  switch (kind) {
    case FeedKind::resident:
      return std::make_unique<ResidentFeed>(splits, options, device, start_batch);
    case FeedKind::ahead:
      return std::make_unique<AheadFeed>(std::move(splits), options, device, start_batch);
    case FeedKind::host:
      break;
  }
  return std::make_unique<HostFeed>(std::move(splits), options, start_batch);
}

Batch send(const Batch& batch, torch::Device device) {
  if (device.is_cpu()) return batch;
  return {.tokens = sent(batch.tokens, device),
          .mask = sent(batch.mask, device),
          .labels = sent(batch.labels, device),
          .index = batch.index,
          .full = batch.full};
}

}  // namespace lra
