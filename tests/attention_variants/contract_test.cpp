// The contract that every variant keeps, run over every registered variant and every value of its
// options.
#include "attention_variants/contract/contract.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <map>

#include "tests/attention_variants/cases.h"
#include "tests/support/shipped.h"

namespace lra {

void PrintTo(const ContractCase& given, std::ostream* out) { *out << given.spec; }

namespace {

using namespace contract;  // NOLINT: what is under test

class Contract : public testing::TestWithParam<ContractCase> {};

std::string case_name(const testing::TestParamInfo<ContractCase>& info) {
  std::string name = info.param.spec;
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return std::to_string(info.index) + "_" + name;
}

INSTANTIATE_TEST_SUITE_P(Variants, Contract, testing::ValuesIn(contract_cases()), case_name);

TEST_P(Contract, Holds) {
  const ContractCase& given = GetParam();
  for (const Verdict& verdict : check_contract(contract_subject(parse_attention(given.spec)))) {
    std::string declared = verdict.clause == "batch invariance"     ? given.breaks_batch
                           : verdict.clause == "padding invariance" ? given.breaks_padding
                                                                    : "";
    for (const auto& [clause, why] : given.breaks) {
      if (clause == verdict.clause) declared = why;
    }
    if (declared.empty()) {
      EXPECT_TRUE(verdict.holds) << verdict.clause << ": " << verdict.measured;
    } else {
      EXPECT_FALSE(verdict.holds) << verdict.clause << " holds after all: " << declared;
    }
  }
}

// Of every variant that has a causal form, with sizes at which a block ends within a sample.
TEST(CausalContract, HoldsForThoseThatCanBeCausal) {
  const std::map<std::string, std::string> options = {{"local", "[block=16]"},
                                                      {"sparse", "[block=8,summary=2]"}};
  int found = 0;
  for (const AttentionEntry* entry : attention_entries()) {
    const std::string& name = entry->info.name;
    const auto chosen = options.find(name);
    const AttentionSpec spec =
        parse_attention(chosen == options.end() ? name : name + chosen->second);
    ContractSubject subject = contract_subject(spec);
    subject.context.causal = true;
    if (!entry->info.can_be_causal) {
      EXPECT_THROW(subject.make(subject.context), UsageError) << name;
      continue;
    }
    ++found;
    for (const Kernels kernels : {Kernels::fused, Kernels::reference}) {
      subject.context.kernels = kernels;
      if (kernels == Kernels::reference) {
        const Verdict verdict = check_clause("causality", subject);
        EXPECT_TRUE(verdict.holds) << name << ": " << verdict.measured;
        continue;
      }
      for (const Verdict& verdict : check_contract(subject))
        EXPECT_TRUE(verdict.holds) << name << ", " << verdict.clause << ": " << verdict.measured;
    }
  }
  EXPECT_GE(found, 10);
}

// On a CPU, float32 has kernels of its own; LibTorch's operators run there only where asked for.
TEST_P(Contract, PaddingChangesNothingByLibTorchsOperators) {
  const ContractCase& given = GetParam();
  ContractSubject subject = contract_subject(parse_attention(given.spec));
  subject.context.kernels = Kernels::reference;
  for (const char* clause :
       {"padded rows", "all-padding samples", "one real token", "padding invariance"}) {
    const Verdict verdict = check_clause(clause, subject);
    const bool declared = verdict.clause == "padding invariance" && !given.breaks_padding.empty();
    EXPECT_NE(verdict.holds, declared) << clause << ": " << verdict.measured;
  }
}

// What attend() draws from the seed for a shape, and keeps, is guarded.
TEST(ContractThreads, TwoMayCallOneAttention) {
  std::vector<torch::Tensor> given;  // [1,2,N,4]
  for (int64_t n = 32; n < 128; n += 4) given.push_back(torch::randn({1, 2, n, 4}));
  const auto attend = [&](Attention& attention, const torch::Tensor& x) {
    const torch::NoGradGuard no_grad;
    return attention.attend(x, x, x, torch::ones({1, x.size(2)}, torch::kBool));
  };
  for (const char* spec : {"bigbird[block=4,random_blocks=2]", "reformer[chunk_length=4]"}) {
    const AttentionContext context{
        .width = 8, .heads = 2, .head_dim = 4, .max_length = 128, .seed = 3};
    const auto alone = make_attention(parse_attention(spec), context);
    std::vector<torch::Tensor> expected;
    for (const torch::Tensor& x : given) expected.push_back(attend(*alone, x));
    for (int trial = 0; trial < 20; ++trial) {
      const auto shared = make_attention(parse_attention(spec), context);
      const auto differing = [&](bool backwards) {
        int count = 0;
        for (size_t i = 0; i < given.size(); ++i) {
          const size_t at = backwards ? given.size() - 1 - i : i;
          count += torch::equal(attend(*shared, given[at]), expected[at]) ? 0 : 1;
        }
        return count;
      };
      auto other = std::async(std::launch::async, differing, /*backwards=*/true);
      EXPECT_EQ(differing(/*backwards=*/false), 0) << spec;
      EXPECT_EQ(other.get(), 0) << spec;
    }
  }
}

TEST(ContractCases, VaryEveryOptionOfEveryVariant) {
  int found = 0;
  for (const AttentionEntry* entry : shipped_attentions()) {
    ++found;
    for (const std::string& option : entry->option_names) {
      // With a draw in every pass no two calls can be compared: tests/lra/model/traps_test.cpp.
      if (option == "redraw") continue;
      const bool varied = std::ranges::any_of(contract_cases(), [&](const ContractCase& c) {
        const AttentionSpec spec = parse_attention(c.spec);
        return spec.name == entry->info.name && spec.options.contains(option);
      });
      EXPECT_TRUE(varied) << entry->info.name << " " << option;
    }
  }
  EXPECT_GE(found, 21);
  for (const AttentionEntry* form : released_forms()) {
    const std::vector<ContractCase> cases = released_cases();
    const auto of_form = [&](const ContractCase& c) {
      return parse_attention(c.spec).name == form->info.name;
    };
    EXPECT_TRUE(std::ranges::any_of(cases, of_form)) << form->info.name;
    for (const std::string& option : form->option_names) {
      EXPECT_TRUE(std::ranges::any_of(cases,
                                      [&](const ContractCase& c) {
                                        return of_form(c) &&
                                               parse_attention(c.spec).options.contains(option);
                                      }))
          << form->info.name << " " << option;
    }
  }
}

}  // namespace
}  // namespace lra
