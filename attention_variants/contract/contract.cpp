#include "attention_variants/contract/contract.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

#include "attention_variants/contract/gradients.h"
#include "attention_variants/contract/invariance.h"
#include "attention_variants/contract/padding.h"
#include "attention_variants/contract/trial.h"
#include "attention_variants/contract/types.h"
#include "attention_variants/ops/autocast.h"
#include "attention_variants/out_of_memory.h"

namespace lra::contract {
namespace {

constexpr double kDropout = 0.5;  // of ContractSubject::make_dropping

void any_length(const ContractProbe& trial, ClauseReport& f) {
  const auto attention = trial.make();
  for (const EntryPoint& form : trial.forms()) {
    for (const int64_t n : {1, 2, 3, 5, 8, 37, 48, 61, 64}) {  // 37 and 61 are prime
      const Inputs in = trial.inputs(form, first({n, (n + 1) / 2}, n));
      try {
        const torch::Tensor out = trial.call(*attention, form, in);
        f.that(out.sizes() == in.leaves[0].sizes(),
               fmt::format("N = {}: {} gives {}", n, form.name(), shape_text(out)));
        f.finite(fmt::format("N = {}: {}", n, form.name()), out);
      } catch (const std::exception& error) {
        f.refused(n, error);
      }
    }
  }
}

// Gives `to` the state of `from`, by way of a file's bytes.
void reload(const Attention& from, Attention& to, torch::Device device) {
  std::stringstream stream;
  torch::serialize::OutputArchive saved;
  from.save(saved);
  saved.save_to(stream);
  torch::serialize::InputArchive loaded;
  loaded.load_from(stream, device);
  to.load(loaded);
}

void state_round_trip(const ContractProbe& trial, ClauseReport& f) {
  const EntryPoint& form = trial.layer();
  const Inputs in = trial.inputs(form, first({41, 30}, 41));
  // What is not in the state may come from the context's seed, and from nowhere else.
  const auto attention = trial.make(),
             other = trial.make(torch::kDouble, trial.subject().context, /*initial_seed=*/99);
  const torch::NoGradGuard no_grad;
  const auto reloads = [&](const std::string& when) {
    reload(*attention, *other, trial.subject().device);
    f.at_most("change of the output by saving and loading" + when,
              difference(trial.call(*other, form, in), trial.call(*attention, form, in)), 0);
  };
  reloads("");
  // What is tested after a training is what another object makes of a checkpoint.
  attention->train();
  for (int i = 0; i < 3; ++i) trial.call(*attention, form, in);
  attention->eval();
  reloads(" after calls in training");
}

void options_in_effect(const ContractProbe& trial, ClauseReport& f) {
  const json reported = trial.make()->options();
  f.that(reported == trial.subject().options,
         fmt::format("it reports {}, in effect are {}", reported.dump(),
                     trial.subject().options.dump()));
}

void wrong_shapes(const ContractProbe& trial, ClauseReport& f) {
  const auto attention = trial.make();
  const auto refused = [&](const std::string& what, const auto& call) {
    try {
      call();
    } catch (const Error&) {
      f.that(true, "");
      return;
    } catch (const std::exception& error) {
      if (is_out_of_memory(error)) throw;
      f.that(false, fmt::format("{} ends in: {}", what, first_line(error)));
      return;
    }
    f.that(false, what + " is taken");
  };
  const torch::Tensor full = first({8, 8}, 8);
  for (const EntryPoint& form : trial.forms()) {
    const Inputs in = trial.inputs(form, full);
    const torch::Tensor &x = in.leaves[0], &m = in.mask;
    const auto given = [&](const torch::Tensor& leaf, const torch::Tensor& mask) {
      Inputs changed = in;
      changed.leaves[0] = leaf;
      changed.mask = mask;
      trial.call(*attention, form, changed);
    };
    const std::string name = form.leaves[0] + " ";
    const auto try_leaf = [&](const torch::Tensor& leaf) {
      refused(name + shape_text(leaf), [&] { given(leaf, m); });
    };
    const auto try_mask = [&](const torch::Tensor& mask) {
      refused("mask " + shape_text(mask), [&] { given(x, mask); });
    };
    try_leaf(x.select(0, 0));
    try_leaf(x.narrow(form.attends ? 2 : 1, 0, 7));
    try_mask(m.to(torch::kFloat));
    try_mask(m.narrow(0, 0, 1));
    if (!form.attends) try_leaf(torch::zeros({2, 8, x.size(2) + 1}, x.options()));
  }
  if (!trial.core().attends) return;
  const Inputs in = trial.inputs(trial.core(), full);
  const torch::Tensor& q = in.leaves[0];
  refused("a k shorter than q", [&] { attention->attend(q, q.narrow(2, 0, 7), q, in.mask); });
  refused("a v of another type than q",
          [&] { attention->attend(q, q, q.to(torch::kFloat), in.mask); });
}

struct Clause {
  const char* name;
  const char* promise;
  void (*run)(const ContractProbe&, ClauseReport&);
  const char* hint;
  Grade grade = Grade::wrong;
  bool decisive = false;
  const char* lesser = "";
};

// Those without which the others can't be judged stand first.
constexpr Clause kClauses[] = {
    {"shape and type", "the output has the shape and the type of what was given", shape_and_type,
     "return [B,H,N,d] (or [B,N,D]) of the input's type, out.to(q.dtype); take float64 too, in "
     "which most clauses are tried",
     Grade::wrong,
     /*decisive=*/true},
    {"inputs unchanged", "q, k, v, x and mask are only read", inputs_unchanged,
     "masked_fill() in place of masked_fill_()"},
    {"deterministic",
     "the same seed gives the same function, evaluation repeats itself, and so does training from "
     "the same generators",
     deterministic,
     "keep nothing between calls; draw random numbers once when it is made, or in training alone "
     "and from the global generators (torch's, random, NumPy's legacy one)",
     Grade::wrong, /*decisive=*/true},
    {"any length", "any N of at least 1, primes too, whatever blocks or features divide it",
     any_length, "pad to a whole number of blocks inside and cut the result, or shorten the block",
     Grade::wrong, false, "fragile where it only refuses a length"},
    {"padded rows", "rows of padded positions are zero", padded_rows,
     "return out * mask[:, None, :, None]", Grade::style},
    {"all-padding samples", "a sample without a token gives no NaN or infinity, backward neither",
     all_padding,
     "a softmax over -inf alone is NaN: logits.masked_fill(~mask[:, None, None, :], -1e9)",
     Grade::fragile},
    {"one real token", "nor does a sample with one token, wherever it stands", one_token,
     "divide by the number of real tokens, not by one less; hide keys by -1e9, not by -inf"},
    {"padding invariance", "what stands at padded positions changes nothing", padding_invariance,
     "hide padded keys: logits.masked_fill(~mask[:, None, None, :], -1e9); and zero what is "
     "multiplied there, q, k and v each: x.masked_fill(~mask[:, None, :, None], 0), as 0 times "
     "infinity is NaN, in gradients too",
     Grade::wrong, false, "fragile where only NaN, infinity or huge numbers do it"},
    {"length invariance", "where it says so, how far samples are padded changes nothing",
     length_invariance, "divide by the number of real tokens, or let length_invariant() be false"},
    {"batch invariance", "the other samples of a batch change nothing", batch_invariance,
     "take no maximum, mean or norm over dimension 0 (a batch norm does in training), and keep "
     "nothing between calls",
     Grade::wrong, false, "fragile where they do it in training alone"},
    {"types agree",
     "float32 and bfloat16 agree with float64 on the same inputs, and their results are of their "
     "type",
     types_agree, "add up in float32, and let no constant be of a narrower type", Grade::wrong,
     false, "fragile where only bfloat16 does not"},
    {"non-contiguous inputs", "strides change nothing", non_contiguous,
     "reshape() in place of view(), no as_strided()"},
    {"large logits", "logits of 80 and more stay finite, backward too", large_logits,
     "subtract the row's maximum before exp(), or use softmax()", Grade::fragile},
    {"gradients of every parameter", "training reaches every parameter", parameter_gradients,
     "no detach(), .data or no_grad() on the way; what is not to be trained is a buffer",
     Grade::wrong, false,
     "fragile where a gradient is zero, style where a projection is of what is not read"},
    {"finite differences", "gradients in float64 are those of the function", finite_differences,
     "look at backward() of functions of your own, at detach(), and at types narrower than float32 "
     "inside: compute in q's type, or in float32 where that is bfloat16"},
    {"state round-trip", "saved and loaded parameters and buffers give the same function",
     state_round_trip, "register every tensor that decides the result, as parameter or buffer"},
    {"autocast", "runs in bfloat16 under autocast and agrees with float64", autocast,
     "bring operands to one type before a product, and the result to q's", Grade::fragile},
    {"options in effect", "reports every option with the value in effect", options_in_effect,
     "options() returns write_fields(options_)", Grade::style},
    {"wrong shapes refused", "wrong shapes and types end in one clear error", wrong_shapes,
     "begin with check_attend_inputs(q, k, v, mask)", Grade::style},
    {"causality", "no position changes what stands before it", causality,
     "hide keys j > i of query i, and let no sum or maximum run over later positions"},
};

// Whether it is tried where a context is causal, or is not.
bool is_tried(const Clause& clause, bool causal) { return causal || clause.run != causality; }

const Clause& find_clause(const std::string& name) {
  const auto clause = std::ranges::find(kClauses, name, &Clause::name);
  if (clause != std::end(kClauses)) return *clause;
  std::vector<std::string> names;
  for (const Clause& known : kClauses) names.emplace_back(known.name);
  throw unknown_name("clause", name, names);
}

}  // namespace

bool is_user_defined(const std::string& attention) {
  return !attention_entry(attention).source_sha256.empty() || !runs_by_name(attention);
}

ContractSubject contract_subject(const AttentionSpec& spec) {
  const AttentionEntry& entry = attention_entry(spec.name);
  json options = entry.effective_options(spec.options);
  if (!entry.source_sha256.empty())
    options.erase("source_sha256");  // it is the build that knows it
  AttentionSpec dropping = spec;
  if (options.contains("dropout") && options["dropout"].is_number())
    dropping.options["dropout"] = kDropout;
  return {.make = [spec](const AttentionContext& context) { return make_attention(spec, context); },
          .options = std::move(options),
          .make_dropping =
              [dropping](AttentionContext context) {
                context.dropout = kDropout;
                return make_attention(dropping, context);
              }};
}

std::vector<ContractClause> contract_clauses(bool causal) {
  std::vector<ContractClause> clauses;
  for (const Clause& clause : kClauses) {
    if (!is_tried(clause, causal)) continue;
    clauses.push_back(
        {clause.name, clause.promise, clause.hint, clause.grade, clause.decisive, clause.lesser});
  }
  return clauses;
}

Verdict check_clause(const std::string& name, const ContractSubject& subject) {
  const Clause& clause = find_clause(name);
  ClauseReport findings(clause.grade);
  const auto plain = ops::AutocastScope::off(subject.device);
  try {
    const ContractProbe trial(subject);
    clause.run(trial, findings);
  } catch (const std::exception& error) {
    // It says what the machine has left, and nothing of the attention.
    if (is_out_of_memory(error)) throw;
    findings.ended_in(error);
  }
  return findings.verdict(name);
}

std::vector<Verdict> check_contract(const ContractSubject& subject) {
  std::vector<Verdict> verdicts;
  for (const ContractClause& clause : contract_clauses(subject.context.causal))
    verdicts.push_back(check_clause(clause.name, subject));
  return verdicts;
}

}  // namespace lra::contract
