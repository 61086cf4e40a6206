// Whatever way batches come to a device, they are those of the stream.
#include "harness/steps/batch_feed.h"

#include <gtest/gtest.h>

#include "lra/data/resident.h"
#include "tests/harness/steps/step_fixture.h"

namespace lra {
namespace {

TEST(BatchFeed, EveryKindGivesTheBatchesOfTheStream) {
  const Scratch scratch;
  const Split split = random_split(task("listops"), scratch.path() / "split.safetensors", 10);
  const LoaderOptions options{.batch = 4, .length = 64, .shuffle = true, .seed = 5};
  for (const auto& [kind, device] : {std::pair{FeedKind::host, torch::Device(torch::kCPU)},
                                     {FeedKind::resident, recorded_device()},
                                     {FeedKind::ahead, recorded_device()}}) {
    TrainingStream stream(split, options, /*start_batch=*/3);
    const auto feed = make_feed(kind, {split}, options, device, /*start_batch=*/3);
    for (int64_t i = 0; i < 9; ++i) {
      const Batch expected = stream.next(), found = feed->next();
      EXPECT_EQ(found.tokens.device(), device);
      EXPECT_EQ(found.mask.device(), device);
      EXPECT_TRUE(torch::equal(found.tokens.cpu(), expected.tokens)) << i;
      EXPECT_TRUE(torch::equal(found.mask.cpu(), expected.mask)) << i;
      EXPECT_TRUE(torch::equal(found.labels.cpu(), expected.labels)) << i;
      EXPECT_EQ(found.full, expected.full);
    }
  }
}

TEST(BatchFeed, SamplesStayOnADeviceWhereTheyFit) {
  const Scratch scratch;
  const std::vector<Split> splits = {
      random_split(task("listops"), scratch.path() / "split.safetensors", 10)};
  const LoaderOptions options{.batch = 4, .length = 64};
  const int64_t bytes = ResidentSamples::bytes(splits, options);
  EXPECT_EQ(feed_kind(splits, options, recorded_device(), bytes), FeedKind::resident);
  EXPECT_EQ(feed_kind(splits, options, recorded_device(), bytes - 1), FeedKind::ahead);
  EXPECT_EQ(feed_kind(splits, options, torch::kCPU, bytes), FeedKind::host);
}

}  // namespace
}  // namespace lra
