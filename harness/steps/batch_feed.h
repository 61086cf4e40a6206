// Where a run takes its training batches: they are on the device when they are asked for.
#pragma once

#include <memory>
#include <vector>

#include "attention_variants/torch.h"
#include "lra/data/loader.h"

namespace lra {

/// The batches of a TrainingStream, one after another, on a device.
class BatchFeed {
 public:
  BatchFeed() = default;
  virtual ~BatchFeed() = default;
  BatchFeed(const BatchFeed&) = delete;
  BatchFeed& operator=(const BatchFeed&) = delete;
  virtual Batch next() = 0;
};

/// How the batches come to the device.
enum class FeedKind {
  host,      // as the stream makes them: for CPUs
  resident,  // gathered on the device, which holds all samples
  ahead,     // copied from pinned memory while the step before runs
};

/// On a CPU `host`, on others `resident` where the samples take at most `room` bytes and labels are
/// not of tokens, else `ahead`.
FeedKind feed_kind(const std::vector<Split>& splits, const LoaderOptions& options,
                   torch::Device device, int64_t room);

std::unique_ptr<BatchFeed> make_feed(FeedKind kind, std::vector<Split> splits,
                                     const LoaderOptions& options, torch::Device device,
                                     int64_t start_batch);

/// A batch on a GPU, copied from pinned memory on the device's current stream: the host does not
/// wait. On other devices by plain copies; on a CPU the batch itself.
Batch send(const Batch& batch, torch::Device device);

}  // namespace lra
