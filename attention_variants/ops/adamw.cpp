#include "attention_variants/ops/adamw.h"

#include <map>
#include <tuple>
#include <vector>

namespace lra::ops {
namespace {

// What one call goes over: parameters of one device and type that have taken as many steps.
struct Lists {
  std::vector<torch::Tensor> parameters, gradients, moments, squares, given;
};

}  // namespace

torch::Tensor FusedAdamW::step(LossClosure closure) {
  TORCH_CHECK(closure == nullptr, "this AdamW takes no closure");
  const torch::NoGradGuard no_grad;
  for (auto& group : param_groups()) {
    const auto& options = static_cast<const torch::optim::AdamWOptions&>(group.options());
    TORCH_CHECK(!options.amsgrad(), "this AdamW has no AMSGrad");
    std::map<std::tuple<std::string, torch::ScalarType, int64_t>, Lists> calls;
    for (torch::Tensor& parameter : group.params()) {
      if (!parameter.grad().defined()) continue;
      auto& held = state_[parameter.unsafeGetTensorImpl()];
      if (held == nullptr) {
        auto fresh = std::make_unique<torch::optim::AdamWParamState>();
        fresh->exp_avg(torch::zeros_like(parameter, torch::MemoryFormat::Contiguous));
        fresh->exp_avg_sq(torch::zeros_like(parameter, torch::MemoryFormat::Contiguous));
        held = std::move(fresh);
      }
      auto& state = static_cast<torch::optim::AdamWParamState&>(*held);
      state.step(state.step() + 1);
      Lists& lists = calls[{parameter.device().str(), parameter.scalar_type(), state.step()}];
      // The operator goes over elements as they lie in memory.
      lists.given.push_back(parameter);
      lists.parameters.push_back(parameter.contiguous());
      lists.gradients.push_back(parameter.grad().contiguous());
      lists.moments.push_back(state.exp_avg());
      lists.squares.push_back(state.exp_avg_sq());
    }
    for (auto& [key, lists] : calls) {
      const torch::Tensor count =
          torch::full({}, static_cast<double>(std::get<2>(key)),
                      lists.given[0].options().dtype(torch::kFloat).requires_grad(false));
      const auto [beta1, beta2] = options.betas();
      at::_fused_adamw_(lists.parameters, lists.gradients, lists.moments, lists.squares, {},
                        std::vector<torch::Tensor>(lists.given.size(), count), options.lr(), beta1,
                        beta2, options.weight_decay(), options.eps(), /*amsgrad=*/false,
                        /*maximize=*/false);
      for (size_t i = 0; i < lists.given.size(); ++i) {
        if (!lists.parameters[i].is_same(lists.given[i])) lists.given[i].copy_(lists.parameters[i]);
      }
    }
  }
  return {};
}

}  // namespace lra::ops
