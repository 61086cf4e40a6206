// The four experiments; fidelity.h says what each measures. They own nothing: cells go to the
// session.
#pragma once

#include <vector>

#include "harness/fidelity/session.h"

namespace lra::fidelity {

void raw_scores(Session& session, const FidelityRequest& request);
void landmark_matrices(Session& session, const FidelityRequest& request);
void iterations(Session& session, const FidelityRequest& request);
void approximations(Session& session, const FidelityRequest& request);

/// The lengths asked for, or an experiment's own.
std::vector<int64_t> lengths_of(const FidelityRequest& request, std::vector<int64_t> own);

/// The record of attention by landmark matrices with these options, which the label names.
AttentionRecord landmark_record(const json& options);

}  // namespace lra::fidelity
