// The library lra_nccl: processes on GPUs by NCCL, through LibTorch's c10d.
#include "harness/processes/nccl_group.h"

#include <ATen/core/ivalue.h>

#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

namespace lra {
namespace {

class C10dGroup final : public NcclGroup {
 public:
  C10dGroup(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size)
      : group_(c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank, size)) {}
  ~C10dGroup() override { group_->shutdown(); }

  void sum(const torch::Tensor& values) override {
    std::vector<torch::Tensor> list = {values};
    group_->allreduce(list)->wait();
  }

  void broadcast(const torch::Tensor& values, int64_t from) override {
    std::vector<torch::Tensor> list = {values};
    c10d::BroadcastOptions options;
    options.rootRank = from;
    group_->broadcast(list, options)->wait();
  }

 private:
  c10::intrusive_ptr<c10d::ProcessGroupNCCL> group_;
};

}  // namespace
}  // namespace lra

extern "C" std::unique_ptr<lra::NcclGroup> lra_make_nccl_group(
    const c10::intrusive_ptr<c10d::Store>& store, int rank, int size) {
  return std::make_unique<lra::C10dGroup>(store, rank, size);
}
