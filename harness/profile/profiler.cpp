#include "harness/profile/profiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "attention_variants/ops/adamw.h"
#include "attention_variants/ops/autocast.h"
#include "attention_variants/ops/cross_entropy.h"
#include "attention_variants/projected_attention.h"
#include "attention_variants/python_host.h"
#include "harness/host/memory.h"
#include "harness/host/runtime.h"
#include "harness/host/signals.h"
#include "harness/measure/gpu_clocks.h"
#include "harness/measure/machine_watch.h"
#include "lra/model/layer_flops.h"
#include "lra/model/model.h"

namespace lra::profile {
namespace {

int64_t parameter_bytes(const torch::nn::Module& module) {
  int64_t bytes = 0;
  for (const auto& tensor : module.parameters()) bytes += static_cast<int64_t>(tensor.nbytes());
  for (const auto& tensor : module.buffers()) bytes += static_cast<int64_t>(tensor.nbytes());
  return bytes;
}

void clear_gradients(const std::vector<torch::Tensor>& tensors) {
  for (torch::Tensor tensor : tensors) tensor.mutable_grad() = torch::Tensor();
}

int64_t bytes_of(const torch::Tensor& tensor) { return static_cast<int64_t>(tensor.nbytes()); }

/// The work of a cell, and what its record says besides the measurement.
struct Work {
  std::function<void()> call;
  std::function<int64_t()> optimizer_bytes;  // after a call
  json options;
  int64_t parameter_bytes = 0, analytic_bytes = -1, flops = -1, least_bytes = -1;
};

// `forward` gives [.., ..]; training also runs its backward from a gradient made beforehand.
std::function<void()> attention_call(std::function<torch::Tensor()> forward,
                                     std::vector<torch::Tensor> leaves,
                                     const torch::Tensor& gradient, bool training) {
  if (!training) {
    return [forward] {
      const torch::NoGradGuard no_grad;
      forward();
    };
  }
  return [forward, leaves, gradient] {
    run_backward(forward(), gradient);
    clear_gradients(leaves);
  };
}

Work attention_work(const ProfileCell& cell, torch::Device device) {
  const bool training = cell.mode == ProfileMode::training;
  const auto options = torch::TensorOptions().dtype(dtype_of(cell.dtype)).device(device);
  const AttentionContext context{.width = cell.heads * cell.head_dim,
                                 .heads = cell.heads,
                                 .head_dim = cell.head_dim,
                                 .max_length = cell.length,
                                 .seed = 0};
  auto attention = make_attention(made_attention(cell), context);
  attention->to(device, dtype_of(cell.dtype));
  attention->train(training);
  const auto mask = torch::ones({cell.batch, cell.length}, options.dtype(torch::kBool));  // [B,N]
  Work work;
  work.options = attention->options();
  work.parameter_bytes = parameter_bytes(*attention);
  std::vector<torch::Tensor> leaves = attention->parameters();
  if (cell.scope == ProfileScope::core) {
    const auto input = [&] {
      leaves.push_back(torch::randn({cell.batch, cell.heads, cell.length, cell.head_dim}, options)
                           .set_requires_grad(training));
      return leaves.back();
    };
    const Projections shared = attention->projections();
    const auto q = input();
    const auto k = shared == Projections::query_key_value ? input() : q;
    const auto v = shared == Projections::value_only ? q : input();
    const auto gradient = torch::randn_like(q);
    work.call = attention_call([=] { return attention->attend(q, k, v, mask); }, leaves, gradient,
                               training);
    work.analytic_bytes = account_of(*attention, cell, device);
    work.flops = attention->flops(cell.batch, cell.length);
    const int64_t inputs = shared == Projections::query_key_value    ? 3
                           : shared == Projections::shared_query_key ? 2
                                                                     : 1;
    work.least_bytes = (inputs + 1) * bytes_of(q);
    for (const auto& parameter : attention->named_parameters()) {
      if (!is_projection(parameter.key())) work.least_bytes += bytes_of(parameter.value());
    }
  } else {
    const auto x = torch::randn({cell.batch, cell.length, context.width}, options)
                       .set_requires_grad(training);  // [B,N,D]
    leaves.push_back(x);
    const auto gradient = torch::randn_like(x);
    work.call =
        attention_call([=] { return attention->forward(x, mask); }, leaves, gradient, training);
    work.flops = layer_flops(*attention, cell.batch, cell.length);
    work.least_bytes = 2 * bytes_of(x) + work.parameter_bytes;
  }
  return work;
}

int64_t moment_bytes(const ops::FusedAdamW& optimizer) {
  int64_t bytes = 0;
  for (const auto& [parameter, state] : optimizer.state()) {
    const auto& moments = static_cast<const torch::optim::AdamWParamState&>(*state);
    bytes += bytes_of(moments.exp_avg()) + bytes_of(moments.exp_avg_sq());
  }
  return bytes;
}

Work model_work(const ProfileCell& cell, const Config& config, torch::Device device) {
  const Task info = task(cell.task, config.settings.input.reading());
  auto model = std::make_shared<Model>(info, config);
  model->to(device);
  const auto integers = torch::TensorOptions().dtype(torch::kInt64).device(device);
  const auto tokens =
      torch::randint(1, info.vocabulary, {cell.batch, info.sequences(), cell.length}, integers);
  const auto mask = torch::ones_like(tokens, torch::kBool);
  // Labels at positions stand at every kth.
  constexpr int64_t kLabelEvery = 16;
  const bool of_tokens = predicts_tokens(config.settings.training.objective);
  const auto places =
      info.position_labels || of_tokens
          ? torch::arange(0, cell.batch * info.inputs * cell.length, kLabelEvery, integers)
          : torch::Tensor();
  const int64_t label_count = places.defined() ? places.size(0) : cell.batch;
  const int64_t classes = of_tokens ? info.vocabulary : info.classes;
  const auto labels = torch::randint(0, classes, {label_count}, integers);
  Work work;
  work.options = model->attention_options();
  work.parameter_bytes = parameter_bytes(*model);
  work.flops = model->flops(cell.batch, cell.length, label_count);
  work.least_bytes = bytes_of(tokens) + bytes_of(mask) + work.parameter_bytes +
                     label_count * classes * 4;  // logits, float32
  if (cell.mode == ProfileMode::inference) {
    model->eval();
    work.call = [=, dtype = cell.dtype] {
      const torch::NoGradGuard no_grad;
      const ops::AutocastScope autocast(device, dtype);
      model->forward(tokens, mask, places);
    };
    return work;
  }
  auto optimizer =
      std::make_shared<ops::FusedAdamW>(model->parameters(), torch::optim::AdamWOptions(1e-4));
  work.call = [=, dtype = cell.dtype, kernels = config.settings.kernels] {
    torch::Tensor logits, gradient;
    {
      const ops::AutocastScope autocast(device, dtype);
      logits = model->forward(tokens, mask, places);
    }
    {
      RECORD_USER_SCOPE("loss");
      logits = logits.to(torch::kFloat32);
      gradient = ops::cross_entropy(kernels, logits, labels, label_count).gradient;
    }
    run_backward(logits, gradient);
    RECORD_USER_SCOPE("optimizer");
    optimizer->step();
    optimizer->zero_grad();
  };
  work.optimizer_bytes = [optimizer] { return moment_bytes(*optimizer); };
  return work;
}

Work work_of(const ProfileCell& cell, torch::Device device) {
  seed_generators(0);
  Work work = cell.scope == ProfileScope::model ? model_work(cell, config_of(cell), device)
                                                : attention_work(cell, device);
  work.options = with_named_file(cell, std::move(work.options));
  return work;
}

double mib(int64_t bytes) { return static_cast<double>(bytes) / host::kMiB; }

void fill(const Work& work, torch::Device device, const measure::Measurement& m,
          const measure::MachineWatch::Seen& seen, Profile& record) {
  record.attention.options = options_in_effect(record.attention.name, work.options);
  if (work.flops >= 0) record.flops = static_cast<double>(work.flops);
  if (work.least_bytes >= 0) record.least_bytes = static_cast<double>(work.least_bytes);
  ProfileTime time;
  for (const double sample : m.samples)  // to the nanosecond: clocks tell no more
    time.samples.push_back(std::round(sample * 1e6) / 1e6);
  time.passes = {{.samples = static_cast<int64_t>(m.samples.size()),
                  .warm_up = m.warm_up,
                  .others = seen.others,
                  .mhz = seen.mhz,
                  .reference = seen.reference,
                  .device_ms = m.device_ms,
                  .noisy = seen.noisy}};
  time.median = m.time.median;
  time.min = m.time.min;
  time.iqr = m.time.iqr;
  time.ci95 = m.time.interval;
  record.time = std::move(time);
  record.memory = ProfileMemory{.parameters = mib(work.parameter_bytes)};
  if (m.peak_bytes >= 0) record.memory->peak = mib(m.peak_bytes);
  if (work.analytic_bytes >= 0) record.memory->analytic = mib(work.analytic_bytes);
  if (work.optimizer_bytes) record.memory->optimizer = mib(work.optimizer_bytes());
  record.memory->process_peak = measure::process_peak_mib();
  if (const auto use = host::device_memory(device)) {
    record.memory->reserved = mib(use->reserved_peak);
    record.memory->device = mib(use->in_use);
  }
}

void fill_clocks(const measure::GpuClocks& clocks, Profile& record) {
  json seen = {{"mhz", clocks.mhz}, {"memory_mhz", clocks.memory_mhz}};
  if (!clocks.slowed.empty()) {
    seen["slowed"] = clocks.slowed;
    std::string& noisy = record.time->passes.front().noisy;
    if (noisy.empty()) noisy = "the GPU was slowed down: " + clocks.slowed;
  }
  record.method[kGpuClocks] = json::array({seen});
}

}  // namespace

torch::Dtype dtype_of(ops::Dtype dtype) {
  switch (dtype) {
    case ops::Dtype::float64:
      return torch::kFloat64;
    case ops::Dtype::bfloat16:
      return torch::kBFloat16;
    case ops::Dtype::float32:
      break;
  }
  return torch::kFloat32;
}

int64_t account_of(const Attention& attention, const ProfileCell& cell, torch::Device device) {
  // LibTorch's operators take memory of their own in bfloat16, which nobody has counted.
  if (!device.is_cpu() || cell.dtype == ops::Dtype::bfloat16) return -1;
  return attention.analytic_bytes(cell.batch, cell.length,
                                  static_cast<int64_t>(c10::elementSize(dtype_of(cell.dtype))),
                                  cell.mode == ProfileMode::training);
}

Profile profile_cell(const ProfileCell& cell, torch::Device device, int64_t threads,
                     int64_t memory_limit, const measure::MeasureLimits& limits,
                     const std::vector<int>& processors) {
  validated_cell(cell);  // names and options are wrong before any work, not a status of the cell
  Profile record = profile_record(cell, device, threads);
  try {
    const host::CpuMemoryLimit limited(device.is_cpu() ? memory_limit : 0);
    const Work work = work_of(cell, device);
    const measure::MachineWatch watch(processors, threads);
    const measure::Measurement m = measure::measure(work.call, device, limits);
    // Read first: a GPU that has nothing to do slows down.
    const auto clocks = device.is_cuda() ? measure::gpu_clocks(device.index()) : std::nullopt;
    fill(work, device, m, watch.stop(), record);
    if (clocks) fill_clocks(*clocks, record);
  } catch (const host::Interrupted&) {
    throw;
  } catch (const std::exception& error) {
    record.status = host::status_of(error);
    record.reason = first_line(error);
  }
  return record;
}

std::function<void()> call_of(const ProfileCell& cell, torch::Device device) {
  return work_of(cell, device).call;
}

int64_t peak_bytes_of_call(const ProfileCell& cell, torch::Device device, int64_t memory_limit) {
  const host::CpuMemoryLimit limited(device.is_cpu() ? memory_limit : 0);
  const int64_t start = host::live_bytes(device);
  host::reset_peak_bytes(device);
  const Work work = work_of(cell, device);
  work.call();
  work.call();  // beside what the first leaves: an optimizer's moments
  return host::peak_bytes_above(start, device);
}

}  // namespace lra::profile
