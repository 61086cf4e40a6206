#include "attention_variants/contract/trial.h"

#include <fmt/format.h>

#include <algorithm>

namespace lra::contract {

// ---- What a clause has seen ---------------------------------------------------------------------

void ClauseReport::at_most(const std::string& what, double value, double limit) {
  ++count_;
  const std::string text = fmt::format("{} {:.2g} (at most {:.2g})", what, value, limit);
  if (!(value <= limit)) {
    failures_.push_back(text);
  } else if (value / limit >= nearest_ || nearest_text_.empty()) {  // zero of zero is NaN
    nearest_ = limit > 0 ? value / limit : 0;
    nearest_text_ = text;
  }
}

void ClauseReport::that(bool holds, const std::string& otherwise) {
  ++count_;
  if (!holds) failures_.push_back(otherwise);
}

void ClauseReport::finite(const std::string& what, const torch::Tensor& t) {
  that(torch::isfinite(t).all().item<bool>(), what + " has NaN or infinity");
}

Verdict ClauseReport::verdict(const std::string& clause) const {
  if (failures_.empty())
    return {clause, true, nearest_text_.empty() ? fmt::format("{} checks", count_) : nearest_text_};
  constexpr size_t kShown = 2;
  std::string text;
  for (size_t i = 0; i < std::min(kShown, failures_.size()); ++i)
    text += (i == 0 ? "" : "; ") + failures_[i];
  if (failures_.size() > kShown) text += fmt::format("; and {} more", failures_.size() - kShown);
  return {clause, false, text};
}

// ---- Inputs -------------------------------------------------------------------------------------

Tensors Inputs::changed(const std::function<torch::Tensor(const torch::Tensor&)>& how) const {
  Tensors result;
  for (const torch::Tensor& leaf : leaves) result.push_back(how(leaf));
  return result;
}

torch::Tensor Inputs::padded() const {
  const torch::Tensor at = mask.logical_not().unsqueeze(-1);  // [B,N,1]
  return leaves[0].dim() == 4 ? at.unsqueeze(1) : at;
}

Inputs Inputs::needing_gradients() const {
  return {changed([](const auto& t) { return t.detach().clone().requires_grad_(); }), mask};
}

torch::Tensor first(const std::vector<int64_t>& lengths, int64_t n) {
  return torch::arange(n).unsqueeze(0) < torch::tensor(lengths).unsqueeze(1);
}

double difference(const torch::Tensor& a, const torch::Tensor& b) {
  const torch::Tensor x = a.detach().to(torch::kDouble), y = b.detach().to(torch::kDouble);
  return (x - y).abs().max().item<double>() / std::max(1.0, y.abs().max().item<double>());
}

Tensors gradients(const torch::Tensor& loss, const Tensors& leaves) {
  if (!loss.requires_grad()) {
    Tensors none;
    for (const torch::Tensor& leaf : leaves) none.push_back(torch::zeros_like(leaf));
    return none;
  }
  Tensors found = torch::autograd::grad({loss}, leaves, {}, /*retain_graph=*/std::nullopt,
                                        /*create_graph=*/false, /*allow_unused=*/true);
  for (size_t i = 0; i < found.size(); ++i) {
    if (!found[i].defined()) found[i] = torch::zeros_like(leaves[i]);
  }
  return found;
}

torch::Tensor weighted_sum(const torch::Tensor& out) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(uint64_t{17});
  const torch::Tensor weight = torch::randn(out.sizes(), generator, torch::kDouble);
  return (out * weight.to(out.device(), out.scalar_type())).sum();
}

// ---- The attention under trial ------------------------------------------------------------------

ContractProbe::ContractProbe(const ContractSubject& subject) : subject_(subject) {
  const auto attention = make();
  EntryPoint core{.attends = true, .leaves = {"q", "k", "v"}};
  if (attention->projections() == Projections::shared_query_key) core.leaves = {"q", "v"};
  if (attention->projections() == Projections::value_only) core.leaves = {"v"};
  if (has_attend(*attention, core)) forms_.push_back(core);
  forms_.push_back({.attends = false, .leaves = {"x"}});
}

// Whether it overrides Attention::attend(), which only says that there is none.
bool ContractProbe::has_attend(Attention& attention, const EntryPoint& form) const {
  const Inputs in = inputs(form, first({2}, 2));
  const auto message = [](const auto& attend) -> std::string {
    try {
      attend();
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  };
  const torch::Tensor& q = in.leaves[0];
  const std::string none = message([&] { attention.Attention::attend(q, q, q, in.mask); });
  return message([&] { call(attention, form, in); }) != none;
}

std::shared_ptr<Attention> ContractProbe::make(torch::ScalarType type) const {
  return make(type, subject_.context, subject_.context.seed);
}

std::shared_ptr<Attention> ContractProbe::make(torch::ScalarType type,
                                               const AttentionContext& context,
                                               uint64_t initial_seed) const {
  torch::manual_seed(initial_seed);
  auto attention = subject_.make(context);
  attention->to(subject_.device, type);
  attention->eval();
  return attention;
}

Inputs ContractProbe::inputs(const EntryPoint& form, const torch::Tensor& mask,
                             torch::ScalarType type, uint64_t seed) const {
  const AttentionContext& c = subject_.context;
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  const int64_t b = mask.size(0), n = mask.size(1);
  const std::vector<int64_t> shape = form.attends ? std::vector<int64_t>{b, c.heads, n, c.head_dim}
                                                  : std::vector<int64_t>{b, n, c.width};
  Inputs in{{}, mask.to(subject_.device)};
  for (size_t i = 0; i < form.leaves.size(); ++i)
    in.leaves.push_back(torch::randn(shape, generator, torch::kDouble).to(subject_.device, type));
  return in;
}

torch::Tensor ContractProbe::call(Attention& attention, const EntryPoint& form,
                                  const Inputs& in) const {
  if (!form.attends) return attention.forward(in.leaves[0], in.mask);
  const torch::Tensor &q = in.leaves[0], &v = in.leaves.back();
  return attention.attend(q, in.leaves.size() == 3 ? in.leaves[1] : q, v, in.mask);
}

void ContractProbe::check_finite(ClauseReport& f, Attention& attention, const EntryPoint& form,
                                 const Inputs& given, const std::string& when) const {
  const Inputs in = given.needing_gradients();
  const torch::Tensor out = call(attention, form, in);
  const std::string what = fmt::format("{}, {}: ", form.name(), when);
  f.finite(what + "the output", out);
  const Tensors found = gradients(weighted_sum(out), in.leaves);
  for (size_t i = 0; i < found.size(); ++i)
    f.finite(what + "the gradient of " + form.leaves[i], found[i]);
}

}  // namespace lra::contract
