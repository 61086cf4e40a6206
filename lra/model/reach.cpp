#include "lra/model/reach.h"

#include "attention_variants/python_host.h"
#include "lra/model/model.h"

namespace lra {

std::vector<TokenReach> token_reach(const Task& task, Config config, int64_t length,
                                    const std::vector<int64_t>& positions) {
  config.settings.input.length = length;
  seed_generators(config.seed);
  Model model(task, config);
  model.to(torch::kDouble);
  model.eval();
  const torch::NoGradGuard no_grad;
  const int64_t ids = task.vocabulary - 1;
  const torch::Tensor tokens =
      torch::randint(1, task.vocabulary, {1, task.sequences(), length}, torch::kLong);
  const torch::Tensor mask = torch::ones_like(tokens, torch::kBool);
  const torch::Tensor logits = model.forward(tokens, mask);
  std::vector<TokenReach> reach;
  for (const int64_t position : positions) {
    torch::Tensor other = tokens.clone();
    torch::Tensor token = other.index({0, 0, position});
    token.copy_((token + ids / 2).remainder(ids) + 1);  // of pixels a large change
    reach.push_back({position, (model.forward(other, mask) - logits).abs().max().item<double>()});
  }
  return reach;
}

}  // namespace lra
