// What the contract said of the attentions of a table or comparison.
#pragma once

#include <string>
#include <vector>

#include "results/analysis/recipes.h"

namespace lra {

/// A note a row whose attention does not keep all of the contract: how many clauses hold, and which
/// do not.
std::vector<std::string> contract_notes(const RecipeGroup& group);

}  // namespace lra
