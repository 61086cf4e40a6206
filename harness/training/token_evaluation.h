// Evaluation where the labels are tokens of the inputs.
#pragma once

#include <string>

#include "attention_variants/torch.h"
#include "harness/training/evaluation.h"
#include "lra/data/objective.h"

namespace lra {

/// What records call the accuracy of an objective: "masked_token_accuracy",
/// "next_token_accuracy"; "" of classify.
std::string metric_of(Objective objective);
/// The same in words: "masked token accuracy"; "accuracy" of "".
std::string metric_words(const std::string& metric);

/// evaluate() of a model in evaluation mode, where `options` predict tokens: loss and accuracy over
/// the tokens that are to be predicted, the same ones in every evaluation.
Evaluation evaluate_tokens(Model& model, const Split& split, const LoaderOptions& options,
                           ops::Dtype dtype, torch::Device device, const std::string& what,
                           Processes* processes);

}  // namespace lra
