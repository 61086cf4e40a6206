// Processes on GPUs, by NCCL through LibTorch's c10d. They find each other as
// torch.distributed's env:// does.
#include <ATen/core/ivalue.h>
#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <torch/csrc/distributed/c10d/NCCLUtils.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "harness/host/runtime.h"
#include "harness/processes/processes.h"

namespace lra {
namespace {

std::string needed(const host::Launch& launch, const std::string& name) {
  const std::optional<std::string> value = host::environment_variable(name);
  if (value && !value->empty()) return *value;
  throw UsageError(fmt::format(
      "{} started {} processes, and on GPUs they find each other at MASTER_ADDR:MASTER_PORT, but "
      "{} is not set; torchrun --no-python sets both",
      launch.by, launch.size, name));
}

uint16_t port_of(const std::string& text) {
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size() || port == 0)
    throw UsageError("MASTER_PORT should be a port from 1 to 65535, not '" + text + "'");
  return port;
}

c10::intrusive_ptr<c10d::Store> meet(const host::Launch& launch) {
  const std::string address = needed(launch, "MASTER_ADDR");
  c10d::TCPStoreOptions options;
  options.port = port_of(needed(launch, "MASTER_PORT"));
  // torchrun's agent may serve itself.
  options.isServer =
      launch.rank == 0 &&
      host::environment_variable("TORCHELASTIC_USE_AGENT_STORE").value_or("") != "True";
  options.numWorkers = static_cast<size_t>(launch.size);
  return c10::make_intrusive<c10d::PrefixStore>(
      "lra", c10::make_intrusive<c10d::TCPStore>(address, options));
}

class NcclProcesses final : public Processes {
 public:
  explicit NcclProcesses(const host::Launch& launch)
      : Processes(launch, "nccl"),
        device_(host::parse_device(fmt::format("cuda:{}", launch.local_rank))),
        group_(c10::make_intrusive<c10d::ProcessGroupNCCL>(
            meet(launch), static_cast<int>(launch.rank), static_cast<int>(launch.size))) {}
  ~NcclProcesses() override { group_->shutdown(); }

  void sum(const torch::Tensor& values) override {
    on_device(values, [&](std::vector<torch::Tensor>& list) { return group_->allreduce(list); });
  }

  void broadcast(const torch::Tensor& values, int64_t from) override {
    c10d::BroadcastOptions options;
    options.rootRank = from;
    on_device(values,
              [&](std::vector<torch::Tensor>& list) { return group_->broadcast(list, options); });
  }

  // NCCL does not end the other processes: the launcher does when this one ends with an error.
  [[noreturn]] void abort(int status) override { std::_Exit(status); }

 private:
  template <class Call>
  void on_device(const torch::Tensor& values, const Call& call) {
    std::vector<torch::Tensor> list = {values.to(device_)};
    call(list)->wait();
    if (values.device() != device_) values.copy_(list.front());
  }

  torch::Device device_;
  c10::intrusive_ptr<c10d::ProcessGroupNCCL> group_;
};

}  // namespace

std::unique_ptr<Processes> start_nccl(const host::Launch& launch) {
  return std::make_unique<NcclProcesses>(launch);
}

std::string nccl_version() { return c10d::getNcclVersion(); }

}  // namespace lra
