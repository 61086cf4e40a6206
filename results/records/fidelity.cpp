#include "results/records/fidelity.h"

#include <algorithm>

#include "results/records/json_line.h"
#include "results/records/record_fields.h"
#include "results/statistics/statistics.h"

namespace lra {
namespace {

constexpr const char* kRun = "run";

constexpr auto estimate_fields = [](auto& f, auto& estimate) {
  f("mean", estimate.mean);
  f("sd", estimate.sd);
  f("ci95", estimate.ci95);
  f("median", estimate.median);
  f("worst", estimate.worst);
  f("samples", estimate.samples);
};

// Everything else follows from the samples, so that a file cannot contradict itself.
TrialEstimate parse_estimate(const json& value, const std::string& where) {
  const RecordReader reader(value, where);
  const json& samples = reader.at("samples");
  if (!samples.is_array() || samples.empty())
    bad_record(fmt::format("field '{}' should be an array of numbers, not {}",
                           reader.path("samples"), abbreviated(samples)));
  std::vector<double> numbers;
  reader("samples", numbers);
  return estimate_of(std::move(numbers));
}

constexpr auto data_fields_of_run = [](auto& f, auto& data) {
  f("source", data.source);
  if (!data.from_run()) return;
  f("task", data.task);
  f("attention", data.attention);
  f("protocol", data.protocol);
  f("seed", data.seed);
  f("step", data.step);
  f("synthetic", data.synthetic);
  f("data_source", data.data_source, Presence::sparse);
  f("fingerprint", data.fingerprint);
  f("identity", data.identity);
};

// What a cell is apart from what came out.
constexpr auto identity_fields = []<class Fields>(Fields& f, auto& cell) {
  f("experiment", cell.experiment, Presence::required, {.least = 1});
  f.part("attention", cell.attention, make_attention_record, parse_attention_record);
  if (Fields::kReads || !cell.budget.empty()) {
    f.group("budget", Presence::optional, [&cell](auto& budget) {
      budget("option", cell.budget);
      budget("value", cell.budget_value);
    });
  }
  f("length", cell.length, Presence::required, {.least = 1});
  f("heads", cell.heads, Presence::required, {.least = 1});
  f("head_dim", cell.head_dim, Presence::required, {.least = 1});
  f("trials", cell.trials, Presence::required, {.least = 1});
  f("seed", cell.seed);
  f("dtype", cell.dtype);
  f("device", cell.device);
  f.group("data", Presence::required, [&cell](auto& data) { data_fields_of_run(data, cell.data); });
  f("layer", cell.layer);
  f("threads", cell.threads);
};

constexpr auto measure_fields = []<class Fields>(Fields& f, auto& cell) {
  if constexpr (Fields::kReads) {
    for (const MeasureName& measure : kMeasures) {
      const std::string name(measure.name);
      if (const json* value = f.find(name.c_str()))
        cell.measures.emplace_back(name, parse_estimate(*value, f.path(name.c_str())));
    }
  } else {
    for (const auto& [name, estimate] : cell.measures)
      f.object[name] = write_record(estimate, estimate_fields);
  }
};

constexpr auto fidelity_fields = [](auto& f, auto& cell) {
  f.schema(kFidelitySchema);
  identity_fields(f, cell);
  f("status", cell.status);
  f("reason", cell.reason, Presence::optional);
  f.group("measures", Presence::required, [&cell](auto& inner) { measure_fields(inner, cell); });
  f.part("time_ms", cell.time, make_time, parse_time);
  f.part("memory_mib", cell.memory, make_memory, parse_memory);
  f("flops", cell.flops);
  f.part("machine", cell.machine, make_machine, parse_machine, Presence::optional);
  f("software", cell.software, Presence::optional);
};

}  // namespace

bool FidelityData::from_run() const { return source == kRun; }

TrialEstimate estimate_of(std::vector<double> samples) {
  TrialEstimate estimate{.mean = stats::mean(samples),
                         .median = stats::quantile(samples, 0.5),
                         .worst = *std::ranges::max_element(samples)};
  if (samples.size() > 1) {
    estimate.sd = stats::standard_deviation(samples);
    estimate.ci95 = stats::student_interval(samples);
  }
  estimate.samples = std::move(samples);
  return estimate;
}

const TrialEstimate* Fidelity::find(std::string_view measure) const {
  const auto it =
      std::ranges::find_if(measures, [&](const auto& entry) { return entry.first == measure; });
  return it == measures.end() ? nullptr : &it->second;
}

std::string Fidelity::identity() const {
  return json_line(write_record(*this, identity_fields)) + machine_text(machine);
}

json make_fidelity(const Fidelity& fidelity) { return write_record(fidelity, fidelity_fields); }

Fidelity parse_fidelity(const json& record) {
  Fidelity fidelity = read_record<Fidelity>(record, "", fidelity_fields);
  if (fidelity.status == Status::ok && fidelity.measures.empty())
    bad_record("field 'measures' holds none that is known");
  return fidelity;
}

}  // namespace lra
