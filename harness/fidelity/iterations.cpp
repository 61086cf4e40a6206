#include "harness/fidelity/experiments.h"

#include "attention_variants/ops/padding.h"
#include "attention_variants/ops/reference/landmark_attention.h"

namespace lra::fidelity {
namespace {

constexpr int64_t kMostIterations = 20;

ops::reference::Landmarks means(const FidelityInputs& inputs, int64_t m) {
  return ops::reference::make_landmarks(ops::zero_padding(inputs.q, inputs.mask),
                                        ops::zero_padding(inputs.k, inputs.mask), inputs.mask,
                                        {.count = m});
}

// The largest singular value over the smallest of the real landmarks' part.
void conditions(Session& session, const FidelityInputs& inputs, int64_t m) {
  Fidelity record = session.cell(3, inputs, "float64");
  record.attention = landmark_record(json::object());
  record.attention.options["num_landmarks"] = m;
  record.budget = "num_landmarks";
  record.budget_value = m;
  session.add(record, [&](Fidelity&, Measures& measures) {
    FidelityInputs wide = inputs;
    for (torch::Tensor* x : {&wide.q, &wide.k}) *x = x->to(torch::kDouble);
    const ops::reference::Landmarks landmarks = means(wide, m);
    const torch::Tensor values =
        at::linalg_svdvals(ops::reference::landmark_matrix(landmarks));  // [T,H,m]
    const torch::Tensor last =
        (landmarks.real.sum(1) - 1).clamp_min(0).view({-1, 1, 1}).expand({-1, inputs.heads(), 1});
    measures = {{"condition", numbers(values.narrow(2, 0, 1) / values.gather(2, last))}};
    return true;
  });
}

void iterate(Session& session, const FidelityInputs& inputs, int64_t m, const char* dtype,
             torch::Dtype type, torch::Dtype iterated) {
  // Made when needed, in a cell, which says where memory ends.
  FidelityInputs typed;
  torch::Tensor exact, a;  // [T,H,n,d], [T,H,m,m]
  ops::reference::Landmarks landmarks;
  const bool throughout = type == torch::kBFloat16 && iterated == type;
  for (int64_t steps = 1; steps <= kMostIterations; ++steps) {
    Fidelity record = session.cell(3, inputs, dtype);
    record.attention = landmark_record({{"num_landmarks", m}});
    record.attention.options["pinv_iterations"] = steps;
    if (throughout) {
      record.attention.label += " iterated in bfloat16";
      record.attention.options["iterated_in"] = "bfloat16";
    }
    record.budget = "pinv_iterations";
    record.budget_value = steps;
    session.add(record, [&](Fidelity&, Measures& measures) {
      if (!a.defined()) {
        typed = inputs;
        for (torch::Tensor* x : {&typed.q, &typed.k, &typed.v}) *x = x->to(type);
        exact = exact_attention(typed.q, typed.k, typed.v, typed.mask);
        landmarks = means(typed, m);
        a = ops::reference::landmark_matrix(landmarks);
      }
      const torch::Tensor z =
          ops::reference::landmark_inverse(a.to(iterated), steps).to(a.scalar_type());
      // Rows and columns of landmarks that are not real are zero, and no error.
      const torch::Tensor one =
          landmarks.real.to(torch::kDouble).unsqueeze(1).diag_embed();  // [T,1,m,m]
      const torch::Tensor product = a.to(torch::kDouble).matmul(z.to(torch::kDouble));
      const torch::Tensor out = ops::zero_padded_rows(
          ops::reference::landmark_product(typed.q, typed.k, typed.v, typed.mask, landmarks, z),
          typed.mask);
      measures = {{"inverse", numbers((product - one).flatten(2).norm(2, 2).mean(1))},
                  {"output", relative_errors(out, exact)}};
      return true;
    });
  }
}

}  // namespace

void iterations(Session& session, const FidelityRequest& request) {
  for (const int64_t length : lengths_of(request, {1024})) {
    for (const FidelityInputs& inputs :
         session.with_trained(3, {.trials = 10, .heads = 1, .length = length, .head_dim = 32},
                              {landmark_record(json::object())})) {
      std::vector<int64_t> counts;
      for (const int64_t m : kIterationLandmarks) {
        if (m <= length) counts.push_back(m);
      }
      session.begin(3, inputs, std::ssize(counts) * (3 * kMostIterations + 1));
      for (const int64_t m : counts) {
        conditions(session, inputs, m);
        iterate(session, inputs, m, "float32", torch::kFloat, torch::kFloat);
        iterate(session, inputs, m, "bfloat16", torch::kBFloat16, torch::kFloat);
        iterate(session, inputs, m, "bfloat16", torch::kBFloat16, torch::kBFloat16);
      }
    }
  }
}

}  // namespace lra::fidelity
