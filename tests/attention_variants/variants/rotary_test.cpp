// Rotary positions: against rotation matrices written out, and what a shift of all positions does.
#include "attention_variants/ops/rotary.h"

#include <cmath>

#include "attention_variants/contract/contract.h"
#include "tests/attention_variants/testing.h"
#include "tests/support/scratch.h"

namespace lra {
namespace {

constexpr double kBase = 10000;

AttentionContext context_of(double base) {
  return {.width = 8, .heads = 2, .head_dim = 4, .max_length = 64, .seed = 3, .rotary_base = base};
}

std::vector<const AttentionEntry*> those_that_can() {
  std::vector<const AttentionEntry*> able;
  for (const AttentionEntry* entry : attention_entries()) {
    if (entry->info.can_rotate) able.push_back(entry);
  }
  return able;
}

// Of row p the matrix that turns columns 2i and 2i + 1 by p base^(-2i/d): [N,d,d].
torch::Tensor rotation_matrices(int64_t length, int64_t width, double base, int64_t first = 0) {
  torch::Tensor all = torch::zeros({length, width, width}, torch::kDouble);
  auto at = all.accessor<double, 3>();
  for (int64_t p = 0; p < length; ++p) {
    for (int64_t i = 0; i < width; i += 2) {
      const double angle = static_cast<double>(first + p) *
                           std::pow(base, -static_cast<double>(i) / static_cast<double>(width));
      at[p][i][i] = at[p][i + 1][i + 1] = std::cos(angle);
      at[p][i][i + 1] = -std::sin(angle);
      at[p][i + 1][i] = std::sin(angle);
    }
  }
  return all;
}

torch::Tensor turned(const torch::Tensor& x, double base, int64_t first = 0) {
  return torch::matmul(rotation_matrices(x.size(2), x.size(3), base, first), x.unsqueeze(-1))
      .squeeze(-1);
}

TEST(Rotary, EqualsItsMatrices) {
  for (const double base : {kBase, 7.0}) {
    for (const int64_t first : {0, 5}) {
      Inputs in = make_inputs({33, 33}, 33, torch::kDouble, 3, 6);
      in.q.requires_grad_();
      in.k = in.q.detach().clone().requires_grad_();
      const torch::Tensor given = ops::rotate(in.q, base, first),
                          expected = turned(in.k, base, first);
      EXPECT_LT(difference(given, expected), 1e-13) << base << ", from " << first;
      given.backward(in.v);
      expected.backward(in.v);
      EXPECT_LT(difference(in.q.grad(), in.k.grad()), 1e-13) << base << ", from " << first;
    }
  }
}

// Far positions too: float32 knows no fraction of an angle of 16,000 beyond 0.001.
TEST(Rotary, KeepsTypesAndTheirDigits) {
  const torch::Tensor x = make_inputs({3}, 3, torch::kFloat, 2, 8).q;
  for (const int64_t first : {0, 16380}) {
    const torch::Tensor exact = turned(x.to(torch::kDouble), kBase, first);
    for (const auto& [type, limit] : {std::pair{torch::kFloat, 1e-6}, {torch::kBFloat16, 2e-2}}) {
      const torch::Tensor given = ops::rotate(x.to(type), kBase, first);
      EXPECT_EQ(given.scalar_type(), type);
      EXPECT_LT(difference(given, exact), limit) << first;
    }
  }
}

TEST(Rotary, ProductsKnowDistancesAlone) {
  const Inputs in = make_inputs({20}, 20, torch::kDouble, 2, 8);
  const auto scores = [&](int64_t first) {
    return torch::matmul(ops::rotate(in.q, kBase, first), ops::rotate(in.k, kBase, first).mT());
  };
  EXPECT_LT(difference(scores(1000), scores(0)), 1e-11);
  const torch::Tensor unturned = torch::matmul(in.q, in.k.mT());
  EXPECT_GT(difference(scores(0), unturned), 0.1);
  EXPECT_LT(difference(scores(0).diagonal(0, 2, 3), unturned.diagonal(0, 2, 3)), 1e-13)
      << "of a position with itself";
  EXPECT_LT(difference(ops::rotate(in.q, kBase).norm(2, -1), in.q.norm(2, -1)), 1e-13);
}

TEST(Rotary, RefusesOddColumns) {
  EXPECT_THROW(ops::rotate(torch::zeros({1, 1, 2, 3}), kBase), c10::Error);
}

// forward(): queries and keys are turned before attend(), and nothing else is.
torch::Tensor layer_by_hand(Attention& attention, const torch::Tensor& x,
                            const torch::Tensor& mask) {
  const auto state = attention.named_parameters();
  const auto project = [&](const std::string& name) {
    const torch::Tensor* const bias = state.find(name + ".bias");
    return torch::linear(x, state[name + ".weight"], bias == nullptr ? torch::Tensor() : *bias)
        .unflatten(-1, {2, 4})
        .transpose(1, 2);
  };
  const bool shared = attention.projections() == Projections::shared_query_key;
  const torch::Tensor q = turned(project(shared ? "query_key" : "query"), kBase),
                      k = shared ? q : turned(project("key"), kBase);
  const torch::Tensor joined =
      attention.attend(q, k, project("value"), mask).transpose(1, 2).flatten(2);
  return torch::linear(joined, state["output.weight"], state["output.bias"])
      .masked_fill(mask.logical_not().unsqueeze(-1), 0);
}

TEST(Rotary, LayersTurnQueriesAndKeys) {
  const torch::Tensor mask = length_mask({21, 9, 1}, 21);
  int found = 0;
  for (const AttentionEntry* entry : those_that_can()) {
    ++found;
    const std::string& name = entry->info.name;
    const auto attention = make(name, torch::kDouble, context_of(kBase)),
               plain = make(name, torch::kDouble, context_of(0));
    std::vector<torch::Tensor> results[2];
    const auto x = make_inputs({21, 21, 21}, 21, torch::kDouble, 1, 8).q.squeeze(1);
    for (int by_hand = 0; by_hand < 2; ++by_hand) {
      Attention& tried = by_hand == 1 ? *plain : *attention;
      const torch::Tensor leaf = x.clone().requires_grad_();
      const torch::Tensor out =
          by_hand == 1 ? layer_by_hand(tried, leaf, mask) : tried.forward(leaf, mask);
      out.backward(make_inputs({21, 21, 21}, 21, torch::kDouble, 1, 8, 7).q.squeeze(1));
      results[by_hand] = {out, leaf.grad()};
      for (const auto& parameter : tried.named_parameters())
        results[by_hand].push_back(parameter.value().grad());
    }
    ASSERT_EQ(results[0].size(), results[1].size()) << name;
    for (size_t i = 0; i < results[0].size(); ++i)
      EXPECT_LT(difference(results[0][i], results[1][i]), 1e-11) << name << ", tensor " << i;
    EXPECT_GT(difference(results[0][0], plain->forward(x, mask)), 1e-6)
        << name << " without positions";
  }
  EXPECT_EQ(found, 9);
}

// Padding in front moves every token by as many positions.
double change_by_shift(const std::string& spec) {
  const auto attention = make(spec, torch::kDouble, context_of(kBase));
  const torch::NoGradGuard no_grad;
  constexpr int64_t kLength = 24, kShift = 16;
  const torch::Tensor x =
      make_inputs({kLength, kLength}, kLength, torch::kDouble, 1, 8).q.squeeze(1);
  const torch::Tensor mask = length_mask({kLength, 13}, kLength);
  const torch::Tensor moved =
      attention->forward(torch::cat({torch::zeros({2, kShift, 8}, x.options()), x}, 1),
                         torch::cat({torch::zeros({2, kShift}, mask.options()), mask}, 1));
  return difference(moved.narrow(1, kShift, kLength), attention->forward(x, mask));
}

TEST(Rotary, AShiftOfAllPositionsChangesNothing) {
  for (const char* spec : {"standard", "longformer[window=8]", "local[block=8]",
                           "sparse[block=8,summary=2]", "reformer", "skyformer[num_features=5]"})
    EXPECT_LT(change_by_shift(spec), 1e-11) << spec;
  // Features of turned vectors know the places; only the kernel that performer's stand for does
  // not.
  for (const char* spec : {"linear", "performer[num_features=19]"})
    EXPECT_GT(change_by_shift(spec), 1e-6) << spec;
}

TEST(Rotary, TheContractHolds) {
  for (const AttentionEntry* entry : those_that_can()) {
    AttentionSpec spec{.name = entry->info.name};
    // Its inverse of 128 features takes as long as all other attentions.
    if (spec.name == "skyformer") spec.options = {{"num_features", 16}};
    contract::ContractSubject subject = contract::contract_subject(spec);
    subject.context.rotary_base = kBase;
    for (const contract::Verdict& verdict : contract::check_contract(subject)) {
      EXPECT_TRUE(verdict.holds) << entry->info.name << ", " << verdict.clause << ": "
                                 << verdict.measured;
    }
  }
}

TEST(Rotary, AttentionsWithoutQueriesAndKeysAsTheyAreRefuseItWithAReason) {
  std::vector<const AttentionEntry*> all = attention_entries();
  for (const AttentionEntry* entry : released_forms()) all.push_back(entry);
  int refused = 0;
  for (const AttentionEntry* entry : all) {
    if (entry->info.can_rotate) continue;
    ++refused;
    const std::string message =
        error_text<UsageError>([&] { make(entry->info.name, torch::kDouble, context_of(kBase)); });
    EXPECT_TRUE(contains(message, "takes no rotary positions: " + entry->info.why_unrotated))
        << entry->info.name << ": " << message;
    EXPECT_TRUE(contains(message, "choose one of bigbird, linear, local")) << message;
  }
  EXPECT_GE(refused, 10);
  AttentionContext odd = context_of(kBase);
  odd.head_dim = 3;
  EXPECT_THROW(make("standard", torch::kDouble, odd), UsageError);
}

}  // namespace
}  // namespace lra
