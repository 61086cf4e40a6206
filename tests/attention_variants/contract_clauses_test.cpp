// Attentions that break one promise each: that every clause of the contract catches what it is
// there for, and nothing else.
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "attention_variants/contract/contract.h"
#include "attention_variants/projected_attention.h"

namespace lra {
namespace {

using namespace contract;  // NOLINT: what is under test

enum class Fault {
  none,
  wrong_shape,
  wrong_type,
  even_lengths_alone,
  leaves_padded_rows,
  nan_on_all_padding,
  nan_on_one_token,
  ignores_mask,
  multiplies_padding_by_zero,
  adds_to_padded_logits,
  depends_on_length,
  leaks_across_batch,
  rounds_inside,
  draws_noise,
  ignores_strides,
  writes_to_input,
  overflows,
  unused_parameter,
  wrong_gradient,
  unregistered_table,
  float32_under_autocast,
  hides_an_option,
  takes_any_shape,
  wrong_past_one_block,
  refuses_past_one_block,
  raises_past_one_block,
  cut_past_one_block,
  counts_calls_aside,
  float32_inside,
  float32_inside_and_wrong_gradient,
  float32_softmax,
  curved,
  small_parameter,
  zero_parameter,
  curved_and_depends_on_length,
  nan_always,
  trains_aside,
  makes_a_leaf,
  ignores_mask_in_training,
  leaks_in_training,
  draws_in_training,
  drops_samples_in_training,
  other_type_in_training,
  scales_input,
  shifts_logits,
  reads_values_alone,
  hides_by_addition,
};

// Softmax attention, with a fault.
class Faulty : public ProjectedAttention {
 public:
  Faulty(const AttentionContext& context, Fault fault)
      : ProjectedAttention(context), fault_(fault) {
    if (fault == Fault::unused_parameter)
      register_parameter("unused", torch::ones({context.head_dim}));
    if (fault == Fault::small_parameter)
      scale_ = register_parameter("scale", torch::full({1}, 1e-6));
    if (fault == Fault::trains_aside) scale_ = torch::ones({1}).requires_grad_();
    if (fault == Fault::shifts_logits) shift_ = register_parameter("shift", torch::zeros({1}));
    if (fault == Fault::zero_parameter) scale_ = register_parameter("scale", torch::zeros({1}));
    if (fault == Fault::unregistered_table) table_ = torch::randn({context.head_dim});
  }

  torch::Tensor attend(const torch::Tensor& q_given, const torch::Tensor& k_given,
                       const torch::Tensor& v_given, const torch::Tensor& mask) override {
    if (fault_ != Fault::takes_any_shape) check_attend_inputs(q_given, k_given, v_given, mask);
    torch::Tensor q = q_given, k = k_given, v = v_given;
    const auto type = q.scalar_type();
    const int64_t n = q.size(-2);
    const double infinity = std::numeric_limits<double>::infinity();
    const torch::Tensor real = mask.to(torch::kBool);
    const torch::Tensor padded = real.logical_not().unsqueeze(1).unsqueeze(-1);  // [B,1,N,1]
    const bool past = n > kMostPositions;
    if (fault_ == Fault::refuses_past_one_block && past) throw Unsupported("takes one block alone");
    if (fault_ == Fault::raises_past_one_block && past) throw Error("a table of one block");
    if (fault_ == Fault::even_lengths_alone && n % 2 == 1)
      throw Unsupported("takes even lengths alone");
    if (fault_ == Fault::rounds_inside && type == torch::kFloat)
      q = q.to(torch::kBFloat16).to(type);
    if (fault_ == Fault::writes_to_input) q.masked_fill_(padded, 0);
    if (fault_ == Fault::scales_input) {
      const torch::NoGradGuard no_grad;
      q.mul_(0.5);
    }
    if (fault_ == Fault::reads_values_alone) q = k = torch::zeros_like(v);
    const bool wrong_too = fault_ == Fault::float32_inside_and_wrong_gradient;
    if ((fault_ == Fault::float32_inside || wrong_too) && type == torch::kDouble)
      for (torch::Tensor* each : {&q, &k, &v}) *each = each->to(torch::kFloat);
    if (fault_ == Fault::wrong_gradient || wrong_too) q = q.detach() + 0.5 * (q - q.detach());
    if (fault_ == Fault::ignores_strides)
      q = q.as_strided(q.sizes(), torch::empty(q.sizes()).strides());
    const auto without_padding = [&](const torch::Tensor& x) {
      const bool left = (fault_ == Fault::ignores_mask_in_training && is_training()) ||
                        fault_ == Fault::ignores_mask || fault_ == Fault::adds_to_padded_logits ||
                        fault_ == Fault::hides_by_addition || fault_ == Fault::nan_on_all_padding;
      return left ? x : x.masked_fill(padded, 0);
    };
    q = q.masked_fill(padded, 0);
    k = without_padding(k);
    v = fault_ == Fault::multiplies_padding_by_zero ? v * real.unsqueeze(1).unsqueeze(-1)
                                                    : without_padding(v);
    torch::Tensor keys = real;  // [B,N]
    if (fault_ == Fault::ignores_mask ||
        (fault_ == Fault::ignores_mask_in_training && is_training())) {
      keys = torch::ones_like(real);
    } else if (fault_ == Fault::nan_on_one_token) {
      keys = real.logical_and(real.sum(1, /*keepdim=*/true).ne(1))
                 .logical_or(real.any(1, /*keepdim=*/true).logical_not());
    } else if (fault_ != Fault::nan_on_all_padding) {
      keys = real.logical_or(real.any(1, /*keepdim=*/true).logical_not());
    }
    torch::Tensor scores = torch::matmul(q, k.transpose(-2, -1)) / std::sqrt(q.size(-1));
    const torch::Tensor hidden = keys.logical_not().unsqueeze(1).unsqueeze(1);  // [B,1,1,N]
    if (fault_ == Fault::hides_by_addition) {  // and q's rows, and the samples without a token
      scores = torch::matmul(q_given, k.transpose(-2, -1)) / std::sqrt(q.size(-1));
      return torch::matmul(
          torch::softmax(scores - 1e9 * real.logical_not().unsqueeze(1).unsqueeze(1).to(type), -1),
          v);
    }
    scores = fault_ == Fault::adds_to_padded_logits ? scores - 1e9 * hidden.to(type)
                                                    : scores.masked_fill(hidden, -infinity);
    if (shift_.defined()) scores = scores + shift_.to(type);
    torch::Tensor weights = torch::softmax(scores, -1);  // [B,H,N,N]
    if (fault_ == Fault::float32_softmax && type == torch::kDouble)
      weights = torch::softmax(scores, -1, torch::kFloat).to(type);
    if (fault_ == Fault::overflows) weights = scores.exp() / scores.exp().sum(-1, true);
    torch::Tensor out = torch::matmul(weights, v);
    if (fault_ == Fault::wrong_past_one_block && past)
      out = out + 1e-6 * v_given.mean(std::vector<int64_t>{0, 2}, /*keepdim=*/true);
    if (scale_.defined()) out = out + scale_.to(out.scalar_type()) * v;
    if (fault_ == Fault::zero_parameter) out = 1000 * out;
    const bool by_length = fault_ == Fault::curved_and_depends_on_length;
    if (fault_ == Fault::curved || by_length) out = out + 0.01 * (300 * v).sin();
    if (fault_ == Fault::depends_on_length || by_length) out = out + 1e-6 / static_cast<double>(n);
    if (fault_ == Fault::leaks_across_batch) out = out + 1e-6 * v_given.mean(0, /*keepdim=*/true);
    if (fault_ == Fault::nan_always) out = out / 0.0 * 0.0;
    if (fault_ == Fault::makes_a_leaf) out = out * torch::ones({1}, type).requires_grad_();
    if (is_training()) {
      static int64_t calls = 0;
      if (fault_ == Fault::leaks_in_training) out = out + 1e-6 * v_given.mean(0, /*keepdim=*/true);
      if (fault_ == Fault::draws_in_training) out = out * (1 + 1e-9 * static_cast<double>(++calls));
      if (fault_ == Fault::drops_samples_in_training)
        out = out * torch::rand({out.size(0), 1, 1, 1}).gt(0.5).to(type);
    }
    if (fault_ == Fault::counts_calls_aside)
      out = out * (1 + 0.01 * static_cast<double>(is_training() ? calls_++ : calls_));
    if (fault_ == Fault::draws_noise) out = out + 1e-9 * torch::randn_like(out);
    if (table_.defined()) out = out * table_.to(out.scalar_type());
    if (fault_ != Fault::leaves_padded_rows) out = out.masked_fill(padded, 0);
    if (fault_ == Fault::cut_past_one_block && past) out = out.narrow(2, 0, kMostPositions);
    if (fault_ == Fault::wrong_shape) out = out.narrow(-1, 0, q.size(-1) - 1);
    if (fault_ == Fault::wrong_type || fault_ == Fault::float32_under_autocast) {
      const bool inside = at::autocast::is_autocast_enabled(at::kCPU);
      if (fault_ == Fault::wrong_type || inside) return out.to(torch::kFloat);
    }
    if (fault_ == Fault::other_type_in_training && is_training()) return out.to(torch::kDouble);
    return out.to(type);
  }

  bool length_invariant() const override { return true; }

  json options() const override {
    return fault_ == Fault::hides_an_option ? json::object() : json{{"fault", "some"}};
  }

 private:
  const Fault fault_;
  torch::Tensor table_, scale_, shift_;
  int64_t calls_ = 0;
};

ContractSubject faulty(Fault fault) {
  return {.make = [fault](const AttentionContext& context) -> std::shared_ptr<Attention> {
            return std::make_shared<Faulty>(context, fault);
          },
          .options = {{"fault", "some"}}};
}

std::vector<std::string> failing(const ContractSubject& subject) {
  std::vector<std::string> names;
  for (const Verdict& verdict : check_contract(subject)) {
    if (!verdict.holds) names.push_back(verdict.clause);
    EXPECT_FALSE(verdict.measured.empty()) << verdict.clause;
    EXPECT_EQ(verdict.measured.find('\n'), std::string::npos) << verdict.measured;
  }
  return names;
}

TEST(ContractClauses, AllHoldWithoutAFault) {
  EXPECT_EQ(failing(faulty(Fault::none)), std::vector<std::string>{});
}

TEST(ContractClauses, EachCatchesWhatItIsThereFor) {
  struct Expected {
    Fault fault;
    const char* clause;
    Grade grade;
  };
  const Expected expected[] = {
      {Fault::wrong_shape, "shape and type", Grade::wrong},
      {Fault::wrong_type, "shape and type", Grade::wrong},
      {Fault::even_lengths_alone, "any length", Grade::fragile},
      {Fault::leaves_padded_rows, "padded rows", Grade::style},
      {Fault::nan_on_all_padding, "all-padding samples", Grade::fragile},
      {Fault::nan_on_one_token, "one real token", Grade::wrong},
      {Fault::ignores_mask, "padding invariance", Grade::wrong},
      {Fault::multiplies_padding_by_zero, "padding invariance", Grade::fragile},
      {Fault::adds_to_padded_logits, "padding invariance", Grade::fragile},
      {Fault::depends_on_length, "length invariance", Grade::wrong},
      {Fault::leaks_across_batch, "batch invariance", Grade::wrong},
      {Fault::rounds_inside, "types agree", Grade::wrong},
      {Fault::draws_noise, "deterministic", Grade::wrong},
      {Fault::ignores_strides, "non-contiguous inputs", Grade::wrong},
      {Fault::writes_to_input, "inputs unchanged", Grade::wrong},
      {Fault::scales_input, "inputs unchanged", Grade::wrong},
      {Fault::trains_aside, "gradients of every parameter", Grade::wrong},
      {Fault::reads_values_alone, "gradients of every parameter", Grade::style},
      {Fault::ignores_mask_in_training, "padding invariance", Grade::wrong},
      {Fault::leaks_in_training, "batch invariance", Grade::fragile},
      {Fault::draws_in_training, "deterministic", Grade::wrong},
      {Fault::other_type_in_training, "shape and type", Grade::wrong},
      {Fault::overflows, "large logits", Grade::fragile},
      {Fault::unused_parameter, "gradients of every parameter", Grade::wrong},
      {Fault::wrong_gradient, "finite differences", Grade::wrong},
      {Fault::unregistered_table, "state round-trip", Grade::wrong},
      {Fault::counts_calls_aside, "state round-trip", Grade::wrong},
      {Fault::raises_past_one_block, "batch invariance", Grade::fragile},
      {Fault::cut_past_one_block, "batch invariance", Grade::wrong},
      {Fault::raises_past_one_block, "gradients of every parameter", Grade::fragile},
      {Fault::float32_under_autocast, "autocast", Grade::fragile},
      {Fault::hides_an_option, "options in effect", Grade::style},
      {Fault::takes_any_shape, "wrong shapes refused", Grade::style},
  };
  std::vector<std::string> caught;
  for (const auto& [fault, clause, grade] : expected) {
    const Verdict verdict = check_clause(clause, faulty(fault));
    EXPECT_FALSE(verdict.holds) << clause << ", fault " << static_cast<int>(fault);
    EXPECT_EQ(verdict.grade, grade)
        << clause << ", fault " << static_cast<int>(fault) << ": " << verdict.measured;
    caught.emplace_back(clause);
  }
  ContractSubject sees_all = faulty(Fault::none);
  sees_all.context.causal = true;
  EXPECT_EQ(failing(sees_all), std::vector<std::string>{"causality"});
  caught.emplace_back("causality");
  for (const ContractClause& clause : contract_clauses(/*causal=*/true))
    EXPECT_GT(std::ranges::count(caught, clause.name), 0) << clause.name << " catches nothing";
}

// A fault that shows in one place is told apart from all others.
TEST(ContractClauses, CatchNothingElse) {
  using Names = std::vector<std::string>;
  // BERT's mask: of samples without a token it rounds logits to 1e-7, in rows that nothing reads.
  EXPECT_EQ(failing(faulty(Fault::hides_by_addition)),
            (Names{"padded rows", "padding invariance"}));
  EXPECT_EQ(failing(faulty(Fault::leaves_padded_rows)), Names{"padded rows"});
  EXPECT_EQ(failing(faulty(Fault::nan_on_all_padding)),
            (Names{"all-padding samples", "padding invariance"}));
  EXPECT_EQ(failing(faulty(Fault::leaks_across_batch)),
            (Names{"padding invariance", "batch invariance"}));
  EXPECT_EQ(failing(faulty(Fault::multiplies_padding_by_zero)), Names{"padding invariance"});
  EXPECT_EQ(failing(faulty(Fault::depends_on_length)), Names{"length invariance"});
  EXPECT_EQ(failing(faulty(Fault::rounds_inside)), Names{"types agree"});
  EXPECT_EQ(failing(faulty(Fault::unused_parameter)), Names{"gradients of every parameter"});
  EXPECT_EQ(failing(faulty(Fault::wrong_gradient)), Names{"finite differences"});
  EXPECT_EQ(failing(faulty(Fault::unregistered_table)), Names{"state round-trip"});
  EXPECT_EQ(failing(faulty(Fault::counts_calls_aside)), Names{"state round-trip"});
  EXPECT_EQ(failing(faulty(Fault::float32_under_autocast)), Names{"autocast"});
  EXPECT_EQ(failing(faulty(Fault::hides_an_option)), Names{"options in effect"});
  EXPECT_EQ(failing(faulty(Fault::trains_aside)), Names{"gradients of every parameter"});
  EXPECT_EQ(failing(faulty(Fault::reads_values_alone)), Names{"gradients of every parameter"});
  EXPECT_EQ(failing(faulty(Fault::ignores_mask_in_training)), Names{"padding invariance"});
  EXPECT_EQ(failing(faulty(Fault::leaks_in_training)),
            (Names{"padding invariance", "batch invariance"}));
  EXPECT_EQ(failing(faulty(Fault::draws_in_training)),
            (Names{"deterministic", "padding invariance"}));
  EXPECT_EQ(failing(faulty(Fault::other_type_in_training)), Names{"shape and type"});
}

// A gradient that is rightly zero, a leaf of one call, and random numbers of each sample's own.
TEST(ContractClauses, TakeWhatIsRight) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(failing(faulty(Fault::shifts_logits)), Names{});
  EXPECT_EQ(failing(faulty(Fault::makes_a_leaf)), Names{});
  EXPECT_EQ(failing(faulty(Fault::drops_samples_in_training)), Names{});
}

// Of less than float64's digits, and no other function.
TEST(ContractClauses, AllHoldInFloat32Inside) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(failing(faulty(Fault::float32_inside)), Names{});
  EXPECT_EQ(failing(faulty(Fault::float32_inside_and_wrong_gradient)), Names{"finite differences"});
  EXPECT_EQ(failing(faulty(Fault::float32_softmax)), Names{});
}

// Curvature is no lack of digits, nor is a small parameter.
TEST(ContractClauses, AreAsStrictWhereAFunctionIsCurved) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(failing(faulty(Fault::small_parameter)), Names{});
  const Verdict zero = check_clause("finite differences", faulty(Fault::zero_parameter));
  EXPECT_TRUE(zero.holds) << zero.measured;
  EXPECT_EQ(failing(faulty(Fault::curved)), Names{});
  EXPECT_EQ(failing(faulty(Fault::curved_and_depends_on_length)), Names{"length invariance"});
}

TEST(ContractClauses, HintAtWhatKeptThemFromTelling) {
  EXPECT_EQ(check_clause("any length", faulty(Fault::none)).hint, "");
  EXPECT_EQ(check_clause("padded rows", faulty(Fault::leaves_padded_rows)).hint, "");
  const std::string error = check_clause("types agree", faulty(Fault::even_lengths_alone)).hint;
  EXPECT_TRUE(error.starts_with("the call ends in this error")) << error;
  EXPECT_EQ(check_clause("batch invariance", faulty(Fault::raises_past_one_block)).hint, error);
  const std::string nan = check_clause("deterministic", faulty(Fault::nan_always)).hint;
  EXPECT_TRUE(nan.find("is NaN, which equals nothing") != std::string::npos) << nan;
}

TEST(ContractClauses, ReachPastTheBlocksOfDefaults) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(failing(faulty(Fault::wrong_past_one_block)),
            (Names{"padding invariance", "length invariance", "batch invariance"}));
  EXPECT_EQ(failing(faulty(Fault::refuses_past_one_block)), Names{});
  EXPECT_EQ(failing(contract_subject(parse_attention("nystrom[init=global]"))),
            Names{"batch invariance"});
  // Sees later positions there: the first 64 of a sum over all.
  ContractSubject causal = contract_subject(parse_attention("linear"));
  causal.make = [](const AttentionContext& context) -> std::shared_ptr<Attention> {
    struct Later : ProjectedAttention {
      using ProjectedAttention::ProjectedAttention;
      torch::Tensor attend(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                           const torch::Tensor& mask) override {
        check_attend_inputs(q, k, v, mask);
        const torch::Tensor real = v.masked_fill(mask.logical_not().unsqueeze(1).unsqueeze(-1), 0);
        torch::Tensor out = real.cumsum(2);
        if (v.size(2) > kMostPositions) out = out + 1e-6 * real.sum(2, /*keepdim=*/true);
        return out;
      }
      json options() const override { return json::object(); }
    };
    return std::make_shared<Later>(context);
  };
  causal.context.causal = true;
  EXPECT_FALSE(check_clause("causality", causal).holds);
}

// Runs out of memory in one of its calls.
class Starved : public Faulty {
 public:
  Starved(const AttentionContext& context, int64_t& calls, int64_t fails_in)
      : Faulty(context, Fault::none), calls_(calls), fails_in_(fails_in) {}

  torch::Tensor attend(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                       const torch::Tensor& mask) override {
    if (calls_++ == fails_in_) TORCH_CHECK_WITH(OutOfMemoryError, false, "out of memory");
    return Faulty::attend(q, k, v, mask);
  }

 private:
  int64_t& calls_;
  const int64_t fails_in_;
};

// It says what the machine has left at the time, and nothing of the attention.
TEST(ContractClauses, NoneJudgesAnAttentionThatRunsOutOfMemory) {
  int64_t calls = 0;
  const auto starved = [&calls](int64_t fails_in) {
    ContractSubject subject = faulty(Fault::none);
    subject.make = [&calls, fails_in](const AttentionContext& context) {
      return std::make_shared<Starved>(context, calls, fails_in);
    };
    return subject;
  };
  for (const ContractClause& clause : contract_clauses()) {
    calls = 0;
    EXPECT_TRUE(check_clause(clause.name, starved(-1)).holds) << clause.name;
    const int64_t count = calls;
    for (const int64_t fails_in : {int64_t{0}, count / 2, count - 1}) {
      calls = 0;
      EXPECT_THROW(check_clause(clause.name, starved(fails_in)), c10::OutOfMemoryError)
          << clause.name << ", call " << fails_in << " of " << count;
    }
  }
}

TEST(ContractClauses, AreNamedOnce) {
  std::vector<std::string> names;
  for (const ContractClause& clause : contract_clauses(/*causal=*/true)) {
    EXPECT_EQ(std::ranges::count(names, clause.name), 0) << clause.name;
    EXPECT_FALSE(clause.promise.empty()) << clause.name;
    EXPECT_FALSE(clause.hint.empty()) << clause.name;
    names.push_back(clause.name);
  }
  EXPECT_THROW(check_clause("padding", faulty(Fault::none)), UsageError);
}

}  // namespace
}  // namespace lra
