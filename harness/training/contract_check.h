// The clauses of the contract, tried on a run's attention before it is trained.
#pragma once

#include <array>
#include <optional>

#include "attention_variants/contract/contract.h"
#include "harness/training/run_folder.h"

namespace lra {

struct TrainRequest;

/// Of which attentions a run tries the contract.
enum class ContractCheck { own, all, none };  // own: those that are the user's own
constexpr auto names(ContractCheck) { return std::array{"own", "all", "none"}; }

/// The attention as a run's model has it, with the options that the protocol gives it, to try the
/// contract on.
contract::ContractSubject subject_in_model(const Config& config, torch::Device device);

/// What the run's folder says of its attention's contract where the run goes on at `step`; else
/// the clauses tried now, at the sizes of the run, where the request's ContractCheck says so. What
/// fails is said. The random state is left as it was.
std::optional<ContractRecord> contract_of(const TrainRequest& request, const RunFolder& folder,
                                          int64_t step);

}  // namespace lra
