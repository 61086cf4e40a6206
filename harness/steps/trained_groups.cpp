#include "harness/steps/trained_groups.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "lra/config/parameter_groups.h"

namespace lra {
namespace {

std::set<std::string> matching(const std::string& pattern, const Model& model) {
  std::set<std::string> names;
  if (pattern == kSlowParameters) {
    const std::vector<std::string> slow = model.slow_parameters();
    names.insert(slow.begin(), slow.end());
  } else {
    for (const auto& item : model.named_parameters()) {
      if (matches(pattern, item.key())) names.insert(item.key());
    }
  }
  return names;
}

// Moves what the group's patterns match from `left` to the result, in the model's order.
std::vector<torch::Tensor> take(const ParameterGroup& group, const Model& model,
                                std::set<std::string>& left) {
  std::set<std::string> taken;
  for (const std::string& pattern : group.match) {
    const size_t before = taken.size();
    std::ranges::set_intersection(matching(pattern, model), left,
                                  std::inserter(taken, taken.end()));
    if (taken.size() == before && pattern != kSlowParameters) {
      std::vector<std::string> names;
      for (const auto& item : model.named_parameters()) names.push_back(item.key());
      throw UsageError(
          fmt::format("optimizer.groups, of --set or of the protocol: '{}' matches no parameter "
                      "that an earlier pattern has not; give patterns of this model's, or none "
                      "([]); there are {}",
                      pattern, fmt::join(names, ", ")));
    }
  }
  std::vector<torch::Tensor> parameters;
  for (const auto& item : model.named_parameters()) {
    if (taken.contains(item.key())) parameters.push_back(item.value());
  }
  for (const std::string& name : taken) left.erase(name);
  return parameters;
}

torch::optim::AdamWOptions options_of(const TrainedGroup& group,
                                      const OptimizerOptions& optimizer) {
  return torch::optim::AdamWOptions(group.lr)
      .betas({optimizer.beta1, optimizer.beta2})
      .eps(optimizer.eps)
      .weight_decay(group.weight_decay);
}

}  // namespace

int64_t TrainedGroup::parameter_count() const {
  int64_t count = 0;
  for (const torch::Tensor& parameter : parameters) count += parameter.numel();
  return count;
}

std::vector<TrainedGroup> trained_groups(const Model& model, const OptimizerOptions& optimizer) {
  std::set<std::string> left;
  for (const auto& item : model.named_parameters()) left.insert(item.key());
  std::vector<TrainedGroup> groups;
  for (const ParameterGroup& group : parameter_groups(optimizer.groups)) {
    TrainedGroup trained{.name = fmt::format("{}", fmt::join(group.match, ", ")),
                         .lr = group.lr.value_or(optimizer.lr),
                         .weight_decay = group.weight_decay.value_or(optimizer.weight_decay),
                         .parameters = take(group, model, left)};
    if (!trained.parameters.empty()) groups.push_back(std::move(trained));
  }
  TrainedGroup rest{
      .name = "rest", .lr = optimizer.lr, .weight_decay = optimizer.weight_decay, .parameters = {}};
  for (const auto& item : model.named_parameters()) {
    if (left.contains(item.key())) rest.parameters.push_back(item.value());
  }
  if (!rest.parameters.empty()) groups.push_back(std::move(rest));
  return groups;
}

ops::FusedAdamW make_optimizer(const std::vector<TrainedGroup>& groups,
                               const OptimizerOptions& optimizer) {
  std::vector<torch::optim::OptimizerParamGroup> all;
  for (const TrainedGroup& group : groups) {
    all.emplace_back(group.parameters,
                     std::make_unique<torch::optim::AdamWOptions>(options_of(group, optimizer)));
  }
  return ops::FusedAdamW(std::move(all), options_of(groups.front(), optimizer));
}

}  // namespace lra
