#include "harness/processes/data_parallel.h"

#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>

#include <algorithm>

#include "attention_variants/base/random.h"
#include "attention_variants/ops/dropout.h"
#include "attention_variants/python_host.h"

namespace lra {

torch::Tensor flat_buffer(const std::vector<torch::Tensor>& parameters) {
  int64_t count = 0;
  for (const torch::Tensor& parameter : parameters) count += parameter.numel();
  count += std::ssize(parameters);
  return torch::empty({count}, parameters.front().options().requires_grad(false));
}

void sum_gradients(Processes& processes, const std::vector<torch::Tensor>& parameters,
                   const torch::Tensor& flat) {
  const torch::NoGradGuard no_grad;
  const auto for_each = [&](const auto& work) {
    int64_t begin = 0;
    for (const torch::Tensor& parameter : parameters) {
      work(parameter, flat.narrow(0, begin, parameter.numel()).view(parameter.sizes()));
      begin += parameter.numel();
    }
  };
  const int64_t count = std::ssize(parameters);
  const torch::Tensor having = flat.narrow(0, flat.numel() - count, count);
  std::vector<double> has;  // a gradient, of each parameter
  for_each([&](const torch::Tensor& parameter, torch::Tensor part) {
    has.push_back(parameter.grad().defined() ? 1 : 0);
    if (parameter.grad().defined()) {
      part.copy_(parameter.grad());
    } else {
      part.zero_();
    }
  });
  having.copy_(torch::tensor(has, torch::kDouble));
  processes.sum(flat);
  // Read where it matters alone: a device is waited for.
  torch::Tensor in_any;
  if (std::ranges::count(has, 0) > 0) in_any = having.to(torch::kCPU, torch::kDouble);
  int64_t i = 0;
  for_each([&](const torch::Tensor& parameter, const torch::Tensor& part) {
    if (parameter.grad().defined()) {
      parameter.mutable_grad().copy_(part);
    } else if (in_any[i].item<double>() > 0) {
      parameter.mutable_grad() = part.clone();
    }
    ++i;
  });
}

void broadcast_state(Processes& processes, torch::nn::Module& module) {
  const torch::NoGradGuard no_grad;
  const auto send = [&](const torch::Tensor& tensor) {
    const torch::Tensor own = tensor.detach(), whole = own.contiguous();
    processes.broadcast(whole, 0);
    if (!whole.is_same(own)) own.copy_(whole);
  };
  for (const torch::Tensor& parameter : module.parameters()) send(parameter);
  for (const torch::Tensor& buffer : module.buffers()) send(buffer);
}

void for_each_micro_batch(Range share, int64_t parts, uint64_t seed, int64_t step,
                          const std::function<void(Range)>& work) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const auto state = [](at::Generator& of) {
    const std::lock_guard lock(of.mutex());
    return of.get_state();
  };
  const torch::Tensor before = state(generator);
  torch::Tensor after = before;
  for (int64_t i = 0; i < parts; ++i) {
    const Range part = share_of(share.end - share.begin, i, parts);
    const auto first = static_cast<uint64_t>(share.begin + part.begin);
    at::Generator seeds = at::make_generator<at::CPUGeneratorImpl>();
    seeds.set_state(before);
    const auto words = philox({static_cast<uint32_t>(step), static_cast<uint32_t>(step >> 32),
                               static_cast<uint32_t>(first), static_cast<uint32_t>(first >> 32)},
                              {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
    seed_generators(words[0] | static_cast<uint64_t>(words[1]) << 32);
    {
      const ops::BatchSlice rows(share.begin + part.begin, part.end - part.begin, seeds);
      work(part);
    }
    after = state(seeds);
  }
  const std::lock_guard lock(generator.mutex());
  generator.set_state(after);
}

int64_t micro_batch_count(int64_t batch, int64_t micro_batch, int64_t processes) {
  if (batch < processes) {
    throw UsageError(
        fmt::format("training.batch ({}) is less than the {} processes, and each needs a sample of "
                    "every batch; start at most {}",
                    batch, processes, batch));
  }
  if (micro_batch == 0) return 1;
  const int64_t least = batch / processes, most = (batch + processes - 1) / processes;
  const int64_t parts = (most + micro_batch - 1) / micro_batch;
  if (parts > least) {
    throw UsageError(fmt::format(
        "with training.micro_batch={} processes with {} samples of a batch would take {} parts, "
        "and those with {} cannot; take a batch that {} processes share evenly, or larger parts",
        micro_batch, most, parts, least, processes));
  }
  return parts;
}

}  // namespace lra
