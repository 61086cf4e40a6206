#include "harness/checkpoint.h"

#include <ATen/Context.h>

#include <set>

#include "lra/safetensors.h"

namespace lra {
namespace {

constexpr const char* kSchema = "lra.checkpoint/1";

at::Generator generator_of(torch::Device device) { return at::globalContext().defaultGenerator(device); }

torch::Tensor random_state(torch::Device device) {
  auto generator = generator_of(device);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}

void set_random_state(torch::Device device, const torch::Tensor& state) {
  auto generator = generator_of(device);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_state(state);
}

std::string joined(const std::vector<std::string>& parts, size_t limit) {
  std::string text;
  for (size_t i = 0; i < parts.size() && i < limit; ++i) text += (i == 0 ? "" : "; ") + parts[i];
  if (parts.size() > limit) text += "; and " + std::to_string(parts.size() - limit) + " more";
  return text;
}

// Copies `from` over `to`, which must have its shape and type.
void assign(torch::Tensor to, const torch::Tensor& from, const std::string& name, const std::string& path) {
  if (from.sizes() != to.sizes() || from.scalar_type() != to.scalar_type()) {
    throw Error(path + ": tensor " + name + " is not of the model's shape or type; the file belongs to another configuration");
  }
  const torch::NoGradGuard no_grad;
  to.copy_(from);
}

}  // namespace

void save_checkpoint(const std::filesystem::path& path, const json& config, const Progression& progression, Model& model,
                     const torch::optim::AdamW* optimizer, torch::Device device) {
  TensorFile file;
  file.metadata = {{"schema", kSchema}, {"config", config.dump()}, {"progression", write_fields(progression).dump()}};
  for (const auto& item : model.named_parameters()) {
    file.tensors.emplace_back("model." + item.key(), item.value().detach());
    if (optimizer == nullptr) continue;
    const auto state = optimizer->state().find(item.value().unsafeGetTensorImpl());
    if (state == optimizer->state().end()) continue;  // before the first step
    const auto& moments = static_cast<const torch::optim::AdamWParamState&>(*state->second);
    file.tensors.emplace_back("optimizer.exp_avg." + item.key(), moments.exp_avg());
    file.tensors.emplace_back("optimizer.exp_avg_sq." + item.key(), moments.exp_avg_sq());
    file.tensors.emplace_back("optimizer.step." + item.key(), torch::tensor(moments.step(), torch::kInt64));
  }
  for (const auto& item : model.named_buffers()) file.tensors.emplace_back("model." + item.key(), item.value());
  if (optimizer != nullptr) {
    file.tensors.emplace_back("random.cpu", random_state(torch::kCPU));
    if (device.is_cuda()) file.tensors.emplace_back("random.cuda", random_state(device));
  }
  write_tensors(path, file);
}

Progression load_checkpoint(const std::filesystem::path& path, const json& config, Model& model,
                            torch::optim::AdamW* optimizer, torch::Device device) {
  const std::string where = path.string();
  const TensorFile file = read_tensors(path);
  const auto schema = file.metadata.find("schema");
  if (schema == file.metadata.end() || schema->second != kSchema) {
    throw Error(where + " is not a checkpoint of this program (no schema " + kSchema + ")");
  }
  Progression progression;
  try {
    const json saved = json::parse(file.metadata.at("config"));
    const auto different = differences(saved, config);
    if (!different.empty()) {
      throw Error(where + " belongs to another configuration: " + joined(different, 4) +
                  "; use the same options, or another --run folder");
    }
    read_fields(json::parse(file.metadata.at("progression")), progression, where);
  } catch (const json::exception& e) {
    throw Error(where + " has a broken header: " + e.what());
  } catch (const std::out_of_range&) {
    throw Error(where + " lacks its configuration or progress; it is not a complete checkpoint");
  }

  for (const auto& item : model.named_parameters()) {
    assign(item.value(), file.at("model." + item.key()), item.key(), where);
    if (optimizer == nullptr || file.find("optimizer.step." + item.key()) == nullptr) continue;
    auto moments = std::make_unique<torch::optim::AdamWParamState>();
    moments->exp_avg(torch::empty_like(item.value()));
    moments->exp_avg_sq(torch::empty_like(item.value()));
    assign(moments->exp_avg(), file.at("optimizer.exp_avg." + item.key()), item.key(), where);
    assign(moments->exp_avg_sq(), file.at("optimizer.exp_avg_sq." + item.key()), item.key(), where);
    moments->step(file.at("optimizer.step." + item.key()).item<int64_t>());
    optimizer->state()[item.value().unsafeGetTensorImpl()] = std::move(moments);
  }
  for (const auto& item : model.named_buffers()) assign(item.value(), file.at("model." + item.key()), item.key(), where);
  if (optimizer != nullptr) {
    set_random_state(torch::kCPU, file.at("random.cpu").clone());
    if (device.is_cuda()) set_random_state(device, file.at("random.cuda").clone());
  }
  return progression;
}

}  // namespace lra
