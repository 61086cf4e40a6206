#include "attention_variants/ops/adamw.h"
#include "attention_variants/ops/heads.h"

#include <map>
#include <tuple>
#include <vector>

namespace lra::ops {
namespace {

// What one call goes over: parameters of one device and type that have taken as many steps.
struct Lists {
  std::vector<torch::Tensor> parameters, gradients, moments, squares, given;
};
using Calls = std::map<std::tuple<std::string, torch::ScalarType, int64_t>, Lists>;

void add_to(Calls& calls, torch::Tensor& parameter, torch::optim::AdamWParamState& state) {
  Lists& lists = calls[{parameter.device().str(), parameter.scalar_type(), state.step()}];
  // The operator goes over elements as they lie in memory.
  lists.given.push_back(parameter);
  lists.parameters.push_back(dense(parameter));
  lists.gradients.push_back(dense(parameter.grad()));
  lists.moments.push_back(state.exp_avg());
  lists.squares.push_back(state.exp_avg_sq());
}

// `rate` is a number, or a tensor on the parameters' device.
template <class Rate>
void update_lists(const Lists& lists, const torch::Tensor& step, const Rate& rate,
                  const torch::optim::AdamWOptions& options) {
  const auto [beta1, beta2] = options.betas();
  at::_fused_adamw_(lists.parameters, lists.gradients, lists.moments, lists.squares, {},
                    std::vector<torch::Tensor>(lists.given.size(), step), rate, beta1, beta2,
                    options.weight_decay(), options.eps(), /*amsgrad=*/false, /*maximize=*/false);
  for (size_t i = 0; i < lists.given.size(); ++i) {
    if (!lists.parameters[i].is_same(lists.given[i])) lists.given[i].copy_(lists.parameters[i]);
  }
}

const torch::optim::AdamWOptions& options_of(torch::optim::OptimizerParamGroup& group) {
  return static_cast<const torch::optim::AdamWOptions&>(group.options());
}

torch::TensorOptions scalar_on(const torch::Tensor& parameter) {
  return parameter.options().dtype(torch::kFloat).requires_grad(false);
}

}  // namespace

torch::Tensor FusedAdamW::step(LossClosure closure) {
  TORCH_CHECK(closure == nullptr, "this AdamW takes no closure");
  const torch::NoGradGuard no_grad;
  for (auto& group : param_groups()) {
    for (torch::Tensor& parameter : group.params()) {
      if (parameter.grad().defined()) count_step(parameter);
    }
  }
  if (scalars_) write_scalars();
  update();
  return {};
}

void FusedAdamW::count_step(const torch::Tensor& parameter) {
  auto& held = state_[parameter.unsafeGetTensorImpl()];
  if (held == nullptr) {
    auto fresh = std::make_unique<torch::optim::AdamWParamState>();
    fresh->exp_avg(torch::zeros_like(parameter, torch::MemoryFormat::Contiguous));
    fresh->exp_avg_sq(torch::zeros_like(parameter, torch::MemoryFormat::Contiguous));
    held = std::move(fresh);
  }
  auto& state = static_cast<torch::optim::AdamWParamState&>(*held);
  state.step(state.step() + 1);
}

void FusedAdamW::update() {
  const torch::NoGradGuard no_grad;
  for (auto& group : param_groups()) {
    const auto& options = options_of(group);
    TORCH_CHECK(!options.amsgrad(), "this AdamW has no AMSGrad");
    Calls calls;
    for (torch::Tensor& parameter : group.params()) {
      if (!parameter.grad().defined()) continue;
      add_to(
          calls, parameter,
          static_cast<torch::optim::AdamWParamState&>(*state_.at(parameter.unsafeGetTensorImpl())));
    }
    for (auto& [key, lists] : calls) {
      if (scalars_) {
        update_lists(lists, scalars_->step, scalars_->rate, options);
      } else {
        const auto count = static_cast<double>(std::get<2>(key));
        update_lists(lists, torch::full({}, count, scalar_on(lists.given[0])), options.lr(),
                     options);
      }
    }
  }
}

void FusedAdamW::read_on_device() {
  TORCH_CHECK(param_groups().size() == 1, "this AdamW should have one group of parameters, not ",
              param_groups().size());
  const auto like = scalar_on(param_groups()[0].params().at(0));
  scalars_ = {.rate = torch::zeros({}, like), .step = torch::zeros({}, like)};
}

void FusedAdamW::advance() {
  for (const auto& [parameter, held] : state_) {
    auto& state = static_cast<torch::optim::AdamWParamState&>(*held);
    state.step(state.step() + 1);
  }
  write_scalars();
}

void FusedAdamW::write_scalars() {
  const torch::NoGradGuard no_grad;
  int64_t steps = 0;
  for (const auto& [parameter, held] : state_) {
    const int64_t taken = static_cast<torch::optim::AdamWParamState&>(*held).step();
    TORCH_CHECK(steps == 0 || steps == taken,
                "parameters have taken different numbers of steps: ", steps, " and ", taken);
    steps = taken;
  }
  scalars_->rate.fill_(options_of(param_groups()[0]).lr());
  scalars_->step.fill_(static_cast<double>(steps));
}

}  // namespace lra::ops
