#include "harness/fidelity/fidelity_inputs.h"

#include <fmt/format.h>

#include <algorithm>

#include "attention_variants/base/files.h"
#include "attention_variants/ops/rotary.h"
#include "harness/training/evaluation.h"
#include "harness/training/run_folder.h"

namespace lra::fidelity {
namespace {

// x [B,N,D] -> [B,H,N,d], by the layer's projection "query", "key" or "value"
torch::Tensor project(Attention& attention, const std::string& name, const torch::Tensor& x,
                      int64_t heads) {
  const bool shared = attention.projections() == Projections::shared_query_key && name != "value";
  const std::string owner = shared ? "query_key" : name;
  const auto state = attention.named_parameters();
  const torch::Tensor* weight = state.find(owner + ".weight");
  if (weight == nullptr)
    throw Error("this run's attention has no " + name +
                " projection to take inputs from; choose a run of another attention");
  const torch::Tensor* bias = state.find(owner + ".bias");
  return torch::linear(x, *weight, bias == nullptr ? torch::Tensor() : *bias)
      .unflatten(-1, {heads, -1})
      .transpose(1, 2)
      .contiguous();
}

// Queries or keys [B,H,N,d] as the layers of such a model turn them; a class token stands before
// them there.
torch::Tensor turned(const torch::Tensor& x, const ModelOptions& model) {
  if (model.rotation() == 0) return x;
  return ops::rotate(x, model.rotation(), /*first=*/model.pooling == Pooling::cls ? 1 : 0);
}

}  // namespace

FidelityInputs random_inputs(int64_t trials, int64_t heads, int64_t length, int64_t head_dim,
                             uint64_t seed, torch::Device device) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  const auto draw = [&] {
    return torch::randn({trials, heads, length, head_dim}, generator, torch::kDouble).to(device);
  };
  FidelityInputs inputs;
  inputs.q = draw();
  inputs.k = draw();
  inputs.v = draw();
  inputs.mask = torch::ones({trials, length}, inputs.q.options().dtype(torch::kBool));
  return inputs;
}

TrainedInputs::TrainedInputs(const std::filesystem::path& run, const std::filesystem::path& data,
                             torch::Device device)
    : run_(open_run(run, data, CheckpointKind::best, device, OpenedSplits::all_but_test)),
      device_(device) {
  const Config& config = run_.config;
  if (config.settings.model.causal) {
    throw UsageError(
        "fidelity compares attentions that read both ways, and the run's model.causal is true: "
        "choose another --run");
  }
  const Manifest& manifest = run_.data.manifest();
  data_ = {.source = "run",
           .task = config.task,
           .attention = config.attention.text(),
           .protocol = config.protocol,
           .seed = config.seed,
           .step = run_.at.step,
           .synthetic = manifest.synthetic,
           .data_source = manifest.source,
           .fingerprint = manifest.fingerprint(),
           .identity = sha256(run_identity(config, manifest.fingerprint()).dump())};
  run_.model->eval();
  const auto x = torch::zeros({1, 1, config.settings.model.width}, device);
  for (const auto& attention : run_.model->attentions()) {
    for (const char* name : {"query", "key", "value"}) project(*attention, name, x, heads());
  }
}

std::vector<FidelityInputs> TrainedInputs::layers(int64_t trials, int64_t length) const {
  const LoaderOptions loader = loader_options(run_.config);
  const int64_t most = loader.kept();
  if (length > most)
    throw Unsupported(fmt::format("the run's model reads {} tokens, not {}", most, length));
  const Split& dev = evaluation_split(run_.data, run_.config, "dev");
  std::vector<int64_t> chosen;
  for (int64_t i = 0; i < dev.size() && std::ssize(chosen) < trials; ++i) {
    if (dev.length(i) >= length) chosen.push_back(i);
  }
  if (chosen.empty())
    throw Unsupported(fmt::format("no dev sample of the run's data has {} tokens", length));

  const torch::NoGradGuard no_grad;
  std::vector<FidelityInputs> layers(run_.model->attentions().size());
  std::vector<std::vector<torch::Tensor>> seen(layers.size());  // by layer and sample: [1,N,D]
  std::vector<torch::Tensor> masks;                             // [1,n]
  for (const int64_t index : chosen) {
    const auto tokens = torch::zeros({1, dev.inputs(), length}, torch::kInt64);
    auto mask = torch::zeros({1, dev.inputs(), length}, torch::kBool);
    for (int64_t j = 0; j < dev.inputs(); ++j) {
      const int64_t real = dev.copy(index, j, length, tokens.data_ptr<int64_t>() + j * length);
      mask[0][j].narrow(0, 0, real).fill_(true);
    }
    mask = input_mask(loader.mask, tokens, mask);
    const auto inputs = run_.model->attention_inputs(tokens.to(device_), mask.to(device_));
    for (size_t layer = 0; layer < layers.size(); ++layer)
      seen[layer].push_back(inputs[layer].narrow(0, 0, 1));
    masks.push_back(mask.select(1, 0).to(device_));
  }
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    const torch::Tensor x = torch::cat(seen[layer]);  // [T,n,D]
    Attention& attention = *run_.model->attentions()[layer];
    const ModelOptions& model = run_.config.settings.model;
    layers[layer] = {.q = turned(project(attention, "query", x, heads()), model),
                     .k = turned(project(attention, "key", x, heads()), model),
                     .v = project(attention, "value", x, heads()),
                     .mask = torch::cat(masks),
                     .data = data_,
                     .layer = static_cast<int64_t>(layer)};
  }
  return layers;
}

}  // namespace lra::fidelity
