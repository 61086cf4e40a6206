// The clauses of the contract about gradients and large logits, as contract.cpp lists them.
#pragma once

#include "attention_variants/contract/trial.h"

namespace lra::contract {

void large_logits(const ContractProbe& trial, ClauseReport& f);
void parameter_gradients(const ContractProbe& trial, ClauseReport& f);
void finite_differences(const ContractProbe& trial, ClauseReport& f);

}  // namespace lra::contract
