#include "harness/profiler.h"

#include <fmt/format.h>

#include <map>

#include "attention_variants/autocast.h"
#include "harness/memory.h"
#include "harness/runtime.h"
#include "harness/signals.h"
#include "lra/model.h"

namespace lra {
namespace {

torch::Dtype dtype_of(const std::string& name) {
  static const std::map<std::string, torch::Dtype> known = {
      {"float32", torch::kFloat32}, {"float64", torch::kFloat64}, {"bfloat16", torch::kBFloat16}};
  const auto it = known.find(name);
  if (it == known.end())
    throw UsageError("--dtype should be float32, float64 or bfloat16, not '" + name + "'");
  return it->second;
}

int64_t parameter_bytes(const torch::nn::Module& module) {
  int64_t bytes = 0;
  for (const auto& tensor : module.parameters()) bytes += static_cast<int64_t>(tensor.nbytes());
  for (const auto& tensor : module.buffers()) bytes += static_cast<int64_t>(tensor.nbytes());
  return bytes;
}

void clear_gradients(const std::vector<torch::Tensor>& tensors) {
  for (torch::Tensor tensor : tensors) tensor.mutable_grad() = torch::Tensor();
}

/// The work of a cell, and what its record says besides the measurement.
struct Work {
  std::function<void()> call;
  json options;
  int64_t parameter_bytes = 0, analytic_bytes = -1, flops = -1;
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
    forward().backward(gradient);
    clear_gradients(leaves);
  };
}

Work attention_work(const ProfileCell& cell, torch::Device device) {
  const bool training = cell.mode == "training";
  const auto options = torch::TensorOptions().dtype(dtype_of(cell.dtype)).device(device);
  const AttentionContext context{.width = cell.heads * cell.head_dim,
                                 .heads = cell.heads,
                                 .head_dim = cell.head_dim,
                                 .max_length = cell.length,
                                 .seed = 0};
  auto attention = make_attention(cell.attention, context);
  attention->to(device, dtype_of(cell.dtype));
  attention->train(training);
  const auto mask = torch::ones({cell.batch, cell.length}, options.dtype(torch::kBool));  // [B,N]
  Work work;
  work.options = attention->options();
  work.parameter_bytes = parameter_bytes(*attention);
  std::vector<torch::Tensor> leaves = attention->parameters();
  if (cell.scope == "core") {
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
    work.analytic_bytes = attention->analytic_bytes(
        cell.batch, cell.length, static_cast<int64_t>(q.element_size()), training);
    // The account is of one forward.
    if (!training) work.flops = attention->flops(cell.batch, cell.length);
  } else {
    const auto x = torch::randn({cell.batch, cell.length, context.width}, options)
                       .set_requires_grad(training);  // [B,N,D]
    leaves.push_back(x);
    const auto gradient = torch::randn_like(x);
    work.call =
        attention_call([=] { return attention->forward(x, mask); }, leaves, gradient, training);
  }
  return work;
}

Work model_work(const ProfileCell& cell, const Config& config, torch::Device device) {
  auto model = std::make_shared<Model>(task(cell.task), config);
  model->to(device);
  const Task& info = task(cell.task);
  const auto integers = torch::TensorOptions().dtype(torch::kInt64).device(device);
  const auto tokens =
      torch::randint(1, info.vocabulary, {cell.batch, info.inputs, cell.length}, integers);
  const auto mask = torch::ones_like(tokens, torch::kBool);
  const auto labels = torch::randint(0, info.classes, {cell.batch}, integers);
  Work work;
  work.options = model->attention_options();
  work.parameter_bytes = parameter_bytes(*model);
  if (cell.mode == "inference") {
    model->eval();
    work.call = [=, dtype = cell.dtype] {
      const torch::NoGradGuard no_grad;
      const AutocastScope autocast(device, dtype);
      model->forward(tokens, mask);
    };
    return work;
  }
  auto optimizer =
      std::make_shared<torch::optim::AdamW>(model->parameters(), torch::optim::AdamWOptions(1e-4));
  work.call = [=, dtype = cell.dtype] {
    torch::Tensor logits;
    {
      const AutocastScope autocast(device, dtype);
      logits = model->forward(tokens, mask);
    }
    torch::nn::functional::cross_entropy(logits.to(torch::kFloat32), labels).backward();
    optimizer->step();
    optimizer->zero_grad();
  };
  return work;
}

}  // namespace

Profile profile_cell(const ProfileCell& cell, torch::Device device, int64_t threads,
                     int64_t memory_limit, const MeasureLimits& limits) {
  Profile record;
  record.attention = {.name = cell.attention.name, .label = cell.attention.text()};
  record.length = cell.length;
  record.batch = cell.batch;
  record.heads = cell.heads;
  record.head_dim = cell.head_dim;
  record.scope = cell.scope;
  record.mode = cell.mode;
  record.dtype = cell.dtype;
  record.device = device.str();
  record.threads = threads;
  record.machine = machine_of(device);
  record.software = software_json();

  // Names and options are wrong before any work, not a status of the cell.
  Config config;
  if (cell.scope == "model") {
    config = make_config(
        load_protocol(cell.protocol), cell.task, cell.attention,
        {fmt::format("input.length={}", cell.length), fmt::format("model.heads={}", cell.heads),
         fmt::format("model.head_dim={}", cell.head_dim)},
        /*seed=*/0, cell.dtype);
    record.attention.options = config.attention_options;
    record.protocol = config.protocol;
    record.task = config.task;
  } else {
    dtype_of(cell.dtype);
    record.attention.options =
        attention_entry(cell.attention.name).effective_options(cell.attention.options);
  }

  try {
    torch::manual_seed(0);
    set_cpu_memory_limit(memory_limit);
    const Work work =
        cell.scope == "model" ? model_work(cell, config, device) : attention_work(cell, device);
    record.attention.options = work.options;
    if (work.flops >= 0) record.flops = static_cast<double>(work.flops);
    const Measurement m = measure(work.call, device, limits);
    record.time = ProfileTime{.median = m.time.median,
                              .min = m.time.min,
                              .iqr = m.time.iqr,
                              .ci95 = m.time.interval,
                              .samples = m.samples};
    record.memory = ProfileMemory{.peak = static_cast<double>(m.peak_bytes) / kMiB,
                                  .parameters = static_cast<double>(work.parameter_bytes) / kMiB};
    if (work.analytic_bytes >= 0)
      record.memory->analytic = static_cast<double>(work.analytic_bytes) / kMiB;
  } catch (const Interrupted&) {
    set_cpu_memory_limit(0);
    throw;
  } catch (const std::exception& error) {
    record.status = status_of(error);
    record.reason = first_line(error);
  }
  set_cpu_memory_limit(0);
  return record;
}

}  // namespace lra
