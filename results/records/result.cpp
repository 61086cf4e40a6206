#include "results/records/result.h"

#include <algorithm>
#include <sstream>

#include "results/records/json_line.h"
#include "results/records/record_fields.h"
#include "results/statistics/statistics.h"

namespace lra {

std::vector<std::string> Result::overridden() const {
  std::vector<std::string> keys;
  const auto it = config.find("overridden");
  if (it == config.end() || !it->is_array()) return keys;
  for (const json& entry : *it) {
    std::string key = entry.is_string() ? entry.get<std::string>() : abbreviated(entry);
    if (key.find('=') == std::string::npos) {
      const json* value = &config;
      std::stringstream parts(key);
      for (std::string part; value != nullptr && std::getline(parts, part, '.');) {
        const bool there = value->is_object() && value->contains(part);
        value = there ? &(*value)[part] : nullptr;
      }
      if (value != nullptr) key += "=" + json_line(*value);
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

json make_accuracy(const Accuracy& accuracy) {
  const bool empty = accuracy.ci95.low == 0 && accuracy.ci95.high == 0;
  const bool valid =
      accuracy.count >= 1 && accuracy.correct >= 0 && accuracy.correct <= accuracy.count;
  json value = {{"accuracy", finite_or_null(accuracy.accuracy)},
                {"correct", accuracy.correct},
                {"count", accuracy.count},
                {"ci95", make_interval(empty && valid ? stats::wilson_interval(accuracy.correct,
                                                                               accuracy.count)
                                                      : accuracy.ci95)},
                {"by_length", json::array()}};
  for (const LengthAccuracy& bucket : accuracy.by_length) {
    value["by_length"].push_back({{"from", bucket.from},
                                  {"to", bucket.to},
                                  {"accuracy", finite_or_null(bucket.accuracy)},
                                  {"count", bucket.count}});
  }
  return value;
}

Accuracy parse_accuracy(const json& value, const std::string& where) {
  const RecordReader reader(value, where);
  Accuracy accuracy;
  accuracy.accuracy = reader.number("accuracy", 0, 1);
  accuracy.correct = reader.integer("correct", 0);
  accuracy.count = reader.integer("count", 1);
  if (accuracy.correct > accuracy.count) {
    bad_record(fmt::format("field '{}' is {} of {} examples", reader.path("correct"),
                           accuracy.correct, accuracy.count));
  }
  const double expected =
      static_cast<double>(accuracy.correct) / static_cast<double>(accuracy.count);
  if (std::abs(accuracy.accuracy - expected) > 1e-4) {
    bad_record(fmt::format("field '{}' is {}, but {} of {} examples make {:.6f}",
                           reader.path("accuracy"), accuracy.accuracy, accuracy.correct,
                           accuracy.count, expected));
  }
  const auto interval = reader.interval_if("ci95", 0, 1);
  accuracy.ci95 = interval ? *interval : stats::wilson_interval(accuracy.correct, accuracy.count);
  if (const json* buckets = reader.find("by_length")) {
    if (!buckets->is_array())
      bad_record(fmt::format("field '{}' should be an array, not {}", reader.path("by_length"),
                             abbreviated(*buckets)));
    for (const json& bucket : *buckets) {
      const RecordReader inner(bucket, reader.path("by_length"));
      LengthAccuracy entry{.from = inner.integer("from", 0), .to = inner.integer("to", 0)};
      entry.count = inner.integer("count", 0);
      entry.accuracy = entry.count == 0 ? inner.number_if("accuracy", 0, 1).value_or(0)
                                        : inner.number("accuracy", 0, 1);
      accuracy.by_length.push_back(entry);
    }
  }
  return accuracy;
}

std::string machine_setting_text(const Result& result) {
  std::string text = machine_text(result.machine);
  const TrainingCost& cost = result.training;
  if (cost.threads)
    text += fmt::format(", {} thread{}", *cost.threads, *cost.threads == 1 ? "" : "s");
  if (cost.processes > 1) text += fmt::format(", {} processes ({})", cost.processes, cost.engine);
  const auto setting = [&result](const char* path) {
    const json::json_pointer at(path);
    return result.config.contains(at) ? result.config.at(at) : json();
  };
  const json kernels = setting("/kernels"), part = setting("/training/micro_batch");
  if (kernels == "reference") text += ", kernels reference";
  if (part.is_number() && part > 0) text += ", batch in parts of " + json_line(part);
  return text;
}

json make_result(const Result& result) {
  json value = {{"schema", kResultSchema},
                {"task", result.task},
                {"attention", make_attention_record(result.attention)},
                {"protocol", result.protocol},
                {"seed", result.seed},
                {"status", result.status}};
  if (!result.reason.empty()) value["reason"] = result.reason;
  if (result.test) value["test"] = make_accuracy(*result.test);
  if (result.dev) value["dev"] = make_accuracy(*result.dev);
  set_if(value, "best_step", result.best_step);
  set_if(value, "steps", result.steps);
  set_if(value, "parameters", result.parameters);
  json training = json::object();
  set_if(training, "seconds", result.training.seconds);
  set_if(training, "steps_per_second", result.training.steps_per_second);
  set_if(training, "tokens_per_second", result.training.tokens_per_second);
  set_if(training, "peak_memory_mib", result.training.peak_memory_mib);
  set_if(training, "threads", result.training.threads);
  if (result.training.processes > 1) {
    training["peak_memory_of"] = "process 0";
    training["processes"] = result.training.processes;
    training["engine"] = result.training.engine;
  }
  value["training"] = training;
  value["data"] = {{"source", result.data.source},
                   {"synthetic", result.data.synthetic},
                   {"fingerprint", result.data.fingerprint}};
  set_if(value["data"], "majority", result.data.majority);
  value["machine"] = make_machine(result.machine);
  value["software"] = result.software;
  value["config"] = result.config;
  return value;
}

Result parse_result(const json& record) {
  const RecordReader reader(record, "");
  check_schema(reader, kResultSchema);
  Result result;
  result.task = reader.text("task");
  result.attention = parse_attention_record(reader.at("attention"));
  result.protocol = reader.text("protocol");
  result.seed = reader.natural("seed");
  result.status = read_status(reader);
  result.reason = reader.text_or("reason", "");
  const bool ok = result.status == Status::ok;
  if (ok || reader.find("test")) result.test = parse_accuracy(reader.at("test"), "test");
  if (const json* dev = reader.find("dev")) result.dev = parse_accuracy(*dev, "dev");
  result.best_step = reader.integer_if("best_step", 0);
  result.steps = reader.integer_if("steps", 0);
  result.parameters = reader.integer_if("parameters", 0);
  if (const json* training = reader.find("training")) {
    const RecordReader inner(*training, "training");
    result.training = {.seconds = inner.number_if("seconds", 0, kHuge),
                       .steps_per_second = inner.number_if("steps_per_second", 0, kHuge),
                       .tokens_per_second = inner.number_if("tokens_per_second", 0, kHuge),
                       .peak_memory_mib = inner.number_if("peak_memory_mib", 0, kHuge),
                       .threads = inner.integer_if("threads", 1),
                       .processes = inner.integer_if("processes", 1).value_or(1),
                       .engine = inner.text_or("engine", "")};
  }
  if (ok || reader.find("data")) {
    const RecordReader inner(reader.at("data"), "data");
    result.data.source = inner.text_or("source", "");
    if (ok || inner.find("synthetic") != nullptr) result.data.synthetic = inner.flag("synthetic");
    result.data.fingerprint = ok ? inner.text("fingerprint") : inner.text_or("fingerprint", "");
    result.data.majority = inner.number_if("majority", 0, 1);
  }
  if (const json* machine = reader.find("machine")) result.machine = parse_machine(*machine);
  result.software = reader.object_or_empty("software");
  result.config = reader.object_or_empty("config");
  return result;
}

}  // namespace lra
