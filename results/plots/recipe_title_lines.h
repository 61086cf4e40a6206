// What plots of a recipe's runs share: their size, and the title.
#pragma once

#include <string>
#include <vector>

#include "results/analysis/recipes.h"

namespace lra {

inline constexpr int kHalfWidth = 600, kHalfHeight = 430;  // pixels: two stand beside each other

/// Letters of a line of its title.
inline constexpr size_t kTitleLetters = 84;

/// What is drawn, and the recipe below it, in lines that fit above a picture of kHalfWidth.
std::vector<std::string> recipe_title_lines(const std::string& what, const RecipeGroup& group,
                                            const std::string& task);

}  // namespace lra
