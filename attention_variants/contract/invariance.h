// The clauses of the contract about what must change nothing, as contract.cpp lists them; those
// about padding are in padding.h.
#pragma once

#include "attention_variants/contract/trial.h"

namespace lra::contract {

void batch_invariance(const ContractProbe& trial, ClauseReport& f);
void causality(const ContractProbe& trial, ClauseReport& f);
void deterministic(const ContractProbe& trial, ClauseReport& f);
void non_contiguous(const ContractProbe& trial, ClauseReport& f);
void inputs_unchanged(const ContractProbe& trial, ClauseReport& f);

}  // namespace lra::contract
