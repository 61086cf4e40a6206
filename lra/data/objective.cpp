#include "lra/data/objective.h"

#include <cmath>

#include "attention_variants/base/random.h"
#include "lra/data/loader.h"

namespace lra {
namespace {

constexpr uint64_t kStreams = 0x6D61736B;  // apart from those of other draws under a seed
constexpr double kTwoTo32 = 4294967296.0;

// One input of a sample: [N] each.
struct Input {
  int64_t* tokens;
  const bool* real;
  int64_t* labels;  // -1 throughout
  int64_t length;

  void hide(int64_t position, int64_t id) const {
    labels[position] = tokens[position];
    tokens[position] = id;
  }
};

// The position of real token number `wanted`.
int64_t real_position(const Input& input, int64_t wanted) {
  int64_t i = 0;
  for (; !input.real[i] || wanted > 0; ++i) wanted -= input.real[i] ? 1 : 0;
  return i;
}

void hide_some(const TokenObjective& how, const Input& input, CounterRandom& random) {
  const auto below = static_cast<uint64_t>(std::llround(how.share * kTwoTo32));
  int64_t real = 0, hidden = 0;
  for (int64_t i = 0; i < input.length; ++i) {
    if (!input.real[i]) continue;
    ++real;
    if (random.bits() >= below) continue;
    input.hide(i, how.hidden_id);
    ++hidden;
  }
  if (hidden > 0 || real == 0) return;
  const int64_t one = random.below(static_cast<uint32_t>(real));
  input.hide(real_position(input, one), how.hidden_id);
}

void label_next(const Input& input) {
  for (int64_t i = 0; i + 1 < input.length; ++i) {
    if (input.real[i] && input.real[i + 1]) input.labels[i] = input.tokens[i + 1];
  }
}

}  // namespace

void label_tokens(const TokenObjective& how, int64_t pass, Batch& batch) {
  const int64_t samples = batch.tokens.size(0), inputs = batch.tokens.size(1),
                length = batch.tokens.size(2);
  batch.labels = torch::full_like(batch.tokens, -1);
  Input input{.tokens = batch.tokens.data_ptr<int64_t>(),
              .real = batch.mask.const_data_ptr<bool>(),
              .labels = batch.labels.data_ptr<int64_t>(),
              .length = length};
  for (int64_t b = 0; b < samples; ++b) {
    const auto row = static_cast<uint64_t>(batch.index.const_data_ptr<int64_t>()[b]);
    CounterRandom random(how.seed ^ kStreams, (static_cast<uint64_t>(pass) << 32) | row);
    for (int64_t j = 0; j < inputs; ++j) {
      if (how.objective == Objective::masked) hide_some(how, input, random);
      if (how.objective == Objective::causal) label_next(input);
      input.tokens += length;
      input.real += length;
      input.labels += length;
    }
  }
}

}  // namespace lra
