// The contract that every variant keeps, run over every registered variant and every value of its
// options.
#include <ATen/autocast_mode.h>

#include <sstream>

#include "tests/attention_variants/cases.h"
#include "tests/attention_variants/testing.h"

namespace lra {
namespace {

class Contract : public testing::TestWithParam<ContractCase> {
 protected:
  const std::string& spec() const { return GetParam().spec; }
};

std::string case_name(const testing::TestParamInfo<ContractCase>& info) {
  std::string name = info.param.spec;
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return std::to_string(info.index) + "_" + name;
}

INSTANTIATE_TEST_SUITE_P(Variants, Contract, testing::ValuesIn(contract_cases()), case_name);

TEST(ContractCases, VaryEveryOptionOfStandardAndNystrom) {
  for (const char* name : {"standard", "nystrom"}) {
    for (const std::string& option : attention_entry(name).option_names) {
      bool varied = false;
      for (const ContractCase& c : contract_cases()) {
        const AttentionSpec spec = parse_attention(c.spec);
        varied |= spec.name == name && spec.options.contains(option);
      }
      EXPECT_TRUE(varied) << name << " " << option;
    }
  }
}

TEST_P(Contract, KeepsShapeAndTypeAndZeroesPaddedRows) {
  for (const auto type : {torch::kFloat, torch::kDouble, torch::kBFloat16}) {
    const auto attention = make(spec(), type);
    for (const int64_t n : {1, 2, 5, 37, 48}) {
      const Inputs in = make_inputs({n, 0, 1, (n + 1) / 2}, n, type);
      const torch::Tensor out = attend(*attention, in);
      ASSERT_EQ(out.sizes(), in.q.sizes());
      ASSERT_EQ(out.scalar_type(), type);
      ASSERT_TRUE(finite(out)) << "N = " << n << ", " << type;
      const torch::Tensor padded = out.transpose(1, 2).index({in.mask.logical_not()});
      EXPECT_EQ(padded.count_nonzero().item<int64_t>(), 0) << "N = " << n;
    }
  }
}

TEST_P(Contract, TypesAgree) {
  const Inputs in = make_inputs({37, 20}, 37);
  const torch::Tensor expected = attend(*make(spec()), in);
  // An inverse multiplies rounding by its condition number; the exact one has no iteration that
  // would temper it.
  const double slack = spec().find("pinv=exact") == std::string::npos ? 1 : 10;
  for (const auto& [type, tolerance] :
       {std::pair{torch::kFloat, 1e-4 * slack}, {torch::kBFloat16, 6e-2 * slack}}) {
    const Inputs cast{in.q.to(type), in.k.to(type), in.v.to(type), in.mask};
    EXPECT_LT(difference(attend(*make(spec(), type), cast), expected), tolerance) << type;
  }
}

TEST_P(Contract, PaddingChangesNothing) {
  const auto attention = make(spec());
  const Inputs in = make_inputs({41, 30, 1, 7, 0}, 41);
  Inputs other = in;
  const torch::Tensor padded = in.mask.logical_not().unsqueeze(1).unsqueeze(-1);
  const Inputs noise = make_inputs({41, 30, 1, 7, 0}, 41, torch::kDouble, 2, 4, /*seed=*/99);
  other.q = torch::where(padded, noise.q * 10, in.q);
  other.k = torch::where(padded, noise.k * 10, in.k);
  other.v = torch::where(padded, noise.v * 10, in.v);
  const double change = difference(attend(*attention, other), attend(*attention, in));
  if (GetParam().breaks_padding.empty()) {
    EXPECT_LT(change, 1e-12);
  } else {
    EXPECT_GT(change, 1e-6) << "keeps the invariance after all: " << GetParam().breaks_padding;
  }
}

TEST_P(Contract, OtherSamplesChangeNothing) {
  const auto attention = make(spec());
  const Inputs in = make_inputs({41, 30, 1, 7, 0, 41, 22}, 41);
  const torch::Tensor together = attend(*attention, in);
  double change = 0;
  for (int64_t b = 0; b < 7; ++b) {
    const auto one = [b](const torch::Tensor& t) { return t.narrow(0, b, 1); };
    const torch::Tensor alone = attend(*attention, {one(in.q), one(in.k), one(in.v), one(in.mask)});
    change = std::max(change, difference(alone, one(together)));
  }
  if (GetParam().breaks_batch.empty()) {
    EXPECT_LT(change, 1e-10);
  } else {
    EXPECT_GT(change, 1e-6) << "keeps the invariance after all: " << GetParam().breaks_batch;
  }
}

TEST_P(Contract, SameSeedSameFunctionAndEvaluationIsDeterministic) {
  const Inputs in = make_inputs({41, 30}, 41);
  const auto attention = make(spec());
  const torch::Tensor first = attend(*attention, in);
  EXPECT_TRUE(torch::equal(attend(*attention, in), first));
  torch::rand({3});  // the global random state is not what decides
  EXPECT_TRUE(torch::equal(attend(*make(spec()), in), first));
}

TEST_P(Contract, NonContiguousInputs) {
  const auto attention = make(spec());
  const Inputs in = make_inputs({41, 30}, 41);
  const torch::Tensor expected = attend(*attention, in);
  const auto swapped = [](const torch::Tensor& t) {
    return t.transpose(1, 2).contiguous().transpose(1, 2);
  };
  const auto spread = [](const torch::Tensor& t) { return torch::stack({t, t}, -1).select(-1, 0); };
  const torch::Tensor mask = torch::stack({in.mask, in.mask}, -1).select(-1, 1);
  EXPECT_LT(
      difference(attend(*attention, {swapped(in.q), swapped(in.k), swapped(in.v), mask}), expected),
      1e-12);
  EXPECT_LT(
      difference(attend(*attention, {spread(in.q), spread(in.k), spread(in.v), mask}), expected),
      1e-12);
}

TEST_P(Contract, LargeLogitsStayFinite) {
  for (const auto type : {torch::kFloat, torch::kBFloat16}) {
    const auto attention = make(spec(), type);
    Inputs in = make_inputs({41, 30, 0}, 41, type);
    // Logits q·k/√d with q = ±12.65 in each of 4 places: ±80·4/4.
    in.q = (in.q.sign() * 12.65).requires_grad_();
    in.k = (in.k.sign() * 12.65).requires_grad_();
    in.v.requires_grad_();
    const torch::Tensor out = attend(*attention, in);
    EXPECT_TRUE(finite(out)) << type;
    out.sum().backward();
    EXPECT_TRUE(finite(in.q.grad()) && finite(in.k.grad()) && finite(in.v.grad())) << type;
  }
}

TEST_P(Contract, EveryParameterGetsAGradient) {
  const auto attention = make(spec());
  attention->train();
  const torch::Tensor x = torch::randn({3, 41, 8}, torch::kDouble),
                      mask = length_mask({41, 20, 0}, 41);
  const torch::Tensor out = attention->forward(x, mask);
  EXPECT_EQ(out.index({mask.logical_not()}).count_nonzero().item<int64_t>(), 0);
  (out * torch::randn_like(out)).sum().backward();
  for (const auto& parameter : attention->named_parameters()) {
    ASSERT_TRUE(parameter.value().grad().defined()) << parameter.key();
    EXPECT_TRUE(finite(parameter.value().grad())) << parameter.key();
    // The bias of the keys moves all logits of a row alike: in exact softmax attention its gradient
    // is zero but for rounding.
    EXPECT_GT(parameter.value().grad().abs().max().item<double>(),
              parameter.key() == "key.bias" ? -1 : 1e-9)
        << parameter.key();
  }
}

// Central differences along random directions, in q, k, v and in each of the variant's own
// parameters.
TEST_P(Contract, GradientsAgreeWithFiniteDifferences) {
  const auto attention = make(spec());
  for (const int64_t n : {4, 11}) {
    Inputs in = make_inputs({n, n - 2, 0}, n, torch::kDouble, 2, 4, /*seed=*/5);
    const torch::Tensor weight = make_inputs({n, n - 2, 0}, n, torch::kDouble, 2, 4, /*seed=*/6).q;
    std::vector<std::pair<std::string, torch::Tensor>> leaves = {
        {"q", in.q}, {"k", in.k}, {"v", in.v}};
    for (const auto& parameter : attention->named_parameters()) {
      const std::string module = parameter.key().substr(0, parameter.key().find('.'));
      if (module != "query" && module != "key" && module != "value" && module != "output") {
        leaves.emplace_back(parameter.key(), parameter.value());
      }
    }
    const auto loss = [&] { return (attend(*attention, in) * weight).sum(); };
    for (auto& [name, leaf] : leaves) {
      leaf.requires_grad_();
      leaf.mutable_grad() = torch::Tensor();
    }
    loss().backward();
    const torch::NoGradGuard no_grad;
    for (auto& [name, leaf] : leaves) {
      ASSERT_TRUE(leaf.grad().defined()) << name;
      const torch::Tensor old = leaf.detach().clone();
      for (int i = 0; i < 3; ++i) {
        const torch::Tensor direction = torch::randn_like(leaf);
        // Fourth order: an ill-conditioned inverse bends within a step.
        const double step = 1e-5;
        const auto at = [&](double t) {
          leaf.copy_(old + t * direction);
          return loss().item<double>();
        };
        const double numeric =
            (8 * (at(step) - at(-step)) - (at(2 * step) - at(-2 * step))) / (12 * step);
        const double exact = (leaf.grad() * direction).sum().item<double>();
        EXPECT_LT(std::abs(exact - numeric), 1e-6 * std::max(1.0, std::abs(numeric)))
            << name << ", N = " << n;
      }
      leaf.copy_(old);
    }
  }
}

TEST_P(Contract, StateRoundTrips) {
  const Inputs in = make_inputs({41, 30}, 41);
  const auto attention = make(spec());
  std::stringstream stream;
  torch::serialize::OutputArchive saved;
  attention->save(saved);
  saved.save_to(stream);
  auto other = make(spec(), torch::kDouble,
                    {.width = 8, .heads = 2, .head_dim = 4, .max_length = 64, .seed = 4});
  torch::serialize::InputArchive loaded;
  loaded.load_from(stream);
  other->load(loaded);
  const auto saved_state = attention->named_parameters(), loaded_state = other->named_parameters();
  ASSERT_EQ(saved_state.size(), loaded_state.size());
  for (const auto& item : saved_state)
    EXPECT_TRUE(torch::equal(item.value(), loaded_state[item.key()])) << item.key();
}

TEST_P(Contract, RunsUnderAutocast) {
  const auto attention = make(spec(), torch::kFloat);
  const torch::Tensor x = torch::randn({3, 41, 8}), mask = length_mask({41, 20, 0}, 41);
  const torch::Tensor expected = attention->forward(x, mask);
  at::autocast::set_autocast_enabled(at::kCPU, true);
  at::autocast::set_autocast_dtype(at::kCPU, torch::kBFloat16);
  const torch::Tensor out = attention->forward(x, mask);
  at::autocast::set_autocast_enabled(at::kCPU, false);
  at::autocast::clear_cache();
  EXPECT_EQ(out.scalar_type(), torch::kBFloat16);
  EXPECT_LT(difference(out, expected), 5e-2);
  out.sum().backward();
  for (const auto& parameter : attention->named_parameters())
    EXPECT_TRUE(finite(parameter.value().grad()));
}

TEST_P(Contract, ReportsTheOptionsInEffect) {
  const AttentionSpec given = parse_attention(spec());
  const AttentionEntry& entry = attention_entry(given.name);
  EXPECT_EQ(make(spec())->options(), entry.effective_options(given.options));
  for (const std::string& name : entry.option_names)
    EXPECT_TRUE(make(spec())->options().contains(name)) << name;
}

TEST_P(Contract, RefusesWrongShapes) {
  const auto attention = make(spec());
  const Inputs in = make_inputs({8, 8}, 8);
  EXPECT_THROW(attention->attend(in.q.select(0, 0), in.k, in.v, in.mask), Error);
  EXPECT_THROW(attention->attend(in.q, in.k.narrow(2, 0, 7), in.v, in.mask), Error);
  EXPECT_THROW(attention->attend(in.q, in.k, in.v.to(torch::kFloat), in.mask), Error);
  EXPECT_THROW(attention->attend(in.q, in.k, in.v, in.mask.to(torch::kFloat)), Error);
  EXPECT_THROW(attention->forward(torch::zeros({2, 8, 9}, torch::kDouble), in.mask), Error);
}

}  // namespace
}  // namespace lra
