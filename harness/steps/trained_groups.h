// Which parameters of a model are trained with what: `optimizer.groups`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "attention_variants/ops/adamw.h"
#include "attention_variants/torch.h"
#include "lra/config/settings.h"
#include "lra/model/model.h"

namespace lra {

struct TrainedGroup {
  std::string name;  // its patterns, "*.log_dt, slow"; "rest": of what no pattern matches
  double lr = 0;     // at the schedule's factor of 1
  double weight_decay = 0;
  std::vector<torch::Tensor> parameters;  // at least one

  int64_t parameter_count() const;
};

/// In the order of `optimizer.groups`, then the rest. Throws UsageError where a pattern matches no
/// parameter that an earlier one has not; "slow" may: some attentions have no such parameters.
std::vector<TrainedGroup> trained_groups(const Model& model, const OptimizerOptions& optimizer);

/// An optimizer over them.
ops::FusedAdamW make_optimizer(const std::vector<TrainedGroup>& groups,
                               const OptimizerOptions& optimizer);

}  // namespace lra
