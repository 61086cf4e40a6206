#include "attention_variants/contract/gradients.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <span>
#include <unordered_set>

#include "attention_variants/projected_attention.h"
#include "attention_variants/python_host.h"

namespace lra::contract {

void large_logits(const ContractProbe& trial, ClauseReport& f) {
  const EntryPoint& form = trial.core();
  for (const auto type : {torch::kFloat, torch::kBFloat16}) {
    const auto attention = trial.make(type);
    Inputs in = trial.inputs(form, trial.samples({41, 30, 0}, 41), type);
    // |q·k|/√d reaches 80·d/√d.
    for (size_t i = 0; i < in.leaves.size(); ++i) {
      if (form.leaves[i] != "v") in.leaves[i] = in.leaves[i].sign() * std::sqrt(80.0);
    }
    trial.check_finite(f, *attention, form, in, type_name(type));
  }
}

namespace {

// The tensors that a backward pass from `out` would give gradients to.
Tensors reached(const torch::Tensor& out) {
  Tensors leaves;
  std::vector<std::shared_ptr<torch::autograd::Node>> open = {out.grad_fn()};
  std::unordered_set<const torch::autograd::Node*> seen;
  while (!open.empty()) {
    const auto node = open.back();
    open.pop_back();
    if (node == nullptr || !seen.insert(node.get()).second) continue;
    if (const auto* const leaf = dynamic_cast<const torch::autograd::AccumulateGrad*>(node.get()))
      leaves.push_back(leaf->variable);
    for (const torch::autograd::Edge& edge : node->next_edges()) open.push_back(edge.function);
  }
  return leaves;
}

// The leaves that two calls have in common: not those that forward() makes for itself.
Tensors kept_leaves(Attention& attention, const Inputs& in) {
  const Tensors once = reached(attention.forward(in.leaves[0], in.mask));
  Tensors again = reached(attention.forward(in.leaves[0], in.mask));
  std::erase_if(again, [&](const torch::Tensor& leaf) {
    return std::ranges::none_of(once, [&](const auto& other) { return other.is_same(leaf); });
  });
  return again;
}

// Whether the function is another where all numbers of a parameter are one more.
bool matters(Attention& attention, torch::Tensor parameter, const Inputs& in) {
  const torch::NoGradGuard no_grad;
  const torch::Tensor before = attention.forward(in.leaves[0], in.mask);
  parameter.add_(1);
  const torch::Tensor after = attention.forward(in.leaves[0], in.mask);
  parameter.sub_(1);
  return (after - before).abs().max().item<double>() > 1e-12 * before.abs().max().item<double>();
}

}  // namespace

void parameter_gradients(const ContractProbe& trial, ClauseReport& f) {
  // Longer than the blocks, landmarks and windows of most defaults, and shorter for those that
  // refuse it.
  constexpr int64_t kLong = 160, kShort = 41;
  AttentionContext context = trial.subject().context;
  context.max_length = std::max(context.max_length, kLong);
  const auto attention = trial.make(torch::kDouble, context, context.seed);
  attention->train();
  const EntryPoint& form = trial.layer();
  const auto parameters = attention->named_parameters();
  for (const int64_t n : {kLong, kShort}) {
    const Inputs in = trial.inputs(form, trial.samples({n, n / 2, 0}, n));
    try {
      const torch::Tensor out = attention->forward(in.leaves[0], in.mask);
      if (!parameters.is_empty()) run_backward(weighted_sum(out));  // adds to the gradients
    } catch (const Unsupported&) {
      if (n <= trial.subject().context.max_length) throw;
    } catch (const std::exception& error) {
      if (n <= trial.subject().context.max_length) throw;
      f.refused(n, error);
    }
  }
  f.that(true, "");
  const Inputs in = trial.inputs(form, trial.samples({kShort, kShort / 2, 0}, kShort));
  for (const torch::Tensor& leaf : kept_leaves(*attention, in)) {
    const auto is_leaf = [&](const auto& parameter) { return parameter.value().is_same(leaf); };
    f.that(std::ranges::any_of(parameters, is_leaf),
           fmt::format("a tensor {} asks for gradients and is no parameter: it is not trained, and "
                       "no checkpoint has it",
                       shape_text(leaf)));
  }
  attention->eval();
  for (const auto& parameter : parameters) {
    const torch::Tensor& gradient = parameter.value().grad();
    const std::string& name = parameter.key();
    if (!gradient.defined()) {
      // The layer's own projections; an attention of the values alone need not read the others.
      const bool unread = (name.starts_with("query.") || name.starts_with("key.")) &&
                          !matters(*attention, parameter.value(), in);
      f.grade(unread ? Grade::style : Grade::wrong);
      f.that(false, name + (unread ? " projects what is not read" : " gets no gradient"));
      f.grade(Grade::wrong);
      continue;
    }
    f.finite("the gradient of " + name, gradient);
    // A gate that starts at zero lets none through yet. The bias of keys moves all logits of a row
    // alike: in softmax attention its gradient is zero but for rounding, and rightly so.
    f.grade(Grade::fragile);
    f.that(
        gradient.abs().max().item<double>() > 1e-9 || !matters(*attention, parameter.value(), in),
        "the gradient of " + name + " is zero");
    f.grade(Grade::wrong);
  }
}

// How far values of a tensor lie from zero, within bounds: small ones, as taps under a soft
// threshold, would leave where the function is smooth by a longer step, and of a shorter one
// rounding would be left.
double small_scale(const torch::Tensor& tensor) {
  const double rms = tensor.square().mean().sqrt().item<double>();
  return rms > 0 ? std::clamp(rms, 1e-3, 1.0) : 1;
}

// By central differences of fourth order, as an ill-conditioned inverse is not linear within a
// step.
double slope(const std::function<double(double)>& at, double step) {
  return (8 * (at(step) - at(-step)) - (at(2 * step) - at(-2 * step))) / (12 * step);
}

// How far `analytic` lies from the slope, at the first of these steps that brings it within `limit`
// or else at the best: one that leads over a kink, as relu has them, tells nothing, and a shorter
// one seldom meets it.
double error_of_slope(double analytic, const std::function<double(double)>& at,
                      std::span<const double> steps, double limit) {
  double least = std::numeric_limits<double>::infinity();
  for (const double step : steps) {
    const double numeric = slope(at, step);
    least = std::min(least, std::abs(analytic - numeric) / std::max(1.0, std::abs(numeric)));
    if (least <= limit) break;
  }
  return least;
}

// Central differences along random directions, in the inputs and in the attention's own parameters.
void finite_differences(const ContractProbe& trial, ClauseReport& f) {
  const EntryPoint& form = trial.core();
  const auto attention = trial.make();
  auto generator = at::make_generator<at::CPUGeneratorImpl>(uint64_t{29});
  // Of float32 some four digits are left of a difference, over a step that is long enough.
  const bool coarse = trial.exactness() > kExact;
  const double limit = coarse ? 1e-3 : 1e-6;
  const char* const how = coarse ? ", computed in float32" : "";
  for (const int64_t n : {4, 11}) {
    const Inputs in =
        trial.inputs(form, trial.samples({n, n - 2, 0}, n), torch::kDouble, /*seed=*/5)
            .needing_gradients();
    std::vector<std::string> names = form.leaves;
    Tensors leaves = in.leaves;
    for (const auto& parameter : attention->named_parameters()) {
      if (form.attends && is_projection(parameter.key())) continue;
      names.push_back(parameter.key());
      leaves.push_back(parameter.value());
    }
    const auto loss = [&] { return weighted_sum(trial.call_real(*attention, form, in)); };
    const Tensors exact = gradients(loss(), leaves);
    const torch::NoGradGuard no_grad;
    for (size_t i = 0; i < leaves.size(); ++i) {
      const torch::Tensor old = leaves[i].clone();
      const double step = coarse ? 1e-2 : 1e-5 * small_scale(old);
      const std::vector<double> steps =
          coarse ? std::vector{step, step / 4} : std::vector{step, step / 10, step / 100};
      for (int trial_number = 0; trial_number < 3; ++trial_number) {
        const torch::Tensor direction =
            torch::randn(old.sizes(), generator, torch::kDouble).to(old.device());
        const auto at = [&](double t) {
          leaves[i].copy_(old + t * direction);
          return loss().item<double>();
        };
        const double analytic = (exact[i] * direction).sum().item<double>();
        f.at_most(fmt::format("N = {}: error of the gradient of {}{}", n, names[i], how),
                  error_of_slope(analytic, at, steps, limit), limit);
      }
      leaves[i].copy_(old);
    }
  }
}

}  // namespace lra::contract
