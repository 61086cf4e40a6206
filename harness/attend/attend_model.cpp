#include "harness/attend/attend_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "attention_variants/python_host.h"
#include "lra/data/task.h"
#include "lra/model/model.h"

namespace lra {
namespace {

const std::string kParam = "param.";

// Of one sequence "tokens", of several "tokens1", "tokens2" and so on.
std::vector<std::string> numbered(const std::string& name, int64_t sequences) {
  if (sequences == 1) return {name};
  std::vector<std::string> all;
  for (int64_t i = 1; i <= sequences; ++i) all.push_back(name + std::to_string(i));
  return all;
}

// [B,sequences,N]
torch::Tensor stacked(const TensorFile& in, const std::vector<std::string>& names,
                      torch::ScalarType type) {
  std::vector<torch::Tensor> parts;
  for (const std::string& name : names) {
    const torch::Tensor& part = in.at(name);
    if (part.dim() != 2 || part.scalar_type() != type ||
        (!parts.empty() && part.sizes() != parts.front().sizes())) {
      throw Error(fmt::format("tensor {} should be [B,N] {}, the same for all inputs, not {}", name,
                              c10::toString(type), shape_text(part)));
    }
    parts.push_back(part);
  }
  return torch::stack(parts, 1);
}

torch::Tensor mask_of(const TensorFile& in, const torch::Tensor& tokens, InputMask kind) {
  const std::vector<std::string> names = numbered("mask", tokens.size(1));
  const auto given = [&in](const std::string& name) { return in.find(name) != nullptr; };
  // Where nothing is masked a given mask changes nothing, as in scope attention.
  if (kind != InputMask::none && std::ranges::any_of(names, given))
    return stacked(in, names, torch::kBool);
  return kind == InputMask::nonzero ? tokens.ne(0) : torch::ones_like(tokens, torch::kBool);
}

// The task with the vocabulary and the classes of the parameters that are given.
Task task_of(const TensorFile& in, const Config& config) {
  Task result = task(config.task, config.settings.input.reading());
  if (const torch::Tensor* const table = in.find("param.tokens.weight"); table != nullptr)
    result.vocabulary = table->size(0);
  int64_t last = -1;
  const std::string prefix = "param.classifier.", suffix = ".weight";
  for (const auto& [name, tensor] : in.tensors) {
    if (!name.starts_with(prefix) || !name.ends_with(suffix) || tensor.dim() != 2) continue;
    const int64_t number = std::atoll(name.c_str() + prefix.size());
    if (number > last) result.classes = tensor.size(0);
    last = std::max(last, number);
  }
  return result;
}

torch::ScalarType type_of(const TensorFile& in) {
  const torch::Tensor* const gradient = in.find("grad_output");
  if (gradient != nullptr && gradient->is_floating_point()) return gradient->scalar_type();
  for (const auto& [name, tensor] : in.tensors) {
    if (name.starts_with(kParam) && tensor.is_floating_point()) return tensor.scalar_type();
  }
  return torch::kFloat;
}

void set_state(const TensorFile& in, Model& model, const std::vector<std::string>& inputs) {
  auto state = model.named_parameters();
  for (const auto& buffer : model.named_buffers()) state.insert(buffer.key(), buffer.value());
  std::vector<std::string> valid = inputs;
  valid.emplace_back("grad_output");
  for (const auto& item : state) valid.push_back(kParam + item.key());
  const torch::NoGradGuard no_grad;
  for (const auto& [name, given] : in.tensors) {
    if (name.starts_with("expected.")) continue;  // what the caller compares with
    if (std::ranges::find(valid, name) == valid.end())
      throw unknown_name("tensor", name, valid, "the input");
    if (!name.starts_with(kParam)) continue;
    torch::Tensor& target = state[name.substr(kParam.size())];
    if (given.sizes() != target.sizes()) {
      throw Error(fmt::format("tensor {} should be {}, not {}", name, sizes_text(target),
                              sizes_text(given)));
    }
    target.copy_(given);
  }
}

}  // namespace

int64_t input_length(const TensorFile& in) {
  const torch::Tensor* const tokens =
      in.find("tokens") != nullptr ? in.find("tokens") : in.find("tokens1");
  if (tokens == nullptr || tokens->dim() != 2)
    throw Error(
        "the input should hold tokens [B,N], or of several sequences tokens1, tokens2 ... [B,N]");
  return tokens->size(1);
}

TensorFile attend_model(const Config& config, const TensorFile& in) {
  const Task task = task_of(in, config);
  std::vector<std::string> inputs = numbered("tokens", task.sequences());
  const torch::Tensor tokens = stacked(in, inputs, torch::kLong),
                      mask = mask_of(in, tokens, config.settings.input.mask);
  std::ranges::copy(numbered("mask", task.sequences()), std::back_inserter(inputs));
  seed_generators(config.seed);
  Model model(task, config);
  model.to(type_of(in));
  model.eval();
  model.take_any_mask();
  set_state(in, model, inputs);

  const torch::Tensor* const grad_output = in.find("grad_output");
  const torch::AutoGradMode grad(grad_output != nullptr);
  const torch::Tensor logits = model.forward(tokens, mask);
  TensorFile out;
  out.metadata = {{"attention", config.attention.text()},
                  {"options", config.attention_options.dump()},
                  {"config", config.to_json().dump()}};
  out.tensors.emplace_back("logits", logits.detach());
  if (grad_output == nullptr) return out;
  if (grad_output->sizes() != logits.sizes() ||
      grad_output->scalar_type() != logits.scalar_type()) {
    throw Error(fmt::format("tensor grad_output should be {} like the logits, not {}",
                            shape_text(logits), shape_text(*grad_output)));
  }
  run_backward(logits, grad_output->clone());
  for (const auto& item : model.named_parameters()) {
    const torch::Tensor& gradient = item.value().grad();
    // A parameter that the logits do not depend on has gradient zero.
    out.tensors.emplace_back("grad." + kParam + item.key(),
                             gradient.defined() ? gradient : torch::zeros_like(item.value()));
  }
  return out;
}

}  // namespace lra
