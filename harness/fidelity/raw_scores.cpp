#include "harness/fidelity/experiments.h"

namespace lra::fidelity {

void raw_scores(Session& session, const FidelityRequest& request) {
  for (const int64_t length : lengths_of(request, {50})) {
    const FidelityInputs inputs = session.random(100, 1, length, 10);
    const torch::Tensor scores = inputs.q.matmul(inputs.k.mT());  // [T,1,n,n]
    session.begin(1, inputs, length);
    for (int64_t m = 1; m <= length; ++m) {
      Fidelity record = session.cell(1, inputs, "float64");
      record.attention = {.name = "raw scores",
                          .label = "raw scores, first rows as landmarks",
                          .options = {{"landmarks", "first"}, {"pinv", "exact"}}};
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
