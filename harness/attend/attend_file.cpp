#include "harness/attend/attend_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "attention_variants/projected_attention.h"
#include "attention_variants/python_host.h"

namespace lra {
namespace {

constexpr const char* kInputs[] = {"q", "k", "v"};

using NamedTensors = std::vector<std::pair<std::string, torch::Tensor>>;

// The variant's own tensors: whatever is not one of the projections to and from q, k and v.
NamedTensors own(const torch::OrderedDict<std::string, torch::Tensor>& all) {
  NamedTensors kept;
  for (const auto& item : all) {
    if (!is_projection(item.key())) kept.emplace_back(item.key(), item.value());
  }
  return kept;
}

void set_parameters(const TensorFile& in, const NamedTensors& state, Attention& attention) {
  const std::string prefix = "param.";
  std::vector<std::string> valid;
  for (const auto& [name, tensor] : state) valid.push_back(prefix + name);
  for (const std::string& table : attention.tables()) valid.push_back(prefix + table);
  const torch::NoGradGuard no_grad;
  for (const auto& [name, given] : in.tensors) {
    if (name.rfind(prefix, 0) != 0) continue;
    const auto it = std::ranges::find(valid, name);
    if (it == valid.end()) throw unknown_name("tensor", name, valid, "the input");
    if (it - valid.begin() >= std::ssize(state)) {
      attention.set_table(name.substr(prefix.size()), given);
      continue;
    }
    torch::Tensor target = state[static_cast<size_t>(it - valid.begin())].second;
    if (given.sizes() != target.sizes()) {
      throw Error(fmt::format("tensor {} should be {}, not {}", name, sizes_text(target),
                              sizes_text(given)));
    }
    target.copy_(given);
  }
}

void check_names(const TensorFile& in) {
  const std::vector<std::string> known = {"q", "k", "v", "mask", "grad_output"};
  for (const auto& [name, tensor] : in.tensors) {
    const bool result = name.rfind("expected.", 0) == 0;  // what the caller compares with
    if (!result && name.rfind("param.", 0) != 0 && std::ranges::find(known, name) == known.end()) {
      std::vector<std::string> valid = known;
      valid.push_back("param.<name>");
      throw unknown_name("tensor", name, valid, "the input");
    }
  }
}

void check_grad_output(const torch::Tensor& grad_output, const torch::Tensor& q) {
  if (grad_output.sizes() == q.sizes() && grad_output.scalar_type() == q.scalar_type()) return;
  throw Error(fmt::format("tensor grad_output should be {} like q, not {}", shape_text(q),
                          shape_text(grad_output)));
}

// grad.q, grad.k, grad.v and grad.param.<name>.
void add_gradients(const torch::Tensor& output, const torch::Tensor& grad_output,
                   const torch::Tensor (&leaves)[3], const NamedTensors& parameters,
                   TensorFile& out) {
  NamedTensors wanted;
  for (int i = 0; i < 3; ++i) wanted.emplace_back(std::string("grad.") + kInputs[i], leaves[i]);
  for (const auto& [name, parameter] : parameters)
    wanted.emplace_back("grad.param." + name, parameter);
  std::vector<torch::Tensor> inputs;
  for (const auto& [name, tensor] : wanted) inputs.push_back(tensor);
  const auto gradients = run_gradients(output, inputs, grad_output.clone());
  for (size_t i = 0; i < wanted.size(); ++i) {
    // A tensor that the output does not depend on has gradient zero.
    out.tensors.emplace_back(wanted[i].first,
                             gradients[i].defined() ? gradients[i] : torch::zeros_like(inputs[i]));
  }
}

}  // namespace

TensorFile attend_file(const AttentionSpec& spec, const TensorFile& in, uint64_t seed,
                       const AttendPlace& place) {
  check_names(in);
  torch::Tensor leaves[3];
  for (int i = 0; i < 3; ++i) leaves[i] = in.at(kInputs[i]).detach().clone();
  const torch::Tensor& q = leaves[0];
  if (q.dim() != 4) throw Error(fmt::format("tensor q should be [B,H,N,d], not {}", sizes_text(q)));
  const int64_t heads = q.size(1), length = q.size(2), width = q.size(3);
  const torch::Tensor* const given_mask = in.find("mask");
  const torch::Tensor mask = given_mask != nullptr && place.masked
                                 ? given_mask->clone()
                                 : torch::ones({q.size(0), length}, torch::kBool);
  check_attend_inputs(leaves[0], leaves[1], leaves[2], mask);
  const torch::Tensor* const grad_output = in.find("grad_output");
  if (grad_output != nullptr) check_grad_output(*grad_output, q);

  seed_generators(seed);
  const auto attention = make_attention(spec, {.width = heads * width,
                                               .heads = heads,
                                               .head_dim = width,
                                               .max_length = length,
                                               .seed = seed,
                                               .kernels = place.kernels,
                                               .padded_rows = place.padded_rows,
                                               .causal = place.causal});
  attention->to(q.scalar_type());
  attention->eval();
  const NamedTensors parameters = own(attention->named_parameters());
  NamedTensors state = parameters;
  for (auto& buffer : own(attention->named_buffers())) state.push_back(buffer);
  set_parameters(in, state, *attention);

  TensorFile out;
  out.metadata = {{"attention", spec.text()}, {"options", attention->options().dump()}};
  const torch::AutoGradMode grad(grad_output != nullptr);
  for (torch::Tensor& leaf : leaves) leaf.set_requires_grad(grad_output != nullptr);
  const torch::Tensor output = attention->attend(leaves[0], leaves[1], leaves[2], mask);
  check_attention_result(output, q, q.sizes());
  out.tensors.emplace_back("output", output.detach());
  if (grad_output != nullptr) add_gradients(output, *grad_output, leaves, parameters, out);
  return out;
}

}  // namespace lra
