#include "attention_variants/contract/padding.h"

#include <fmt/ranges.h>

#include <limits>
#include <utility>

namespace lra::contract {

void padded_rows(const ContractProbe& trial, ClauseReport& f) {
  const auto attention = trial.make();
  for (const EntryPoint& form : trial.forms()) {
    for (const int64_t n : {1, 5, 41}) {
      const Inputs in = trial.inputs(form, trial.samples({n, 0, 1, (n + 1) / 2}, n));
      const torch::Tensor out = trial.call(*attention, form, in);
      const torch::Tensor worst = out.masked_fill(in.padded().logical_not(), 0).abs().max();
      f.at_most(fmt::format("{}, N = {}: largest value at a padded position", form.name(), n),
                worst.item<double>(), 0);
    }
  }
}

void all_padding(const ContractProbe& trial, ClauseReport& f) {
  for (const auto type : {torch::kFloat, torch::kDouble, torch::kBFloat16}) {
    const auto attention = trial.make(type);
    for (const EntryPoint& form : trial.forms()) {
      for (const auto& [lengths, n] :
           {std::pair{std::vector<int64_t>{0, 41}, int64_t{41}}, {{0, 0}, 41}, {{0}, 1}}) {
        trial.check_finite(
            f, *attention, form, trial.inputs(form, first(lengths, n), type),
            fmt::format("{}, lengths {} of {}", c10::toString(type), fmt::join(lengths, ", "), n));
      }
    }
  }
}

void one_token(const ContractProbe& trial, ClauseReport& f) {
  for (const auto type : {torch::kFloat, torch::kDouble, torch::kBFloat16}) {
    const auto attention = trial.make(type);
    for (const int64_t n : {9, 41}) {
      // Samples with their token in different places.
      const torch::Tensor place = torch::tensor({int64_t{0}, n / 2, n - 1}).unsqueeze(1);
      const torch::Tensor mask = torch::arange(n).unsqueeze(0).eq(place);  // [3,N]
      trial.check_finite(f, *attention, trial.core(), trial.inputs(trial.core(), mask, type),
                         fmt::format("{}, N = {}", c10::toString(type), n));
    }
  }
}

namespace {

// What replaces padded positions, and its name: zero times each but the first is NaN, and so is
// zero times the square of the first in float32.
constexpr std::pair<double, const char*> kExtremes[] = {
    {1e30, "1e30"},
    {std::numeric_limits<double>::infinity(), "infinity"},
    {std::numeric_limits<double>::quiet_NaN(), "NaN"}};

// Extremes at padded positions against zeros there: outputs and gradients.
void extreme_padding(const ContractProbe& trial, ClauseReport& f, const EntryPoint& form,
                     const Inputs& in, const std::string& what, torch::ScalarType type) {
  const bool single = type == torch::kFloat;
  const auto attention = trial.make(type);
  const torch::Tensor padded = in.padded();
  const auto run = [&](double value, Tensors& found) {
    const Inputs filled{in.changed([&](const auto& t) {
                          return t.detach().to(type).masked_fill(padded, value).requires_grad_();
                        }),
                        in.mask};
    const torch::Tensor out = trial.call(*attention, form, filled).masked_fill(padded, 0);
    found = gradients(weighted_sum(out), filled.leaves);
    return out;
  };
  Tensors zero_gradients, found;
  const torch::Tensor with_zero = run(0, zero_gradients);
  for (const auto& [value, name] : kExtremes) {
    const std::string by = std::string(name) + (single ? " in float32" : "");
    f.at_most(what + "change by " + by, difference(run(value, found), with_zero),
              single ? 1e-6 : 1e-12);
    for (size_t i = 0; i < found.size(); ++i) {
      f.finite(what + "by " + by + " the gradient of " + form.leaves[i], found[i]);
      f.at_most(what + "change by " + by + " of the gradient of " + form.leaves[i],
                difference(found[i], zero_gradients[i]), single ? 1e-5 : 1e-10);
    }
  }
}

// The same with other noise, ten times as large, at padded positions.
Inputs with_noise(const ContractProbe& trial, const EntryPoint& form, const Inputs& in) {
  const Inputs noise = trial.inputs(form, in.mask, torch::kDouble, /*seed=*/99);
  Inputs other = in;
  for (size_t i = 0; i < in.leaves.size(); ++i)
    other.leaves[i] = torch::where(in.padded(), noise.leaves[i] * 10, in.leaves[i]).detach();
  return other;
}

// Noise at padded positions against other noise, and the gradients there.
void noisy_padding(const ContractProbe& trial, ClauseReport& f, Attention& attention,
                   const EntryPoint& form, const Inputs& in, const std::string& what) {
  const torch::Tensor padded = in.padded(), output = trial.call(attention, form, in);
  const auto real = [&](const torch::Tensor& t) { return t.masked_fill(padded, 0); };
  const Inputs other = with_noise(trial, form, in);
  f.at_most(what + "change by noise",
            difference(real(trial.call(attention, form, other)), real(output)), 1e-12);

  const Tensors found = gradients(weighted_sum(real(output)), in.leaves);
  for (size_t i = 0; i < found.size(); ++i) {
    const torch::Tensor at_padding = found[i].masked_fill(padded.logical_not(), 0);
    f.at_most(what + "gradient of padded " + form.leaves[i], at_padding.abs().max().item<double>(),
              1e-12);
  }
}

}  // namespace

void padding_invariance(const ContractProbe& trial, ClauseReport& f) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(uint64_t{23});
  const torch::Tensor holes = torch::rand({4, 41}, generator, torch::kDouble).gt(0.4);
  trial.far(f, [&](Attention& attention) {
    for (const EntryPoint& form : trial.forms()) {
      const Inputs in = trial.inputs(form, first({kFarPositions, 170, 70}, kFarPositions));
      noisy_padding(trial, f, attention, form, in.needing_gradients(),
                    fmt::format("{}, N = {}: ", form.name(), kFarPositions));
    }
  });
  for (const EntryPoint& form : trial.forms()) {
    const Inputs in = trial.inputs(form, trial.samples({41, 30, 1, 7, 0}, 41));
    f.at_most(form.name() + " in training: change by noise",
              difference(trial.train(form, with_noise(trial, form, in)).masked_fill(in.padded(), 0),
                         trial.train(form, in).masked_fill(in.padded(), 0)),
              1e-12);
  }
  for (const EntryPoint& form : trial.forms()) {
    const auto attention = trial.make();
    for (const auto& [where, mask] :
         {std::pair{"at the end", trial.samples({41, 30, 1, 7, 0}, 41)}, {"anywhere", holes}}) {
      const Inputs in = trial.inputs(form, mask).needing_gradients();
      const std::string what = fmt::format("{}, padding {}: ", form.name(), where);
      noisy_padding(trial, f, *attention, form, in, what);
      f.grade(Grade::fragile);
      for (const auto type : {torch::kDouble, torch::kFloat})
        extreme_padding(trial, f, form, in, what, type);
      f.grade(Grade::wrong);
    }
  }
}

namespace {

// The first `cut` positions of samples padded to the mask's length against those padded to `cut`.
void less_padding(const ContractProbe& trial, ClauseReport& f, Attention& attention,
                  const torch::Tensor& mask, int64_t cut, torch::ScalarType type) {
  for (const EntryPoint& form : trial.forms()) {
    const Inputs in = trial.inputs(form, mask, type);
    const auto shorter = [cut](const torch::Tensor& t) {
      return t.narrow(t.dim() == 4 ? 2 : 1, 0, cut);
    };
    const Inputs less{in.changed(shorter), shorter(in.mask)};
    const auto real = [&](const torch::Tensor& t) { return t.masked_fill(less.padded(), 0); };
    f.at_most(fmt::format("{} in {}: change by padding {} positions to {}", form.name(),
                          c10::toString(type), cut, mask.size(1)),
              difference(real(trial.call(attention, form, less)),
                         real(shorter(trial.call(attention, form, in)))),
              type == torch::kDouble ? trial.exactness() : kExactInFloat32);
  }
}

}  // namespace

void length_invariance(const ContractProbe& trial, ClauseReport& f) {
  f.that(true, "");
  if (!trial.make()->length_invariant())
    return f.note("it makes no such promise, and is not tried");
  auto generator = at::make_generator<at::CPUGeneratorImpl>(uint64_t{23});
  const torch::Tensor holes = torch::rand({4, 61}, generator, torch::kDouble)
                                  .gt(0.4)
                                  .logical_and(first({41, 33, 5, 40}, 61));
  for (const auto type : {torch::kDouble, torch::kFloat}) {
    const auto attention = trial.make(type);
    for (const auto& [mask, cut] : {std::pair{trial.samples({30, 1, 7, 0, 22}, 64), int64_t{30}},
                                    {first({3, 2}, 48), 3},
                                    {holes, 41}})
      less_padding(trial, f, *attention, mask, cut, type);
  }
  trial.far(f, [&](Attention& attention) {
    const torch::Tensor mask = first({170, 70, 128}, kFarPositions);
    less_padding(trial, f, attention, mask, 170, torch::kDouble);
  });
}

}  // namespace lra::contract
