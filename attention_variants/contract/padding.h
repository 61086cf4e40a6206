// The clauses of the contract about padding, as contract.cpp lists them.
#pragma once

#include "attention_variants/contract/trial.h"

namespace lra::contract {

void padded_rows(const ContractProbe& trial, ClauseReport& f);
void all_padding(const ContractProbe& trial, ClauseReport& f);
void one_token(const ContractProbe& trial, ClauseReport& f);
void padding_invariance(const ContractProbe& trial, ClauseReport& f);
void length_invariance(const ContractProbe& trial, ClauseReport& f);

}  // namespace lra::contract
