#include "harness/fidelity/fidelity.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "attention_variants/ops/padding.h"
#include "attention_variants/ops/reference/landmark_attention.h"
#include "attention_variants/ops/reference/softmax_attention.h"
#include "harness/fidelity/fidelity_file.h"
#include "harness/fidelity/fidelity_inputs.h"
#include "harness/host/memory.h"
#include "harness/host/progress.h"
#include "harness/host/runtime.h"
#include "harness/host/signals.h"
#include "harness/measure/measure.h"
#include "results/statistics/statistics.h"

namespace lra {
namespace {

using Measures = std::vector<std::pair<std::string, std::vector<double>>>;  // name -> samples

// out of softmax attention in float64, of the inputs as they are: [T,H,n,e].
torch::Tensor exact_attention(const torch::Tensor& q, const torch::Tensor& k,
                              const torch::Tensor& v, const torch::Tensor& mask) {
  const auto wide = [](const torch::Tensor& x) { return x.to(torch::kDouble); };
  return ops::zero_padded_rows(ops::reference::softmax_attention(wide(q), wide(k), wide(v), mask),
                               mask);
}

FidelityInputs sample(const FidelityInputs& inputs, int64_t trial) {
  FidelityInputs one = inputs;
  for (torch::Tensor* x : {&one.q, &one.k, &one.v, &one.mask}) *x = x->narrow(0, trial, 1);
  return one;
}

void append(std::vector<double>& to, const std::vector<double>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

std::vector<double> numbers(const torch::Tensor& x) {
  const torch::Tensor flat = x.to(torch::kDouble).cpu().contiguous().flatten();
  return {flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel()};
}

// Runs cells and writes them.
class FidelityRunner {
 public:
  explicit FidelityRunner(const FidelityRequest& request)
      : request_(request),
        machine_(machine_of(request.device)),
        trained_(request.run.empty() ? std::nullopt
                                     : std::make_optional<TrainedInputs>(request.run, request.data,
                                                                         request.device)),
        file_(request.out) {}

  int64_t run() {
    const torch::NoGradGuard no_grad;
    for (const int64_t experiment : request_.experiments) {
      if (experiment == 1) raw_scores();
      if (experiment == 2) softmax_matrices();
      if (experiment == 3) iterations();
      if (experiment == 4) approximations();
    }
    return static_cast<int64_t>(file_.size());
  }

 private:
  std::vector<int64_t> lengths(std::vector<int64_t> own) const {
    return request_.lengths.empty() ? own : request_.lengths;
  }
  int64_t trials(int64_t own) const { return request_.trials > 0 ? request_.trials : own; }
  FidelityInputs random(int64_t own_trials, int64_t heads, int64_t length,
                        int64_t own_width) const {
    return random_inputs(trials(own_trials), heads, length,
                         request_.head_dim > 0 ? request_.head_dim : own_width, request_.seed,
                         request_.device);
  }

  Fidelity cell(int64_t experiment, const FidelityInputs& inputs, const char* dtype) const {
    return {.experiment = experiment,
            .length = inputs.length(),
            .heads = inputs.heads(),
            .head_dim = inputs.head_dim(),
            .trials = inputs.trials(),
            .seed = request_.seed,
            .dtype = dtype,
            .device = request_.device.str(),
            .data = inputs.data,
            .layer = inputs.layer,
            .threads = request_.threads,
            .machine = machine_,
            .software = software_json()};
  }

  // Begins the progress of `count` cells.
  void begin(int64_t experiment, const FidelityInputs& inputs, int64_t count) {
    const std::string layer = inputs.layer ? fmt::format(" layer {}", *inputs.layer) : "";
    progress_.emplace(fmt::format("experiment {}, length {}, {}{}", experiment, inputs.length(),
                                  inputs.data.source, layer),
                      count);
    done_ = 0;
  }

  // Does a cell that the file lacks, whatever comes of it. `work` gives samples and may fill in the
  // rest; it returns false where the cell is not to be.
  void add(Fidelity record, const std::function<bool(Fidelity&, Measures&)>& work) {
    if (stop_requested()) throw Interrupted("stopped; the same command goes on");
    if (!file_.has(record)) {
      if (attempt(record, work)) file_.append(record);
    }
    progress_->update(++done_, record.attention.label);
  }

  bool attempt(Fidelity& record, const std::function<bool(Fidelity&, Measures&)>& work) const {
    set_cpu_memory_limit(request_.memory_limit);
    bool wanted = true;
    try {
      Measures measures;
      wanted = work(record, measures);
      for (auto& [name, samples] : measures) {
        const auto wild =
            std::ranges::count_if(samples, [](double x) { return !std::isfinite(x); });
        if (wild == 0) {
          record.measures.emplace_back(name, estimate_of(std::move(samples)));
          continue;
        }
        record.status = Status::diverged;
        if (!record.reason.empty()) record.reason += "; ";
        record.reason +=
            fmt::format("{}: {} of {} samples are not finite", name, wild, samples.size());
      }
    } catch (const Interrupted&) {
      set_cpu_memory_limit(0);
      throw;
    } catch (const std::exception& error) {
      record.status = status_of(error);
      record.reason = first_line(error);
    }
    set_cpu_memory_limit(0);
    return wanted;
  }

  void raw_scores() {
    for (const int64_t length : lengths({50})) {
      const FidelityInputs inputs = random(100, 1, length, 10);
      const torch::Tensor scores = inputs.q.matmul(inputs.k.mT());  // [T,1,n,n]
      begin(1, inputs, length);
      for (int64_t m = 1; m <= length; ++m) {
        Fidelity record = cell(1, inputs, "float64");
        record.attention = {.name = "raw scores",
                            .label = "raw scores, first rows as landmarks",
                            .options = {{"landmarks", "first"}, {"pinv", "exact"}}};
        record.budget = "landmarks";
        record.budget_value = m;
        add(record, [&](Fidelity&, Measures& measures) {
          const torch::Tensor error = raw_score_approximation(inputs.q, inputs.k, m) - scores;
          measures = {{"scores", numbers(error.flatten(1).norm(2, 1))}};
          return true;
        });
      }
    }
  }

  // The record of Nyström's matrices with these options, which the label names.
  static AttentionRecord matrices(const json& options) {
    return {.name = ops::reference::kNystrom,
            .label = AttentionSpec{.name = ops::reference::kNystrom, .options = options}.text(),
            .options = attention_entry(ops::reference::kNystrom).effective_options(options)};
  }

  void softmax_matrices() {
    for (const int64_t length : lengths({256})) {
      const FidelityInputs inputs = random(10, 1, length, 32);
      // With the identity as values the output is the attention matrix itself, by the same code.
      const int64_t count = inputs.trials();
      const torch::Tensor both = torch::cat(
          {torch::eye(length, inputs.v.options()).expand({count, 1, -1, -1}), inputs.v}, -1);
      const torch::Tensor exact = exact_attention(inputs.q, inputs.k, both, inputs.mask);
      begin(2, inputs, 2 * std::ssize(ops::reference::landmark_kinds()) * length);
      for (const std::string& kind : ops::reference::landmark_kinds()) {
        for (const char* pinv : {"iterative", "exact"}) {
          for (int64_t m = 1; m <= length; ++m) {
            Fidelity record = cell(2, inputs, "float64");
            record.attention = matrices({{"landmarks", kind}, {"pinv", pinv}});
            record.attention.options["num_landmarks"] = m;
            record.budget = "num_landmarks";
            record.budget_value = m;
            add(record, [&](Fidelity& cell, Measures& measures) {
              const int64_t steps = cell.attention.options["pinv_iterations"];
              measures = {{"matrix", {}}, {"output", {}}};
              for (int64_t t = 0; t < count; ++t) {
                const FidelityInputs one = sample(inputs, t);
                const ops::reference::Landmarks landmarks = ops::reference::make_landmarks(
                    one.q, one.k, one.mask,
                    {.count = m, .kind = kind, .seed = request_.seed + static_cast<uint64_t>(t)});
                const torch::Tensor a = ops::reference::landmark_matrix(landmarks);
                const torch::Tensor z = pinv == std::string("exact")
                                            ? ops::reference::exact_landmark_inverse(a)
                                            : ops::reference::landmark_inverse(a, steps);
                const torch::Tensor x = ops::reference::landmark_product(
                    one.q, one.k, both.narrow(0, t, 1), one.mask, landmarks, z);
                const torch::Tensor right = exact.narrow(0, t, 1);
                append(measures[0].second,
                       relative_errors(x.narrow(-1, 0, length), right.narrow(-1, 0, length)));
                append(measures[1].second,
                       relative_errors(x.narrow(-1, length, inputs.head_dim()),
                                       right.narrow(-1, length, inputs.head_dim())));
              }
              return true;
            });
          }
        }
      }
    }
  }

  // The given inputs and, where there is a run, those of its layers at the same length; where it
  // has none, a cell for each of `attentions` that says why.
  std::vector<FidelityInputs> with_trained(int64_t experiment, FidelityInputs given,
                                           const std::vector<AttentionRecord>& attentions) {
    std::vector<FidelityInputs> all{std::move(given)};
    if (!trained_) return all;
    const int64_t trials = all[0].trials(), length = all[0].length();
    try {
      for (FidelityInputs& layer : trained_->layers(trials, length))
        all.push_back(std::move(layer));
    } catch (const Unsupported& error) {
      FidelityInputs none = all[0];
      none.data = trained_->data();
      begin(experiment, none, std::ssize(attentions));
      for (const AttentionRecord& attention : attentions) {
        Fidelity record = cell(experiment, none, "float32");
        record.heads = trained_->heads();
        record.head_dim = trained_->head_dim();
        record.attention = attention;
        add(record, [&](Fidelity&, Measures&) -> bool { throw Unsupported(error.what()); });
      }
    }
    return all;
  }

  void iterations() {
    for (const int64_t length : lengths({1024})) {
      for (const FidelityInputs& inputs :
           with_trained(3, random(10, 1, length, 32), {matrices(json::object())})) {
        std::vector<int64_t> counts;
        for (const int64_t m : {32, 64, 128}) {
          if (m <= length) counts.push_back(m);
        }
        begin(3, inputs, std::ssize(counts) * (3 * kMostIterations + 1));
        for (const int64_t m : counts) {
          conditions(inputs, m);
          iterate(inputs, m, "float32", torch::kFloat, torch::kFloat);
          iterate(inputs, m, "bfloat16", torch::kBFloat16, torch::kFloat);
          iterate(inputs, m, "bfloat16", torch::kBFloat16, torch::kBFloat16);
        }
      }
    }
  }

  static constexpr int64_t kMostIterations = 20;

  static ops::reference::Landmarks means(const FidelityInputs& inputs, int64_t m) {
    return ops::reference::make_landmarks(ops::zero_padding(inputs.q, inputs.mask),
                                          ops::zero_padding(inputs.k, inputs.mask), inputs.mask,
                                          {.count = m});
  }

  // The largest singular value over the smallest of the real landmarks' part.
  void conditions(const FidelityInputs& inputs, int64_t m) {
    Fidelity record = cell(3, inputs, "float64");
    record.attention = matrices(json::object());
    record.attention.options["num_landmarks"] = m;
    record.budget = "num_landmarks";
    record.budget_value = m;
    add(record, [&](Fidelity&, Measures& measures) {
      FidelityInputs wide = inputs;
      for (torch::Tensor* x : {&wide.q, &wide.k}) *x = x->to(torch::kDouble);
      const ops::reference::Landmarks landmarks = means(wide, m);
      const torch::Tensor values =
          at::linalg_svdvals(ops::reference::landmark_matrix(landmarks));  // [T,H,m]
      const torch::Tensor last =
          (landmarks.real.sum(1) - 1).clamp_min(0).view({-1, 1, 1}).expand({-1, inputs.heads(), 1});
      measures = {{"condition", numbers(values.narrow(2, 0, 1) / values.gather(2, last))}};
      return true;
    });
  }

  void iterate(const FidelityInputs& inputs, int64_t m, const char* dtype, torch::Dtype type,
               torch::Dtype iterated) {
    FidelityInputs typed = inputs;
    for (torch::Tensor* x : {&typed.q, &typed.k, &typed.v}) *x = x->to(type);
    torch::Tensor exact, a;  // [T,H,n,d], [T,H,m,m]
    ops::reference::Landmarks landmarks;
    const bool throughout = type == torch::kBFloat16 && iterated == type;
    for (int64_t steps = 1; steps <= kMostIterations; ++steps) {
      Fidelity record = cell(3, inputs, dtype);
      record.attention = matrices({{"num_landmarks", m}});
      record.attention.options["pinv_iterations"] = steps;
      if (throughout) {
        record.attention.label += " iterated in bfloat16";
        record.attention.options["iterated_in"] = "bfloat16";
      }
      record.budget = "pinv_iterations";
      record.budget_value = steps;
      add(record, [&](Fidelity&, Measures& measures) {
        if (!exact.defined()) {
          exact = exact_attention(typed.q, typed.k, typed.v, typed.mask);
          landmarks = means(typed, m);
          a = ops::reference::landmark_matrix(landmarks);
        }
        const torch::Tensor z =
            ops::reference::landmark_inverse(a.to(iterated), steps).to(a.scalar_type());
        // Rows and columns of landmarks that are not real are zero, and no error.
        const torch::Tensor one =
            landmarks.real.to(torch::kDouble).unsqueeze(1).diag_embed();  // [T,1,m,m]
        const torch::Tensor product = a.to(torch::kDouble).matmul(z.to(torch::kDouble));
        const torch::Tensor out = ops::zero_padded_rows(
            ops::reference::landmark_product(typed.q, typed.k, typed.v, typed.mask, landmarks, z),
            typed.mask);
        measures = {{"inverse", numbers((product - one).flatten(2).norm(2, 2).mean(1))},
                    {"output", relative_errors(out, exact)}};
        return true;
      });
    }
  }

  // What experiment 4 puts on one scale, each with the options that leave its approximation alone.
  std::vector<AttentionSpec> chosen() const {
    std::vector<AttentionSpec> specs = request_.attentions;
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

  void approximations() {
    const std::vector<AttentionSpec> specs = chosen();
    std::vector<AttentionRecord> records;
    for (const AttentionSpec& spec : specs)
      records.push_back({.name = spec.name, .label = spec.text(), .options = effective(spec)});
    for (const int64_t length : lengths({512, 1024, 2048, 4096, 8192})) {
      for (const FidelityInputs& inputs : with_trained(4, random(5, 2, length, 32), records))
        sweep(specs, inputs);
    }
  }

  // All options; where some cannot be together, defaults and those given: their cell says why.
  static json effective(const AttentionSpec& spec) {
    const AttentionEntry& entry = attention_entry(spec.name);
    try {
      return entry.effective_options(spec.options);
    } catch (const Error&) {
      json options = entry.default_options;
      options.update(spec.options);
      return options;
    }
  }

  void sweep(const std::vector<AttentionSpec>& specs, const FidelityInputs& given) {
    FidelityInputs inputs = given;
    for (torch::Tensor* x : {&inputs.q, &inputs.k, &inputs.v}) *x = x->to(torch::kFloat);
    std::vector<torch::Tensor> exact(static_cast<size_t>(inputs.trials()));  // made when needed
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
      Fidelity record = cell(4, inputs, "float32");
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
    begin(4, inputs, std::ssize(cells));
    for (auto& [record, spec] : cells) {
      add(record, [&, &spec = spec](Fidelity& into, Measures& measures) {
        return approximate(spec, inputs, exact, into, measures);
      });
    }
  }

  // False where the budget takes too much work.
  bool approximate(const AttentionSpec& spec, const FidelityInputs& inputs,
                   std::vector<torch::Tensor>& exact, Fidelity& record, Measures& measures) const {
    std::shared_ptr<Attention> first;
    measures = {{"output", {}}};
    for (int64_t t = 0; t < inputs.trials(); ++t) {
      const uint64_t seed = request_.seed + static_cast<uint64_t>(t);
      torch::manual_seed(seed);
      const auto attention = make_attention(spec, {.width = inputs.heads() * inputs.head_dim(),
                                                   .heads = inputs.heads(),
                                                   .head_dim = inputs.head_dim(),
                                                   .max_length = inputs.length(),
                                                   .seed = seed});
      attention->to(request_.device);
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
    const Measurement m = measure([&] { first->attend(one.q, one.k, one.v, one.mask); },
                                  request_.device, {.seconds = request_.seconds});
    record.time = ProfileTime{.median = m.time.median,
                              .min = m.time.min,
                              .iqr = m.time.iqr,
                              .ci95 = m.time.interval,
                              .samples = m.samples};
    record.memory = ProfileMemory{.peak = static_cast<double>(m.peak_bytes) / kMiB};
    return true;
  }

  const FidelityRequest& request_;
  const Machine machine_;
  const std::optional<TrainedInputs> trained_;
  FidelityFile file_;  // after what may refuse: nothing is begun then
  std::optional<Progress> progress_;
  int64_t done_ = 0;
};

}  // namespace

int64_t run_fidelity(const FidelityRequest& request) { return FidelityRunner(request).run(); }

torch::Tensor raw_score_approximation(const torch::Tensor& q, const torch::Tensor& k, int64_t m) {
  const torch::Tensor ql = q.narrow(-2, 0, m), kl = k.narrow(-2, 0, m);  // [..,m,d]
  return q.matmul(kl.mT()).matmul(at::linalg_pinv(ql.matmul(kl.mT()))).matmul(ql.matmul(k.mT()));
}

std::vector<double> relative_errors(const torch::Tensor& x, const torch::Tensor& exact) {
  const torch::Tensor right = exact.to(torch::kDouble).flatten(1);
  return numbers((x.to(torch::kDouble).flatten(1) - right).norm(2, 1) / right.norm(2, 1));
}

std::vector<int64_t> swept_budgets(int64_t default_value, int64_t length) {
  int64_t first = 1;
  while (first < std::clamp<int64_t>(default_value / 8, 1, 8)) first *= 2;
  std::vector<int64_t> budgets;
  for (int64_t value = first; value < length; value *= 2) budgets.push_back(value);
  budgets.push_back(length);
  return budgets;
}

}  // namespace lra
