// Of the module lra_cuda: training steps as CUDA graphs.
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>

#include "harness/steps/step_graph.h"

namespace lra {
namespace {

class CudaStepGraph final : public StepGraph {
 public:
  explicit CudaStepGraph(torch::Device device)
      : device_(device),
        stream_(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device.index())) {}

  void warm_up(const std::function<void()>& work) override { beside(work); }

  void capture(const std::function<void()>& work) override {
    // A recording has memory of its own, and could not have what the steps before it left cached.
    c10::cuda::CUDACachingAllocator::emptyCache();
    beside([&] {
      // Other threads, as the one that prepares batches, go on meanwhile.
      graph_.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
      try {
        work();
      } catch (...) {
        try {
          graph_.capture_end();
        } catch (const c10::Error&) {  // of a recording that is broken off
        }
        graph_.reset();
        throw;
      }
      graph_.capture_end();
    });
  }

  void replay() override {
    const c10::cuda::CUDAGuard guard(device_);
    graph_.replay();
  }

 private:
  // Runs `call` on the stream of recordings, behind what was launched and before what comes.
  void beside(const std::function<void()>& call) {
    const c10::cuda::CUDAGuard guard(device_);
    const c10::cuda::CUDAStream outer = c10::cuda::getCurrentCUDAStream(device_.index());
    wait(stream_, outer);
    {
      const c10::cuda::CUDAStreamGuard on(stream_);
      call();
    }
    wait(outer, stream_);
  }

  static void wait(const c10::cuda::CUDAStream& later, const c10::cuda::CUDAStream& earlier) {
    at::cuda::CUDAEvent event;
    event.record(earlier);
    event.block(later);
  }

  torch::Device device_;
  c10::cuda::CUDAStream stream_;
  at::cuda::CUDAGraph graph_;
};

}  // namespace
}  // namespace lra

extern "C" std::unique_ptr<lra::StepGraph> lra_make_step_graph(torch::Device device) {
  return std::make_unique<lra::CudaStepGraph>(device);
}
