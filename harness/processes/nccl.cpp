// Processes on GPUs, by NCCL through LibTorch's c10d. They find each other as
// torch.distributed's env:// does.
#include <dlfcn.h>
#include <fmt/format.h>
#include <nccl.h>

#include <cstdlib>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "attention_variants/base/text.h"
#include "harness/host/runtime.h"
#include "harness/host/self_command.h"
#include "harness/processes/nccl_group.h"
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
  const uint16_t port = whole_number<uint16_t>(text).value_or(0);
  if (port == 0)
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
  // The agent's store outlives processes that torchrun --max-restarts starts anew.
  const std::string attempt =
      host::environment_variable("TORCHELASTIC_RESTART_COUNT").value_or("0");
  return c10::make_intrusive<c10d::PrefixStore>(
      "lra/" + attempt, c10::make_intrusive<c10d::TCPStore>(address, options));
}

std::unique_ptr<NcclGroup> make_group(const host::Launch& launch) {
  const std::string file = host::module_file(LRA_NCCL_LIBRARY).string();
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);  // stays loaded
  void* make = library == nullptr ? nullptr : dlsym(library, "lra_make_nccl_group");
  if (make == nullptr) throw Error(fmt::format("NCCL cannot be loaded: {}", dlerror()));
  return reinterpret_cast<MakeNcclGroup*>(make)(meet(launch), static_cast<int>(launch.rank),
                                                static_cast<int>(launch.size));
}

class NcclProcesses final : public Processes {
 public:
  explicit NcclProcesses(const host::Launch& launch)
      : Processes(launch, "nccl"),
        device_(gpu_of_rank(launch.local_rank)),
        group_(make_group(launch)) {}

  void sum(const torch::Tensor& values) override {
    on_device(values, [this](const torch::Tensor& on) { group_->sum(on); });
  }

  void broadcast(const torch::Tensor& values, int64_t from) override {
    on_device(values, [&](const torch::Tensor& on) { group_->broadcast(on, from); });
  }

  // NCCL does not end the other processes: the launcher does when this one ends with an error.
  [[noreturn]] void abort(int status) override { std::_Exit(status); }

 private:
  template <class Call>
  void on_device(const torch::Tensor& values, const Call& call) {
    const torch::Tensor on = values.to(device_);
    call(on);
    if (values.device() != device_) values.copy_(on);
  }

  torch::Device device_;
  std::unique_ptr<NcclGroup> group_;
};

}  // namespace

std::unique_ptr<Processes> start_nccl(const host::Launch& launch) {
  return std::make_unique<NcclProcesses>(launch);
}

std::string nccl_version() { return fmt::format("{}.{}.{}", NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH); }

}  // namespace lra
