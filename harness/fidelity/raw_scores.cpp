#include "harness/fidelity/experiments.h"

namespace lra::fidelity {

void raw_scores(Session& session, const FidelityRequest& request) {
  const AttentionRecord attention = {.name = "raw scores",
                                     .label = "raw scores, first rows as landmarks",
                                     .options = {{"landmarks", "first"}, {"pinv", "exact"}}};
  for (const int64_t length : lengths_of(request, {50})) {
    torch::Tensor scores;  // [T,1,n,n]
    const auto given = session.random(
        1, {.trials = 100, .heads = 1, .length = length, .head_dim = 10}, {attention},
        [&](const FidelityInputs& inputs) { scores = inputs.q.matmul(inputs.k.mT()); });
    if (!given) continue;
    const FidelityInputs& inputs = *given;
    session.begin(1, inputs, length);
    for (int64_t m = 1; m <= length; ++m) {
      Fidelity record = session.cell(1, inputs, "float64");
      record.attention = attention;
      record.budget = "landmarks";
      record.budget_value = m;
      session.add(record, [&](Fidelity&, Measures& measures) {
        const torch::Tensor error = raw_score_approximation(inputs.q, inputs.k, m) - scores;
        measures = {{"scores", numbers(error.flatten(1).norm(2, 1))}};
        return true;
      });
    }
  }
}

torch::Tensor raw_score_approximation(const torch::Tensor& q, const torch::Tensor& k, int64_t m) {
  const torch::Tensor ql = q.narrow(-2, 0, m), kl = k.narrow(-2, 0, m);  // [..,m,d]
  return q.matmul(kl.mT()).matmul(at::linalg_pinv(ql.matmul(kl.mT()))).matmul(ql.matmul(k.mT()));
}

}  // namespace lra::fidelity
