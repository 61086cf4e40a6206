// The clauses of the contract about padding, as contract.cpp lists them.
#pragma once

#include "attention_variants/contract/trial.h"

namespace lra::contract {

void padded_rows(const Trial& trial, Findings& f);
void all_padding(const Trial& trial, Findings& f);
void one_token(const Trial& trial, Findings& f);
void padding_invariance(const Trial& trial, Findings& f);
void length_invariance(const Trial& trial, Findings& f);

}  // namespace lra::contract
