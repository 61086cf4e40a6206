// What stands below a table of accuracies.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "results/analysis/accuracy_cells.h"

namespace lra {

/// Whether published numbers may stand in a table of this recipe: it is the protocol's own.
inline bool shows_published(const RecipeGroup& group) {
  const bool started_otherwise = std::ranges::any_of(group.results, [](const Result* r) {
    return r->pretrained && r->config.value("pretraining", json::object()).empty();
  });
  return group.overridden.empty() && group.of_budget.empty() && !started_otherwise;
}

/// A line each: warnings of what was not learned, who is not distinguishable from the best, the
/// recipe and its data, what the intervals are, and where the published numbers are from.
/// `reference` may be null.
std::vector<std::string> accuracy_notes(const RecipeGroup& group, const AccuracyCells& cells,
                                        const std::vector<std::string>& tasks,
                                        const Published* reference);

}  // namespace lra
