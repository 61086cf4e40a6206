#include "harness/steps/graphed_steps.h"

#include <utility>

#include "attention_variants/base/error.h"
#include "attention_variants/out_of_memory.h"

namespace lra {

GraphedSteps::GraphedSteps(torch::Device device, StepGraphMaker make, StepWork work)
    : device_(device), make_(std::move(make)), work_(std::move(work)) {}

GraphedSteps::Recording& GraphedSteps::recording_for(const Batch& batch) {
  Recording& recording = recordings_[{batch.tokens.sizes().vec(), batch.full}];
  if (recording.graph == nullptr) {
    recording.graph = make_();
    recording.seeds = std::make_unique<ops::SeedTape>(device_);
    recording.inputs = {.tokens = torch::empty_like(batch.tokens),
                        .mask = torch::empty_like(batch.mask),
                        .labels = torch::empty_like(batch.labels),
                        .index = {},
                        .full = batch.full};
  }
  Batch& inputs = recording.inputs;
  inputs.tokens.copy_(batch.tokens, /*non_blocking=*/true);
  inputs.mask.copy_(batch.mask, /*non_blocking=*/true);
  inputs.labels.copy_(batch.labels, /*non_blocking=*/true);
  return recording;
}

void GraphedSteps::capture(Recording& recording) {
  try {
    const ops::SeedTape::Recording seeds(*recording.seeds);
    recording.graph->capture([&] { recording.left = work_.record(recording.inputs); });
  } catch (const std::exception& error) {
    if (is_out_of_memory(error)) throw;
    throw Error("a training step cannot be recorded as a CUDA graph: " + first_line(error) +
                "; launch its operators one by one with --set execution=eager");
  }
  recording.captured = true;
}

void GraphedSteps::run(const Batch& batch) {
  Recording& recording = recording_for(batch);
  if (!recording.captured) {
    recording.graph->warm_up([&] { work_.run(recording.inputs); });
    // At once: what other work pushes out of a cache of the device, a recording cannot copy there.
    if (++recording.warm_ups == kWarmUps) capture(recording);
    return;
  }
  work_.before_replay();
  recording.seeds->draw();
  recording.graph->replay();
  work_.after_replay(recording.left);
}

}  // namespace lra
