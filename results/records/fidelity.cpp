#include "results/records/fidelity.h"

#include <algorithm>

#include "results/records/json_line.h"
#include "results/records/record_fields.h"
#include "results/statistics/statistics.h"

namespace lra {
namespace {

constexpr const char* kRun = "run";

json make_estimate(const Estimate& estimate) {
  json value = {{"mean", finite_or_null(estimate.mean)}};
  set_if(value, "sd", estimate.sd);
  if (estimate.ci95) value["ci95"] = make_interval(*estimate.ci95);
  value["median"] = finite_or_null(estimate.median);
  value["worst"] = finite_or_null(estimate.worst);
  value["samples"] = json::array();
  for (const double sample : estimate.samples) value["samples"].push_back(finite_or_null(sample));
  return value;
}

// Everything else follows from the samples, so that a file cannot contradict itself.
Estimate parse_estimate(const json& value, const std::string& where) {
  const RecordReader reader(value, where);
  const json& samples = reader.at("samples");
  if (!samples.is_array() || samples.empty())
    bad_record(fmt::format("field '{}' should be an array of numbers, not {}",
                           reader.path("samples"), abbreviated(samples)));
  std::vector<double> numbers;
  for (const json& sample : samples)
    numbers.push_back(reader.as_number("samples", sample, 0, kHuge));
  return estimate_of(std::move(numbers));
}

json make_data(const FidelityData& data) {
  json value = {{"source", data.source}};
  if (data.source != kRun) return value;
  value.update({{"task", data.task},
                {"attention", data.attention},
                {"protocol", data.protocol},
                {"seed", data.seed},
                {"step", data.step},
                {"synthetic", data.synthetic},
                {"fingerprint", data.fingerprint},
                {"identity", data.identity}});
  return value;
}

FidelityData parse_data(const json& value) {
  const RecordReader reader(value, "data");
  FidelityData data{.source = reader.text("source")};
  if (data.source != kRun) return data;
  data.task = reader.text("task");
  data.attention = reader.text("attention");
  data.protocol = reader.text("protocol");
  data.seed = reader.natural("seed");
  data.step = reader.integer("step", 0);
  data.synthetic = reader.flag("synthetic");
  data.fingerprint = reader.text("fingerprint");
  data.identity = reader.text("identity");
  return data;
}

json identity_json(const Fidelity& f) {
  json value = {{"experiment", f.experiment}, {"attention", make_attention_record(f.attention)}};
  if (!f.budget.empty()) value["budget"] = {{"option", f.budget}, {"value", f.budget_value}};
  value.update({{"length", f.length},
                {"heads", f.heads},
                {"head_dim", f.head_dim},
                {"trials", f.trials},
                {"seed", f.seed},
                {"dtype", f.dtype},
                {"device", f.device},
                {"data", make_data(f.data)}});
  set_if(value, "layer", f.layer);
  set_if(value, "threads", f.threads);
  return value;
}

}  // namespace

Estimate estimate_of(std::vector<double> samples) {
  Estimate estimate{.mean = stats::mean(samples),
                    .median = stats::quantile(samples, 0.5),
                    .worst = *std::ranges::max_element(samples)};
  if (samples.size() > 1) {
    estimate.sd = stats::standard_deviation(samples);
    estimate.ci95 = stats::student_interval(samples);
  }
  estimate.samples = std::move(samples);
  return estimate;
}

const Estimate* Fidelity::find(std::string_view measure) const {
  const auto it =
      std::ranges::find_if(measures, [&](const auto& entry) { return entry.first == measure; });
  return it == measures.end() ? nullptr : &it->second;
}

std::string Fidelity::identity() const {
  return json_line(identity_json(*this)) + machine_text(machine);
}

json make_fidelity(const Fidelity& fidelity) {
  json value = {{"schema", kFidelitySchema}};
  value.update(identity_json(fidelity));
  value["status"] = fidelity.status;
  value["reason"] = fidelity.reason;
  value["measures"] = json::object();
  for (const auto& [name, estimate] : fidelity.measures)
    value["measures"][name] = make_estimate(estimate);
  if (fidelity.time) value["time_ms"] = make_time(*fidelity.time);
  if (fidelity.memory) value["memory_mib"] = make_memory(*fidelity.memory);
  set_if(value, "flops", fidelity.flops);
  value["machine"] = make_machine(fidelity.machine);
  value["software"] = fidelity.software;
  return value;
}

Fidelity parse_fidelity(const json& record) {
  const RecordReader reader(record, "");
  check_schema(reader, kFidelitySchema);
  Fidelity f;
  f.experiment = reader.integer("experiment", 1);
  f.attention = parse_attention_record(reader.at("attention"));
  if (const json* budget = reader.find("budget")) {
    const RecordReader inner(*budget, "budget");
    f.budget = inner.text("option");
    f.budget_value = inner.integer("value", 0);
  }
  f.length = reader.integer("length", 1);
  f.heads = reader.integer("heads", 1);
  f.head_dim = reader.integer("head_dim", 1);
  f.trials = reader.integer("trials", 1);
  f.seed = reader.natural("seed");
  f.dtype = reader.text("dtype");
  f.device = reader.text("device");
  f.data = parse_data(reader.at("data"));
  f.layer = reader.integer_if("layer", 0);
  f.threads = reader.integer_if("threads", 0);
  f.status = read_status(reader);
  f.reason = reader.text_or("reason", "");
  const RecordReader measures(reader.at("measures"), "measures");
  for (const MeasureName& measure : kMeasures) {
    const std::string name(measure.name);
    if (const json* value = measures.find(name.c_str()))
      f.measures.emplace_back(name, parse_estimate(*value, "measures." + name));
  }
  if (f.status == Status::ok && f.measures.empty())
    bad_record("field 'measures' holds none that is known");
  if (const json* time = reader.find("time_ms")) f.time = parse_time(*time);
  if (const json* memory = reader.find("memory_mib")) f.memory = parse_memory(*memory);
  f.flops = reader.number_if("flops", 0, kHuge);
  if (const json* machine = reader.find("machine")) f.machine = parse_machine(*machine);
  f.software = reader.object_or_empty("software");
  return f;
}

}  // namespace lra
