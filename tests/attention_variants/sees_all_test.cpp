// That attentions which say that they see all, at some length, are softmax attention there.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "attention_variants/registry.h"
#include "tests/attention_variants/cases.h"
#include "tests/support/shipped.h"

namespace lra {
namespace {

const AttentionContext kSmallContext{
    .width = 16, .heads = 2, .head_dim = 8, .max_length = 600, .seed = 3};

// How far its attend() is from softmax attention at real positions.
double distance(const std::string& text, int64_t length) {
  const auto attention = make_attention(parse_attention(text), kSmallContext),
             softmax = make_attention(parse_attention("standard"), kSmallContext);
  attention->to(torch::kDouble);
  torch::manual_seed(7);
  const auto drawn = [&] { return torch::randn({2, 2, length, 8}, torch::kDouble); };
  const torch::Tensor q = drawn(), k = drawn(), v = drawn(),
                      real = torch::tensor({length, (length + 1) / 2}).unsqueeze(1),
                      mask = torch::arange(length).unsqueeze(0) < real;
  const torch::NoGradGuard no_grad;
  attention->eval();
  return (attention->attend(q, k, v, mask) - softmax->attend(q, k, v, mask))
      .abs()
      .max()
      .item<double>();
}

TEST(SeesAll, IsSoftmaxAttention) {
  std::map<std::string, int64_t> lengths;  // seen, by variant
  for (const ContractCase& given : contract_cases()) {
    const AttentionSpec spec = parse_attention(given.spec);
    if (spec.options.value("causal", false)) continue;
    const auto attention = make_attention(spec, kSmallContext);
    for (const int64_t length : {1, 2, 7, 33, 64, 65, 128, 129, 130, 300, 448, 449, 512}) {
      if (!attention->sees_all(length)) continue;
      ++lengths[spec.name];
      EXPECT_LT(distance(given.spec, length), 1e-12) << given.spec << ", " << length;
    }
  }
  for (const char* name : {"bigbird", "local", "longformer", "sparse"})
    EXPECT_GE(lengths[name], 4) << name;
}

// Each at the last length and the one behind it.
TEST(SeesAll, EndsWhereThePatternBegins) {
  const std::map<std::string, int64_t> last = {
      {"bigbird", 448}, {"local", 64}, {"longformer", 129}, {"sparse", 128}};
  for (const auto& [name, length] : last) {
    const auto attention = make_attention(parse_attention(name), kSmallContext);
    EXPECT_TRUE(attention->sees_all(length)) << name;
    EXPECT_LT(distance(name, length), 1e-12) << name;
    EXPECT_FALSE(attention->sees_all(length + 1)) << name;
    EXPECT_GT(distance(name, length + 1), 1e-6) << name;
  }
  // A causal one sees no later position.
  AttentionContext causal = kSmallContext;
  causal.causal = true;
  for (const AttentionEntry* entry : shipped_attentions()) {
    if (!entry->info.can_be_causal) continue;
    EXPECT_FALSE(make_attention({.name = entry->info.name}, causal)->sees_all(8))
        << entry->info.name;
  }
  for (const char* name : {"linear", "nystrom", "linformer", "standard"})
    EXPECT_FALSE(make_attention(parse_attention(name), kSmallContext)->sees_all(1)) << name;
}

}  // namespace
}  // namespace lra
