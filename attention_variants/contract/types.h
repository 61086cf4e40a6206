// The clauses of the contract about number types, as contract.cpp lists them.
#pragma once

#include "attention_variants/contract/trial.h"

namespace lra::contract {

void shape_and_type(const ContractProbe& trial, ClauseReport& f);
void types_agree(const ContractProbe& trial, ClauseReport& f);
void autocast(const ContractProbe& trial, ClauseReport& f);

}  // namespace lra::contract
