// What every attention variant can do, as `lra list attentions` and docs/attentions.md say it.
#pragma once

#include "attention_variants/attention.h"
#include "results/print/table.h"

namespace lra {

enum class Trying { no, yes };

/// One object a variant: what it declares of itself, its options with defaults, and with
/// Trying::yes its model's `parameters` under the default protocol and what was tried just now on
/// small tensors: `mask` (padding changes nothing), `bfloat16` (agrees with float64), `cuda` (runs
/// there). Without, those are null and "not tried"; `cuda` also where no CUDA device is found.
json capabilities(Trying trying);

/// The same as a table, without columns of what was not tried; options and papers are left to the
/// notes.
Table capability_table(const json& capabilities);

}  // namespace lra
