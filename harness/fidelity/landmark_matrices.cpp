#include <algorithm>

#include "attention_variants/ops/reference/landmark_attention.h"
#include "attention_variants/registry.h"
#include "harness/fidelity/experiments.h"

namespace lra::fidelity {
namespace {

struct MatrixInputs {
  FidelityInputs inputs;
  torch::Tensor values;  // [T,1,n,n+d]: the identity, whose output is the attention matrix, and v
  torch::Tensor exact;   // [T,1,n,n+d]
};

MatrixInputs matrix_inputs(const FidelityInputs& inputs) {
  const int64_t length = inputs.length();
  const torch::Tensor values = torch::cat(
      {torch::eye(length, inputs.v.options()).expand({inputs.trials(), 1, -1, -1}), inputs.v}, -1);
  torch::Tensor exact = exact_attention(inputs.q, inputs.k, values, inputs.mask);
  return {inputs, values, std::move(exact)};
}

// Errors of every trial with `m` landmarks of a kind and an inverse by `steps` iterations (0:
// exact).
Measures matrix_errors(const MatrixInputs& given, ops::LandmarkKind kind, int64_t m, int64_t steps,
                       uint64_t seed) {
  const int64_t length = given.inputs.length(), width = given.inputs.head_dim();
  Measures measures = {{"matrix", {}}, {"output", {}}};
  for (int64_t t = 0; t < given.inputs.trials(); ++t) {
    const FidelityInputs one = sample(given.inputs, t);
    const ops::reference::Landmarks landmarks = ops::reference::make_landmarks(
        one.q, one.k, one.mask,
        {.count = m, .kind = kind, .seed = seed + static_cast<uint64_t>(t)});
    const torch::Tensor a = ops::reference::landmark_matrix(landmarks);
    const torch::Tensor z = steps == 0 ? ops::reference::exact_landmark_inverse(a)
                                       : ops::reference::landmark_inverse(a, steps);
    const torch::Tensor x = ops::reference::landmark_product(
        one.q, one.k, given.values.narrow(0, t, 1), one.mask, landmarks, z);
    const torch::Tensor right = given.exact.narrow(0, t, 1);
    append(measures[0].second,
           relative_errors(x.narrow(-1, 0, length), right.narrow(-1, 0, length)));
    append(measures[1].second,
           relative_errors(x.narrow(-1, length, width), right.narrow(-1, length, width)));
  }
  return measures;
}

}  // namespace

AttentionRecord landmark_record(const json& options) {
  const auto entries = attention_entries();
  const auto found = std::ranges::find_if(
      entries, [](const AttentionEntry* entry) { return entry->info.landmark_study; });
  if (found == entries.end()) throw Error("no attention is one of landmark matrices");
  const std::string& name = (*found)->info.name;
  return {.name = name,
          .label = AttentionSpec{.name = name, .options = options}.text(),
          .options = (*found)->effective_options(options)};
}

void landmark_matrices(Session& session, const FidelityRequest& request) {
  const auto kinds = all_values<ops::LandmarkKind>();
  for (const int64_t length : lengths_of(request, {256})) {
    MatrixInputs given;
    const auto inputs =
        session.random(2, {.trials = 10, .heads = 1, .length = length, .head_dim = 32},
                       {landmark_record(json::object())},
                       [&](const FidelityInputs& random) { given = matrix_inputs(random); });
    if (!inputs) continue;
    session.begin(2, given.inputs, 2 * std::ssize(kinds) * length);
    for (const ops::LandmarkKind kind : kinds) {
      for (const bool exact : {false, true}) {
        for (int64_t m = 1; m <= length; ++m) {
          Fidelity record = session.cell(2, given.inputs, "float64");
          record.attention = landmark_record(
              {{"landmarks", to_string(kind)}, {"pinv", exact ? "exact" : "iterative"}});
          record.attention.options["num_landmarks"] = m;
          record.budget = "num_landmarks";
          record.budget_value = m;
          session.add(record, [&](Fidelity& cell, Measures& measures) {
            const int64_t steps = cell.attention.options["pinv_iterations"];
            measures = matrix_errors(given, kind, m, exact ? 0 : steps, request.seed);
            return true;
          });
        }
      }
    }
  }
}

}  // namespace lra::fidelity
