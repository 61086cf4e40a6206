#include "attention_variants/python_host.h"
#include "harness/fidelity/experiments.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/host/memory.h"
#include "harness/measure/measure.h"

namespace lra::fidelity {
namespace {

// What experiment 4 puts on one scale, each with the options that leave its approximation alone.
std::vector<AttentionSpec> chosen(const FidelityRequest& request) {
  std::vector<AttentionSpec> specs = request.attentions;
  if (specs.empty()) {
    for (const AttentionEntry* entry : attention_entries()) {
      if (entry->info.softmax != Softmax::different || !entry->info.budget.empty())
        specs.push_back({.name = entry->info.name});
    }
  }
  for (AttentionSpec& spec : specs) {
    json options = attention_entry(spec.name).info.approximation;
    options.update(spec.options);
    spec.options = options;
  }
  return specs;
}

// All options; where some cannot be together, defaults and those given: their cell says why.
json effective(const AttentionSpec& spec) {
  const AttentionEntry& entry = attention_entry(spec.name);
  try {
    return entry.effective_options(spec.options);
  } catch (const Error&) {
    json options = entry.default_options;
    options.update(spec.options);
    return options;
  }
}

// False where the budget takes too much work.
bool approximate(const FidelityRequest& request, const AttentionSpec& spec,
                 const FidelityInputs& inputs, std::vector<torch::Tensor>& exact, Fidelity& record,
                 Measures& measures) {
  std::shared_ptr<Attention> first;
  measures = {{"output", {}}};
  for (int64_t t = 0; t < inputs.trials(); ++t) {
    const uint64_t seed = request.seed + static_cast<uint64_t>(t);
    seed_generators(seed);
    const auto attention = make_attention(spec, {.width = inputs.heads() * inputs.head_dim(),
                                                 .heads = inputs.heads(),
                                                 .head_dim = inputs.head_dim(),
                                                 .max_length = inputs.length(),
                                                 .seed = seed});
    attention->to(request.device);
    attention->eval();
    if (t == 0) {
      first = attention;
      const int64_t flops = attention->flops(1, inputs.length());
      const double softmax = 4.0 * static_cast<double>(inputs.heads() * inputs.head_dim()) *
                             static_cast<double>(inputs.length() * inputs.length());
      if (static_cast<double>(flops) > kMostWork * softmax) return false;
      if (flops >= 0) record.flops = static_cast<double>(flops);
    }
    const FidelityInputs one = sample(inputs, t);
    torch::Tensor& right = exact[static_cast<size_t>(t)];
    if (!right.defined()) right = exact_attention(one.q, one.k, one.v, one.mask);
    append(measures[0].second,
           relative_errors(attention->attend(one.q, one.k, one.v, one.mask), right));
  }
  const FidelityInputs one = sample(inputs, 0);
  const measure::Measurement m =
      measure::measure([&] { first->attend(one.q, one.k, one.v, one.mask); }, request.device,
                       {.seconds = request.seconds});
  record.time = ProfileTime{.median = m.time.median,
                            .min = m.time.min,
                            .iqr = m.time.iqr,
                            .ci95 = m.time.interval,
                            .samples = m.samples};
  record.memory.emplace();
  if (m.peak_bytes >= 0) record.memory->peak = static_cast<double>(m.peak_bytes) / host::kMiB;
  return true;
}

// The cells of experiment 4 on these inputs, each with its attention: all budgets, or the given
// one.
std::vector<std::pair<Fidelity, AttentionSpec>> swept_cells(const Session& session,
                                                            const std::vector<AttentionSpec>& specs,
                                                            const FidelityInputs& inputs) {
  std::vector<std::pair<Fidelity, AttentionSpec>> cells;
  for (const AttentionSpec& spec : specs) {
    const AttentionEntry& entry = attention_entry(spec.name);
    const std::string& budget = entry.info.budget;
    std::vector<int64_t> values;
    if (spec.options.contains(budget)) {
      values = {spec.options[budget].get<int64_t>()};
    } else if (!budget.empty()) {
      values = swept_budgets(entry.default_options[budget].get<int64_t>(), inputs.length());
    }
    AttentionSpec label = spec;
    label.options.erase(budget);
    Fidelity record = session.cell(4, inputs, "float32");
    record.attention = {.name = spec.name, .label = label.text(), .options = effective(spec)};
    record.budget = budget;
    if (values.empty()) cells.emplace_back(record, spec);
    for (const int64_t value : values) {
      AttentionSpec with = spec;
      with.options[budget] = value;
      record.budget_value = value;
      record.attention.options = effective(with);
      cells.emplace_back(record, with);
    }
  }
  return cells;
}

FidelityInputs in_float(FidelityInputs inputs) {
  for (torch::Tensor* x : {&inputs.q, &inputs.k, &inputs.v}) *x = x->to(torch::kFloat);
  return inputs;
}

// The one cell of an attention whose every budget takes too much work.
void add_too_much(Session& session, Fidelity record) {
  record.budget.clear();
  record.budget_value = 0;
  session.add(record, [](Fidelity&, Measures&) -> bool {
    throw Unsupported(
        fmt::format("takes over {:g} times the operations of softmax attention", kMostWork));
  });
}

void sweep(Session& session, const FidelityRequest& request,
           const std::vector<AttentionSpec>& specs, const FidelityInputs& given) {
  // Made when needed, in a cell, which says where memory ends.
  std::optional<FidelityInputs> inputs;
  std::vector<torch::Tensor> exact(static_cast<size_t>(given.trials()));
  auto cells = swept_cells(session, specs, given);
  session.begin(4, given, std::ssize(cells));
  for (size_t i = 0; i < cells.size();) {
    const Fidelity first = cells[i].first;
    size_t left_out = 0, of = 0;
    for (; i < cells.size() && cells[i].first.attention.label == first.attention.label; ++i, ++of) {
      const AttentionSpec& spec = cells[i].second;
      session.add(cells[i].first, [&](Fidelity& into, Measures& measures) {
        if (!inputs) inputs = in_float(given);
        const bool wanted = approximate(request, spec, *inputs, exact, into, measures);
        left_out += wanted ? 0 : 1;
        return wanted;
      });
    }
    if (left_out == of) add_too_much(session, first);
  }
}

}  // namespace

void approximations(Session& session, const FidelityRequest& request) {
  const std::vector<AttentionSpec> specs = chosen(request);
  std::vector<AttentionRecord> records;
  for (const AttentionSpec& spec : specs)
    records.push_back({.name = spec.name, .label = spec.text(), .options = effective(spec)});
  for (const int64_t length : lengths_of(request, {512, 1024, 2048, 4096, 8192})) {
    for (const FidelityInputs& inputs : session.with_trained(
             4, {.trials = 5, .heads = 2, .length = length, .head_dim = 32}, records))
      sweep(session, request, specs, inputs);
  }
}

std::vector<int64_t> swept_budgets(int64_t default_value, int64_t length) {
  int64_t first = 1;
  while (first < std::clamp<int64_t>(default_value / 8, 1, 8)) first *= 2;
  std::vector<int64_t> budgets;
  for (int64_t value = first; value < length; value *= 2) budgets.push_back(value);
  budgets.push_back(length);
  return budgets;
}

}  // namespace lra::fidelity
