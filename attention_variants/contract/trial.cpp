#include "attention_variants/contract/trial.h"
#include "attention_variants/base/text.h"
#include "attention_variants/out_of_memory.h"
#include "attention_variants/python_host.h"
#include "attention_variants/wrong_result.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace lra::contract {

// ---- What a clause has seen ---------------------------------------------------------------------

void ClauseReport::at_most(const std::string& what, double value, double limit) {
  ++count_;
  const std::string text = fmt::format("{} {:.2g} (at most {:.2g})", what, value, limit);
  if (!(value <= limit)) {
    failures_.push_back({grade_, text, std::isnan(value)});
  } else if (value / limit >= nearest_ || nearest_text_.empty()) {  // zero of zero is NaN
    nearest_ = limit > 0 ? value / limit : 0;
    nearest_text_ = text;
  }
}

void ClauseReport::that(bool holds, const std::string& otherwise) {
  ++count_;
  if (!holds) failures_.push_back({grade_, otherwise});
}

void ClauseReport::finite(const std::string& what, const torch::Tensor& t) {
  that(torch::isfinite(t).all().item<bool>(), what + " has NaN or infinity");
}

void ClauseReport::refused(int64_t positions, const std::exception& error) {
  if (is_out_of_memory(error)) throw;
  const Grade before = std::exchange(grade_, Grade::fragile);
  that(false, fmt::format("N = {}: {}", positions, first_line(error)));
  failures_.back().refused = true;
  grade_ = before;
}

void ClauseReport::ended_in(const std::exception& error) {
  that(false, first_line(error));
  ended_early_ = true;
}

Verdict ClauseReport::verdict(const std::string& clause) const {
  if (failures_.empty()) {
    const bool counted = nearest_text_.empty();
    const std::string counts = count_text(count_, "check");
    return {clause, true, counted ? counts : nearest_text_, grade_};
  }
  constexpr size_t kShown = 2;
  std::vector<Failure> gravest = failures_;
  std::ranges::stable_sort(gravest, {}, &Failure::grade);
  std::string text;
  for (size_t i = 0; i < std::min(kShown, gravest.size()); ++i)
    text += (i == 0 ? "" : "; ") + gravest[i].text;
  if (gravest.size() > kShown) text += fmt::format("; and {} more", gravest.size() - kShown);
  std::string hint;
  if (ended_early_ || gravest.front().refused) {
    hint = "the call ends in this error, before the clause can tell; mend that first";
  } else if (gravest.front().nan) {
    hint =
        "the output, or a gradient, is NaN, which equals nothing; find out first where it begins";
  }
  return {clause, false, text, gravest.front().grade, hint};
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
  if (a.sizes() != b.sizes())
    throw Error(fmt::format("it gives {} where {} was expected", shape_text(a), shape_text(b)));
  const torch::Tensor x = a.detach().to(torch::kDouble), y = b.detach().to(torch::kDouble);
  return (x - y).abs().max().item<double>() / std::max(1.0, y.abs().max().item<double>());
}

Tensors gradients(const torch::Tensor& loss, const Tensors& leaves) {
  if (!loss.requires_grad()) {
    Tensors none;
    for (const torch::Tensor& leaf : leaves) none.push_back(torch::zeros_like(leaf));
    return none;
  }
  Tensors found = run_gradients(loss, leaves);
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
  takes_empty_samples_ = is_finite_on_empty_samples();
}

bool ContractProbe::is_finite_on_empty_samples() const {
  for (const EntryPoint& form : forms_) {
    const Inputs in = inputs(form, first({4, 0}, 4)).needing_gradients();
    try {
      const torch::Tensor out = call(*make(), form, in);
      bool finite = torch::isfinite(out).all().item<bool>();
      for (const torch::Tensor& found : gradients(weighted_sum(out), in.leaves))
        finite = finite && torch::isfinite(found).all().item<bool>();
      const torch::NoGradGuard no_grad;
      finite = finite && torch::isfinite(call(*make(), form, in)).all().item<bool>();
      if (!finite) return false;
    } catch (const std::exception& error) {
      if (is_out_of_memory(error)) throw;
      return true;  // what it is decides the clause that meets it
    }
  }
  return true;
}

torch::Tensor ContractProbe::samples(std::vector<int64_t> lengths, int64_t n) const {
  if (!takes_empty_samples_) std::ranges::replace(lengths, 0, 1);
  return first(lengths, n);
}

// Whether it overrides Attention::attend(), which only says that there is none.
bool ContractProbe::has_attend(Attention& attention, const EntryPoint& form) const {
  const Inputs in = inputs(form, first({2}, 2));
  const auto message = [](const auto& attend) -> std::string {
    try {
      attend();
    } catch (const std::exception& error) {
      if (is_out_of_memory(error)) throw;
      return error.what();
    }
    return "";
  };
  const torch::Tensor& q = in.leaves[0];
  const std::string none = message([&] { attention.Attention::attend(q, q, q, in.mask); });
  return message([&] { call(attention, form, in); }) != none;
}

std::shared_ptr<Attention> ContractProbe::as_made() const {
  seed_generators(subject_.context.seed);
  auto attention = subject_.make(subject_.context);
  attention->to(subject_.device);
  attention->eval();
  return attention;
}

std::shared_ptr<Attention> ContractProbe::make_dropping() const {
  if (!subject_.make_dropping) return nullptr;
  seed_generators(subject_.context.seed);
  auto attention = subject_.make_dropping(subject_.context);
  attention->to(subject_.device, torch::kDouble);
  attention->eval();
  return attention;
}

std::shared_ptr<Attention> ContractProbe::make(torch::ScalarType type) const {
  return make(type, subject_.context, subject_.context.seed);
}

std::shared_ptr<Attention> ContractProbe::make(torch::ScalarType type,
                                               const AttentionContext& context,
                                               uint64_t initial_seed) const {
  seed_generators(initial_seed);
  auto attention = subject_.make(context);
  attention->to(subject_.device, type);
  attention->eval();
  return attention;
}

void ContractProbe::far(ClauseReport& f, const std::function<void(Attention&)>& tries) const {
  AttentionContext context = subject_.context;
  context.max_length = std::max(context.max_length, kFarPositions);
  const auto made = [&] { return make(torch::kDouble, context, context.seed); };
  try {
    const torch::NoGradGuard no_grad;
    const auto attention = made();
    for (const EntryPoint& form : forms())
      call(*attention, form, inputs(form, first({kFarPositions}, kFarPositions)));
  } catch (const Unsupported&) {
    return;  // a model for so many positions would end in that one clear error
  } catch (const WrongResult&) {
    throw;
  } catch (const std::exception& error) {
    if (subject_.context.max_length >= kFarPositions) throw;
    return f.refused(kFarPositions, error);
  }
  tries(*made());
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

torch::Tensor ContractProbe::call_real(Attention& attention, const EntryPoint& form,
                                       const Inputs& in) const {
  return call(attention, form, in).masked_fill(in.padded(), 0);
}

torch::Tensor ContractProbe::train(const EntryPoint& form, const Inputs& in, uint64_t seed) const {
  const auto attention = make();
  attention->train();
  seed_generators(seed);
  return call(*attention, form, in);
}

double ContractProbe::exactness() const {
  if (exactness_) return *exactness_;
  const torch::NoGradGuard no_grad;
  const EntryPoint& form = core();
  const auto attention = make();
  const Inputs in = inputs(form, first({11, 9}, 11)),
               way = inputs(form, in.mask, torch::kDouble, 7);
  const auto at = [&](double t) {
    Inputs moved = in;
    for (size_t i = 0; i < moved.leaves.size(); ++i)
      moved.leaves[i] = in.leaves[i] + t * way.leaves[i];
    return call(*attention, form, moved);
  };
  // Along a step so short a function is a line, but for the digits that it has, and for curvature,
  // of which a quarter of the step leaves a sixteenth.
  constexpr double kStep = 1e-6, kOfFloat64 = 1e-10;
  const auto bend_of = [&](double step) { return difference(at(2 * step) + at(0), 2 * at(step)); };
  const double bend = bend_of(kStep);
  const bool rounded = bend > kOfFloat64 && bend < kExactInFloat32 && bend_of(kStep / 4) > bend / 8;
  exactness_ = rounded ? kExactInFloat32 : kExact;
  return *exactness_;
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
  // Modules of PyTorch have another path then.
  const torch::NoGradGuard no_grad;
  f.finite(what + "the output without gradients", call(attention, form, given));
}

}  // namespace lra::contract
