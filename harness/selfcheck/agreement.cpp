// Whether an attention on the device is the function that it is on a CPU.
#include <fmt/format.h>

#include <algorithm>

#include "attention_variants/contract/contract.h"
#include "attention_variants/contract/trial.h"
#include "attention_variants/ops/autocast.h"
#include "harness/selfcheck/checks.h"
#include "lra/config/protocol.h"
#include "lra/data/task.h"

namespace lra::selfcheck {
namespace {

using contract::ContractProbe;
using contract::ContractSubject;
using contract::EntryPoint;
using contract::Inputs;
using contract::Tensors;

// Largest errors, relative in the Frobenius norm.
struct ParityLimits {
  torch::ScalarType type;
  bool autocast = false;  // to bfloat16, of parameters in float32
  double output = 0, gradient = 0;
};

ContractSubject contract_subject_of(const CheckSubject& given) {
  ContractSubject subject = contract::contract_subject(*given.attention);
  const ModelOptions model =
      task_settings(load_protocol("lra-strict"), tasks().front()->name).model;
  subject.context.heads = model.heads;
  subject.context.head_dim = model.head_dim;
  subject.context.width = model.width;
  subject.context.max_length = 256;
  subject.device = given.device;
  return subject;
}

double norm_of(const torch::Tensor& t) { return t.to(torch::kDouble).norm().item<double>(); }

double distance(const torch::Tensor& a, const torch::Tensor& b) {
  return norm_of(a.detach().cpu().to(torch::kDouble) - b.detach());
}

// What an attention gives: its output, and the gradients of a sum of it in inputs and parameters.
struct Outcome {
  torch::Tensor output;
  Tensors gradients;
  std::vector<std::string> names;  // of what the gradients are in
};

Outcome outcome_of(const ContractProbe& probe, Attention& attention, const EntryPoint& form,
                   const Inputs& given) {
  const Inputs in = given.needing_gradients();
  Outcome found{.output = probe.call(attention, form, in), .gradients = {}, .names = form.leaves};
  Tensors leaves = in.leaves;
  for (const auto& parameter : attention.named_parameters()) {
    leaves.push_back(parameter.value());
    found.names.push_back(parameter.key());
  }
  found.gradients = contract::gradients(contract::weighted_sum(found.output), leaves);
  return found;
}

// A gradient that cancels, as that of a key's bias, is held against the others' size.
void compare(const std::string& where, const Outcome& a, const Outcome& exact,
             const ParityLimits& limits, CheckReport& report) {
  report.at_most(where + ": the output", distance(a.output, exact.output) / norm_of(exact.output),
                 limits.output);
  constexpr double kSmall = 0.01;  // of the largest gradient
  double largest = 0;
  for (const torch::Tensor& gradient : exact.gradients)
    largest = std::max(largest, norm_of(gradient));
  for (size_t i = 0; i < exact.gradients.size(); ++i) {
    const double size = std::max(norm_of(exact.gradients[i]), kSmall * largest);
    report.at_most(fmt::format("{}: the gradient of {}", where, exact.names[i]),
                   distance(a.gradients[i], exact.gradients[i]) / size, limits.gradient);
  }
}

void check_parity(const CheckSubject& given, const ParityLimits& limits, CheckReport& report) {
  const ContractSubject here = contract_subject_of(given);
  ContractSubject there = here;
  there.context.kernels = Kernels::reference;
  there.device = torch::kCPU;
  const ContractProbe probe(here), reference(there);
  for (const EntryPoint& form : probe.forms()) {
    // forward() rounds what attend() is given: under autocast only the core can be compared.
    if (limits.autocast && form.attends != probe.core().attends) continue;
    const auto type = limits.autocast && form.attends ? torch::kBFloat16 : limits.type;
    // Not a multiple of any tile, and a sample of one token.
    const torch::Tensor mask = probe.samples({203, 131, 1}, 203);
    const auto attention = probe.make(limits.type), exact = reference.make(limits.type);
    exact->to(torch::kDouble);  // of the same rounded parameters
    Outcome found;
    {
      std::optional<ops::AutocastScope> scope;
      if (limits.autocast) scope.emplace(here.device, ops::Dtype::bfloat16);
      found = outcome_of(probe, *attention, form, probe.inputs(form, mask, type));
    }
    Inputs in = reference.inputs(form, mask, type);
    in.leaves = in.changed([](const auto& t) { return t.to(torch::kDouble); });
    compare(form.name(), found, outcome_of(reference, *exact, form, in), limits, report);
  }
}

}  // namespace

void check_contract(const CheckSubject& subject, CheckReport& report) {
  const ContractSubject tried = contract_subject_of(subject);
  std::string broken;
  int64_t count = 0;
  for (const contract::ContractClause& clause : contract::contract_clauses()) {
    const contract::Verdict verdict = contract::check_clause(clause.name, tried);
    if (verdict.holds || verdict.grade != contract::Grade::wrong) continue;
    ++count;
    broken += (broken.empty() ? "" : "; ") + clause.name + ": " + verdict.measured;
    if (clause.decisive) break;
  }
  report.at_most("clauses that are broken", static_cast<double>(count), 0);
  if (count > 0) throw CheckEnd(Finding::failed, broken);
}

void check_parity_float64(const CheckSubject& subject, CheckReport& report) {
  check_parity(subject, {.type = torch::kDouble, .output = 1e-10, .gradient = 1e-8}, report);
}

void check_parity_float32(const CheckSubject& subject, CheckReport& report) {
  check_parity(subject, {.type = torch::kFloat, .output = 1e-4, .gradient = 1e-3}, report);
}

void check_parity_bfloat16(const CheckSubject& subject, CheckReport& report) {
  check_parity(subject, {.type = torch::kFloat, .autocast = true, .output = 0.06, .gradient = 0.06},
               report);
}

}  // namespace lra::selfcheck
