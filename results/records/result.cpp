#include "results/records/result.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "results/records/json_line.h"
#include "results/records/record_fields.h"
#include "results/statistics/statistics.h"

namespace lra {

namespace {

constexpr auto length_fields = [](auto& f, auto& bucket) {
  f("from", bucket.from);
  f("to", bucket.to);
  f.ahead("count", bucket.count);
  // Of no example there may be none.
  f("accuracy", bucket.accuracy, bucket.count == 0 ? Presence::optional : Presence::required,
    {.most = 1});
  f("count", bucket.count);
};

constexpr auto accuracy_fields = [](auto& f, auto& accuracy) {
  f("accuracy", accuracy.accuracy, Presence::required, {.most = 1});
  f("correct", accuracy.correct);
  f("count", accuracy.count, Presence::required, {.least = 1});
  f("samples", accuracy.samples, Presence::sparse, {.least = 1});
  f("ci95", accuracy.ci95, accuracy.samples ? Presence::required : Presence::optional, {.most = 1});
  f.list("by_length", accuracy.by_length, Presence::optional, length_fields);
};

constexpr auto training_fields = []<class Fields>(Fields& f, auto& training) {
  f("seconds", training.seconds);
  f("steps_per_second", training.steps_per_second);
  f("tokens_per_second", training.tokens_per_second);
  f("peak_memory_mib", training.peak_memory_mib);
  f("evaluation_peak_memory_mib", training.evaluation_peak_memory_mib, Presence::sparse);
  f("data_memory_mib", training.data_memory_mib, Presence::sparse);
  f("others", training.others, Presence::sparse, {.most = 1});
  f("threads", training.threads, Presence::sparse, {.least = 1});
  f("execution", training.execution, Presence::sparse);
  if (Fields::kReads || training.sharing > 1)
    f("sharing", training.sharing, Presence::optional, {.least = 1});
  if (Fields::kReads || training.measured_from > 0)
    f("measured_from", training.measured_from, Presence::optional, {.least = 0});
  if (!Fields::kReads && training.processes <= 1) return;
  f.note("peak_memory_of", "process 0");
  f("processes", training.processes, Presence::optional, {.least = 1});
  f("engine", training.engine, Presence::optional);
};

constexpr auto group_fields = [](auto& f, auto& group) {
  f("parameters", group.parameters);
  f("lr", group.lr);
  f("weight_decay", group.weight_decay);
  f("count", group.count);
};

constexpr auto pretraining_fields = [](auto& f, auto& record) {
  f("path", record.path);
  f("sha256", record.sha256);
  f("objective", record.objective);
  f("step", record.step);
  f("steps", record.steps);
  f("samples", record.samples);
  f("seconds", record.seconds);
  f("taken", record.taken, Presence::sparse);
  f("left", record.left, Presence::sparse);
  f("fresh", record.fresh, Presence::sparse);
  f("total_steps", record.total_steps);
  f("total_samples", record.total_samples);
  f("total_seconds", record.total_seconds);
};

constexpr auto data_fields = []<class Fields>(Fields& f, auto& data, bool ok) {
  const Presence presence = ok ? Presence::required : Presence::optional;
  f("source", data.source, Presence::optional);
  f("synthetic", data.synthetic, presence);
  f("fingerprint", data.fingerprint, presence);
  if (Fields::kReads && ok && data.fingerprint.empty())
    bad_record("field 'data.fingerprint' is empty: a run that ended well knows its data");
  f("majority", data.majority, Presence::sparse, {.most = 1});
  f("dev_majority", data.dev_majority, Presence::sparse, {.most = 1});
  f("sample_majority", data.sample_majority, Presence::sparse, {.most = 1});
  f("dev_sample_majority", data.dev_sample_majority, Presence::sparse, {.most = 1});
  f("split", data.split, Presence::sparse);
  f("notes", data.notes, Presence::sparse);
  f("options", data.options, Presence::sparse);
  f("unlike", data.unlike, Presence::sparse);
};

// Whether a run of this configuration tests its best checkpoint: evaluation.test.
bool is_to_be_tested(const json& config) {
  const json::json_pointer at("/evaluation/test");
  return !config.contains(at) || config.at(at) != false;
}

constexpr auto result_fields = []<class Fields>(Fields& f, auto& r) {
  f.schema(kResultSchema);
  f("task", r.task);
  f.part("attention", r.attention, make_attention_record, parse_attention_record);
  f.part("contract", r.contract, make_contract_record, parse_contract_record);
  f("protocol", r.protocol);
  f("regime", r.regime, Presence::optional);
  f("seed", r.seed);
  f("status", r.status);
  f("reason", r.reason, Presence::sparse);
  const bool ok = r.status == Status::ok;
  const json* config = &r.config;
  if constexpr (Fields::kReads) config = f.find("config");
  const bool tested = config == nullptr || is_to_be_tested(*config);
  const auto accuracy = [&f](const char* name, auto& value, Presence presence) {
    const auto parse = [name](const json& found) { return parse_accuracy(found, name); };
    f.part(name, value, make_accuracy, parse, presence);
  };
  f("metric", r.metric, Presence::sparse);
  accuracy("test", r.test, tested ? required_if(ok) : Presence::nullable);
  accuracy("dev", r.dev, Presence::sparse);
  f("best_step", r.best_step);
  f("steps", r.steps);
  f("left_majority_at", r.left_majority_at,
    r.data.dev_majority ? Presence::nullable : Presence::sparse);
  f("parameters", r.parameters);
  f.list("parameter_groups", r.parameter_groups, Presence::sparse, group_fields);
  f.part("pretrained", r.pretrained, make_pretraining_record, parse_pretraining_record);
  f.group("training", Presence::optional,
          [&r](auto& inner) { training_fields(inner, r.training); });
  f.group("data", ok ? Presence::required : Presence::optional,
          [&r, ok](auto& inner) { data_fields(inner, r.data, ok); });
  f.part("machine", r.machine, make_machine, parse_machine, Presence::optional);
  f("software", r.software, Presence::optional);
  f("config", r.config, Presence::optional);
};

// An accuracy that contradicts its own counts is refused.
void check_counts(const Accuracy& accuracy, const std::string& where) {
  if (accuracy.correct > accuracy.count) {
    bad_record(fmt::format("field '{}.correct' is {} of {} examples", where, accuracy.correct,
                           accuracy.count));
  }
  const double expected =
      static_cast<double>(accuracy.correct) / static_cast<double>(accuracy.count);
  if (std::abs(accuracy.accuracy - expected) > 1e-4) {
    bad_record(fmt::format("field '{}.accuracy' is {}, but {} of {} examples make {:.6f}", where,
                           accuracy.accuracy, accuracy.correct, accuracy.count, expected));
  }
  const auto& [low, high] = accuracy.ci95;
  if (accuracy.samples && (low > expected + 1e-4 || high < expected - 1e-4)) {
    bad_record(fmt::format("field '{}.ci95' is [{}, {}], which does not hold the accuracy, {:.6f}",
                           where, low, high, expected));
  }
}

}  // namespace

const json* Result::setting(const std::string& key) const {
  const json* value = &config;
  std::stringstream parts(key);
  for (std::string part; value != nullptr && std::getline(parts, part, '.');) {
    const bool there = value->is_object() && value->contains(part);
    value = there ? &(*value)[part] : nullptr;
  }
  return value;
}

std::vector<std::string> Result::overridden() const {
  std::vector<std::string> keys;
  const auto it = config.find("overridden");
  if (it == config.end() || !it->is_array()) return keys;
  for (const json& entry : *it) {
    std::string key = entry.is_string() ? entry.get<std::string>() : abbreviated(entry);
    if (key.find('=') == std::string::npos) {
      if (const json* value = setting(key)) key += "=" + json_line(*value);
    }
    keys.push_back(key);
  }
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  return keys;
}

std::string Result::dtype() const {
  const auto it = config.find("dtype");
  return it != config.end() && it->is_string() ? it->get<std::string>() : "";
}

bool Result::has_pretraining() const {
  const auto it = config.find("pretraining");
  return it != config.end() && it->is_object() && !it->empty();
}

std::optional<double> DataRecord::dev_baseline() const {
  return std::max(dev_majority, dev_sample_majority);
}

bool Result::never_left_majority() const { return dev && data.dev_majority && !left_majority_at; }

std::optional<double> Result::seconds() const {
  return pretrained && has_pretraining() ? pretrained->total_seconds : training.seconds;
}

std::string DataRecord::variant() const {
  constexpr const char* kVariant = "CIFAR-10 (";  // as lra/tasks/image has it
  return source.starts_with(kVariant) ? source.substr(0, source.rfind(", from ")) : "";
}

std::string DataRecord::kind() const { return synthetic ? "synthetic stand-in data" : variant(); }

std::string DataRecord::kind_or_real() const {
  const std::string other = kind();
  return other.empty() ? "real" : other;
}

std::string Result::ending() const {
  return status == Status::ok && !test ? kNotTested : to_string(status);
}

json make_pretraining_record(const PretrainingRecord& record) {
  return write_record(record, pretraining_fields);
}

PretrainingRecord parse_pretraining_record(const json& value) {
  return read_record<PretrainingRecord>(value, "pretrained", pretraining_fields);
}

json make_accuracy(const Accuracy& accuracy) {
  Accuracy whole = accuracy;
  const bool empty = accuracy.ci95.low == 0 && accuracy.ci95.high == 0;
  const bool valid =
      accuracy.count >= 1 && accuracy.correct >= 0 && accuracy.correct <= accuracy.count;
  if (empty && valid) whole.ci95 = stats::wilson_interval(accuracy.correct, accuracy.count);
  return write_record(whole, accuracy_fields);
}

Accuracy parse_accuracy(const json& value, const std::string& where) {
  Accuracy accuracy = read_record<Accuracy>(value, where, accuracy_fields);
  check_counts(accuracy, where);
  if (!accuracy.samples)  // it follows from the counts, whatever stands there
    accuracy.ci95 = stats::wilson_interval(accuracy.correct, accuracy.count);
  return accuracy;
}

json make_result(const Result& result) { return write_record(result, result_fields); }

Result parse_result(const json& record) {
  Result result = read_record<Result>(record, "", result_fields);
  if (result.protocol == "recall" && result.regime == Result{}.regime) result.regime = "recall";
  return result;
}

}  // namespace lra
