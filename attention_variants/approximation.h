// Which options make a variant an approximation of softmax attention and nothing else.
#pragma once

#include <string>

#include "attention_variants/fields.h"

namespace lra {

/// The options under which the variant of that name computes its approximation of softmax alone,
/// where its defaults add something to it (a convolution, say); {} where they do not.
json approximation_options(const std::string& name);

/// States them, beside the variant's registration.
bool register_approximation(const std::string& name, json options);

}  // namespace lra
