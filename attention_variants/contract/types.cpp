#include "attention_variants/contract/types.h"

#include <fmt/format.h>

#include <utility>

#include "attention_variants/ops/autocast.h"
#include "attention_variants/python_host.h"

namespace lra::contract {

namespace {

// What comes of inputs of a type is of that type, and of their shape.
void shapes_of(const ContractProbe& trial, ClauseReport& f, torch::ScalarType type) {
  const auto attention = trial.make(type);
  for (const EntryPoint& form : trial.forms()) {
    const Inputs in = trial.inputs(form, trial.samples({48, 0, 1, 24}, 48), type);
    const torch::Tensor out = trial.call(*attention, form, in);
    f.that(
        out.defined() && out.sizes() == in.leaves[0].sizes() && out.scalar_type() == type,
        fmt::format("{} of {} gives {}", form.name(), shape_text(in.leaves[0]), shape_text(out)));
  }
}

}  // namespace

void shape_and_type(const ContractProbe& trial, ClauseReport& f) {
  // As training has it: no parameter or buffer is converted.
  const auto as_made = trial.as_made();
  for (const EntryPoint& form : trial.forms()) {
    const Inputs in =
        trial.inputs(form, trial.samples({48, 0, 1, 24}, 48), torch::kFloat).needing_gradients();
    const torch::Tensor out = trial.call(*as_made, form, in);
    f.that(out.defined() && out.scalar_type() == torch::kFloat,
           fmt::format("{} of {} as it is made gives {}", form.name(), shape_text(in.leaves[0]),
                       shape_text(out)));
    if (out.requires_grad()) run_backward(out.sum());
  }
  as_made->train();
  for (const EntryPoint& form : trial.forms()) {
    const Inputs in = trial.inputs(form, first({48, 48}, 48), torch::kFloat);
    const torch::Tensor out = trial.call(*as_made, form, in);
    f.that(
        out.defined() && out.sizes() == in.leaves[0].sizes() && out.scalar_type() == torch::kFloat,
        fmt::format("{} of {} in training gives {}", form.name(), shape_text(in.leaves[0]),
                    shape_text(out)));
  }
  for (const auto type : {torch::kFloat, torch::kDouble}) shapes_of(trial, f, type);
}

void types_agree(const ContractProbe& trial, ClauseReport& f) {
  const EntryPoint& form = trial.core();
  for (const auto& [type, limit] : {std::pair{torch::kFloat, 1e-4}, {torch::kBFloat16, 6e-2}}) {
    // Not everything computes in bfloat16, torch's FFT among it, and runs in float32 need it not.
    f.grade(type == torch::kFloat ? Grade::wrong : Grade::fragile);
    if (type == torch::kBFloat16) shapes_of(trial, f, type);  // "shape and type" has the others
    // float64 with the same rounded parameters and inputs: rounding them once more may move a
    // token into another bucket or order.
    const auto attention = trial.make(type), reference = trial.make(type);
    reference->to(torch::kDouble);
    const Inputs in = trial.inputs(form, first({37, 20}, 37), type);
    const Inputs exact{in.changed([](const auto& t) { return t.to(torch::kDouble); }), in.mask};
    f.at_most(
        fmt::format("{} against float64:", type_name(type)),
        difference(trial.call_real(*attention, form, in), trial.call_real(*reference, form, exact)),
        limit);
  }
}

void autocast(const ContractProbe& trial, ClauseReport& f) {
  const auto attention = trial.make(torch::kFloat), reference = trial.make(torch::kFloat);
  reference->to(torch::kDouble);
  for (const EntryPoint& form : trial.forms()) {
    const auto type = form.attends ? torch::kBFloat16 : torch::kFloat;
    const Inputs in = trial.inputs(form, trial.samples({41, 20, 0}, 41), type);
    torch::Tensor out;
    {
      const ops::AutocastScope scope(trial.subject().device, ops::Dtype::bfloat16);
      out = trial.call(*attention, form, in);
    }
    // A layer without a matrix product has nothing that autocast would change.
    f.that(out.scalar_type() == torch::kBFloat16 || out.scalar_type() == type,
           fmt::format("{} under autocast gives {}", form.name(), shape_text(out)));
    f.finite(form.name() + " under autocast", out);
    // forward() rounds what attend() is given: only where there is no attend() is it compared.
    if (form.attends == trial.core().attends) {
      const Inputs exact{in.changed([](const auto& t) { return t.to(torch::kDouble); }), in.mask};
      f.at_most(
          form.name() + " under autocast against float64:",
          difference(out.masked_fill(in.padded(), 0), trial.call_real(*reference, form, exact)),
          6e-2);
    }
    if (form.attends || attention->parameters().empty()) continue;
    run_backward(weighted_sum(out));
    for (const auto& parameter : attention->named_parameters()) {
      if (parameter.value().grad().defined())
        f.finite("the gradient of " + parameter.key() + " under autocast",
                 parameter.value().grad());
    }
  }
}

}  // namespace lra::contract
