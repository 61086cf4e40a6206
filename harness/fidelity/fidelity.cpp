#include "harness/fidelity/fidelity.h"

#include "harness/fidelity/experiments.h"

namespace lra::fidelity {
namespace {

using Experiment = void (*)(Session& session, const FidelityRequest& request);

constexpr Experiment kExperiments[] = {raw_scores, landmark_matrices, iterations, approximations};

}  // namespace

FidelityEnd run_fidelity(const FidelityRequest& request) {
  const torch::NoGradGuard no_grad;
  Session session(request);
  for (const int64_t number : request.experiments)
    kExperiments[static_cast<size_t>(number - 1)](session, request);
  return {.cells = session.size(), .crashed = session.crashed()};
}

std::vector<int64_t> lengths_of(const FidelityRequest& request, std::vector<int64_t> own) {
  return request.lengths.empty() ? own : request.lengths;
}

}  // namespace lra::fidelity
