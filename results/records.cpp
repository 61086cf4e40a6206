// Reading and writing lra.result/1 and lra.profile/1, and finding them in folders.
#include "results/records.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <stdexcept>

#include "results/statistics.h"

namespace lra {
namespace {

constexpr std::string_view kScopes[] = {"core", "module", "model"};
constexpr std::string_view kModes[] = {"inference", "training"};

[[noreturn]] void fail(const std::string& text) { throw std::runtime_error(text); }

// Reads the fields of one object; `where` is its dotted path, "" at the top.
class Reader {
 public:
  Reader(const json& object, std::string where) : object_(object), where_(std::move(where)) {
    if (!object_.is_object())
      fail(fmt::format("{} should be an object, not {}", where_.empty() ? "the record" : where_,
                       shown(object_)));
  }

  const json* find(const char* name) const {
    const auto it = object_.find(name);
    return it == object_.end() || it->is_null() ? nullptr : &*it;
  }
  const json& at(const char* name) const {
    const json* value = find(name);
    if (value == nullptr) fail(fmt::format("field '{}' is missing", path(name)));
    return *value;
  }
  std::string path(const char* name) const { return where_.empty() ? name : where_ + "." + name; }

  std::string text(const char* name) const { return as_text(name, at(name)); }
  std::string text_or(const char* name, const std::string& fallback) const {
    const json* value = find(name);
    return value == nullptr ? fallback : as_text(name, *value);
  }
  std::string word(const char* name, std::span<const std::string_view> words) const {
    const std::string value = text(name);
    if (std::find(words.begin(), words.end(), value) == words.end()) {
      fail(fmt::format("field '{}' should be one of {}, not {}", path(name), fmt::join(words, ", "),
                       shown(json(value))));
    }
    return value;
  }
  int64_t integer(const char* name, int64_t least) const {
    return as_integer(name, at(name), least);
  }
  std::optional<int64_t> integer_if(const char* name, int64_t least) const {
    const json* value = find(name);
    if (value == nullptr) return std::nullopt;
    return as_integer(name, *value, least);
  }
  double number(const char* name, double least, double most) const {
    return as_number(name, at(name), least, most);
  }
  std::optional<double> number_if(const char* name, double least, double most) const {
    const json* value = find(name);
    if (value == nullptr) return std::nullopt;
    return as_number(name, *value, least, most);
  }
  std::optional<Interval> interval_if(const char* name, double least, double most) const {
    const json* value = find(name);
    if (value == nullptr) return std::nullopt;
    if (!value->is_array() || value->size() != 2)
      fail(fmt::format("field '{}' should be [low, high], not {}", path(name), shown(*value)));
    const Interval interval{as_number(name, (*value)[0], least, most),
                            as_number(name, (*value)[1], least, most)};
    if (interval.low > interval.high)
      fail(fmt::format("field '{}' has its ends the wrong way round", path(name)));
    return interval;
  }
  json object_or_empty(const char* name) const {
    const json* value = find(name);
    if (value == nullptr) return json::object();
    if (!value->is_object())
      fail(fmt::format("field '{}' should be an object, not {}", path(name), shown(*value)));
    return *value;
  }

  std::string as_text(const char* name, const json& value) const {
    if (!value.is_string())
      fail(fmt::format("field '{}' should be a string, not {}", path(name), shown(value)));
    return value.get<std::string>();
  }
  int64_t as_integer(const char* name, const json& value, int64_t least) const {
    const bool fits = value.is_number_unsigned()
                          ? value.get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX)
                          : value.is_number_integer();
    if (!fits || value.get<int64_t>() < least) {
      fail(fmt::format("field '{}' should be an integer of at least {}, not {}", path(name), least,
                       shown(value)));
    }
    return value.get<int64_t>();
  }
  double as_number(const char* name, const json& value, double least, double most) const {
    if (!value.is_number() || !std::isfinite(value.get<double>()) || value.get<double>() < least ||
        value.get<double>() > most) {
      const std::string range = most > 1e300 ? fmt::format("of at least {}", least)
                                             : fmt::format("from {} to {}", least, most);
      fail(
          fmt::format("field '{}' should be a number {}, not {}", path(name), range, shown(value)));
    }
    return value.get<double>();
  }

 private:
  const json& object_;
  std::string where_;
};

constexpr double kHuge = 1e308;

void check_schema(const Reader& reader, const char* expected) {
  const std::string schema = reader.text("schema");
  if (schema != expected) {
    fail(fmt::format("schema {} is not one that this program reads ({})", shown(json(schema)),
                     expected));
  }
}

AttentionRecord parse_attention_record(const json& value) {
  const Reader reader(value, "attention");
  AttentionRecord attention;
  attention.name = reader.text("name");
  attention.label = reader.text_or("label", attention.name);
  attention.options = reader.object_or_empty("options");
  return attention;
}

json finite(double value) { return std::isfinite(value) ? json(value) : json(nullptr); }

template <class T>
void put(json& object, const char* name, const std::optional<T>& value) {
  if (!value) return;
  if constexpr (std::is_floating_point_v<T>) {
    object[name] = finite(*value);
  } else {
    object[name] = *value;
  }
}

json make_interval(const Interval& interval) {
  return json::array({finite(interval.low), finite(interval.high)});
}

json make_attention(const AttentionRecord& attention) {
  return {{"name", attention.name},
          {"label", attention.label.empty() ? attention.name : attention.label},
          {"options", attention.options}};
}

}  // namespace

std::string dumped(const json& value) {
  return value.dump(-1, ' ', true, json::error_handler_t::replace);
}

std::string shown(const json& value) {
  if (value.is_structured()) return value.is_array() ? "an array" : "an object";
  std::string text = dumped(value);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

std::vector<std::string> Result::overridden() const {
  std::vector<std::string> keys;
  const auto it = config.find("overridden");
  if (it == config.end() || !it->is_array()) return keys;
  for (const json& entry : *it) {
    std::string key = entry.is_string() ? entry.get<std::string>() : shown(entry);
    if (key.find('=') == std::string::npos) {
      const json* value = &config;
      std::stringstream parts(key);
      for (std::string part; value != nullptr && std::getline(parts, part, '.');) {
        const bool there = value->is_object() && value->contains(part);
        value = there ? &(*value)[part] : nullptr;
      }
      if (value != nullptr) key += "=" + dumped(*value);
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
  json value = {
      {"accuracy", finite(accuracy.accuracy)},
      {"correct", accuracy.correct},
      {"count", accuracy.count},
      {"ci95", make_interval(empty && valid ? wilson_interval(accuracy.correct, accuracy.count)
                                            : accuracy.ci95)},
      {"by_length", json::array()}};
  for (const LengthAccuracy& bucket : accuracy.by_length) {
    value["by_length"].push_back({{"from", bucket.from},
                                  {"to", bucket.to},
                                  {"accuracy", finite(bucket.accuracy)},
                                  {"count", bucket.count}});
  }
  return value;
}

Accuracy parse_accuracy(const json& value, const std::string& where) {
  const Reader reader(value, where);
  Accuracy accuracy;
  accuracy.accuracy = reader.number("accuracy", 0, 1);
  accuracy.correct = reader.integer("correct", 0);
  accuracy.count = reader.integer("count", 1);
  if (accuracy.correct > accuracy.count) {
    fail(fmt::format("field '{}' is {} of {} examples", reader.path("correct"), accuracy.correct,
                     accuracy.count));
  }
  const double expected =
      static_cast<double>(accuracy.correct) / static_cast<double>(accuracy.count);
  if (std::abs(accuracy.accuracy - expected) > 1e-4) {
    fail(fmt::format("field '{}' is {}, but {} of {} examples make {:.6f}", reader.path("accuracy"),
                     accuracy.accuracy, accuracy.correct, accuracy.count, expected));
  }
  const auto interval = reader.interval_if("ci95", 0, 1);
  accuracy.ci95 = interval ? *interval : wilson_interval(accuracy.correct, accuracy.count);
  if (const json* buckets = reader.find("by_length")) {
    if (!buckets->is_array())
      fail(fmt::format("field '{}' should be an array, not {}", reader.path("by_length"),
                       shown(*buckets)));
    for (const json& bucket : *buckets) {
      const Reader inner(bucket, reader.path("by_length"));
      LengthAccuracy entry{.from = inner.integer("from", 0), .to = inner.integer("to", 0)};
      entry.count = inner.integer("count", 0);
      entry.accuracy = entry.count == 0 ? inner.number_if("accuracy", 0, 1).value_or(0)
                                        : inner.number("accuracy", 0, 1);
      accuracy.by_length.push_back(entry);
    }
  }
  return accuracy;
}

json make_machine(const Machine& machine) {
  return {{"processor", machine.processor},
          {"cores", machine.cores},
          {"memory_gib", finite(machine.memory_gib)},
          {"gpu", machine.gpu.empty() ? json(nullptr) : json(machine.gpu)}};
}

Machine parse_machine(const json& machine) {
  const Reader reader(machine, "machine");
  return {.processor = reader.text_or("processor", ""),
          .cores = reader.integer_if("cores", 0).value_or(0),
          .memory_gib = reader.number_if("memory_gib", 0, kHuge).value_or(0),
          .gpu = reader.text_or("gpu", "")};
}

std::string machine_text(const Machine& machine) {
  std::string text = machine.gpu;
  const auto add = [&text](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  if (!machine.processor.empty()) add(machine.processor);
  if (machine.cores > 0)
    add(fmt::format("{} core{}", machine.cores, machine.cores == 1 ? "" : "s"));
  if (machine.memory_gib > 0) add(fmt::format("{:.0f} GiB", machine.memory_gib));
  return text.empty() ? "unknown machine" : text;
}

json make_result(const Result& result) {
  json value = {{"schema", kResultSchema},
                {"task", result.task},
                {"attention", make_attention(result.attention)},
                {"protocol", result.protocol},
                {"seed", result.seed},
                {"status", result.status}};
  if (!result.reason.empty()) value["reason"] = result.reason;
  if (result.test) value["test"] = make_accuracy(*result.test);
  if (result.dev) value["dev"] = make_accuracy(*result.dev);
  put(value, "best_step", result.best_step);
  put(value, "steps", result.steps);
  put(value, "parameters", result.parameters);
  json training = json::object();
  put(training, "seconds", result.training.seconds);
  put(training, "steps_per_second", result.training.steps_per_second);
  put(training, "tokens_per_second", result.training.tokens_per_second);
  put(training, "peak_memory_mib", result.training.peak_memory_mib);
  value["training"] = training;
  value["data"] = {{"source", result.data.source},
                   {"synthetic", result.data.synthetic},
                   {"fingerprint", result.data.fingerprint}};
  put(value["data"], "majority", result.data.majority);
  value["machine"] = make_machine(result.machine);
  value["software"] = result.software;
  value["config"] = result.config;
  return value;
}

Result parse_result(const json& record) {
  const Reader reader(record, "");
  check_schema(reader, kResultSchema);
  Result result;
  result.task = reader.text("task");
  result.attention = parse_attention_record(reader.at("attention"));
  result.protocol = reader.text("protocol");
  const json& seed = reader.at("seed");
  if (!seed.is_number_unsigned())
    fail("field 'seed' should be an integer of at least 0, not " + shown(seed));
  result.seed = seed.get<uint64_t>();
  result.status = reader.word("status", kStatusWords);
  result.reason = reader.text_or("reason", "");
  const bool ok = result.status == "ok";
  if (ok || reader.find("test")) result.test = parse_accuracy(reader.at("test"), "test");
  if (const json* dev = reader.find("dev")) result.dev = parse_accuracy(*dev, "dev");
  result.best_step = reader.integer_if("best_step", 0);
  result.steps = reader.integer_if("steps", 0);
  result.parameters = reader.integer_if("parameters", 0);
  if (const json* training = reader.find("training")) {
    const Reader inner(*training, "training");
    result.training = {.seconds = inner.number_if("seconds", 0, kHuge),
                       .steps_per_second = inner.number_if("steps_per_second", 0, kHuge),
                       .tokens_per_second = inner.number_if("tokens_per_second", 0, kHuge),
                       .peak_memory_mib = inner.number_if("peak_memory_mib", 0, kHuge)};
  }
  if (ok || reader.find("data")) {
    const Reader inner(reader.at("data"), "data");
    result.data.source = inner.text_or("source", "");
    if (const json* synthetic = inner.find("synthetic")) {
      if (!synthetic->is_boolean())
        fail("field 'data.synthetic' should be true or false, not " + shown(*synthetic));
      result.data.synthetic = synthetic->get<bool>();
    } else if (ok) {
      fail("field 'data.synthetic' is missing");
    }
    result.data.fingerprint = ok ? inner.text("fingerprint") : inner.text_or("fingerprint", "");
    result.data.majority = inner.number_if("majority", 0, 1);
  }
  if (const json* machine = reader.find("machine")) result.machine = parse_machine(*machine);
  result.software = reader.object_or_empty("software");
  result.config = reader.object_or_empty("config");
  return result;
}

json make_profile(const Profile& profile) {
  json value = {{"schema", kProfileSchema}, {"attention", make_attention(profile.attention)},
                {"length", profile.length}, {"batch", profile.batch},
                {"heads", profile.heads},   {"head_dim", profile.head_dim},
                {"scope", profile.scope},   {"mode", profile.mode},
                {"dtype", profile.dtype},   {"device", profile.device},
                {"status", profile.status}, {"reason", profile.reason}};
  if (profile.time) {
    json time = {{"median", finite(profile.time->median)}};
    put(time, "min", profile.time->min);
    put(time, "iqr", profile.time->iqr);
    if (profile.time->ci95) time["ci95"] = make_interval(*profile.time->ci95);
    time["samples"] = json::array();
    for (const double sample : profile.time->samples) time["samples"].push_back(finite(sample));
    value["time_ms"] = time;
  }
  if (profile.memory) {
    json memory = {{"peak", finite(profile.memory->peak)}};
    put(memory, "parameters", profile.memory->parameters);
    put(memory, "analytic", profile.memory->analytic);
    value["memory_mib"] = memory;
  }
  put(value, "flops", profile.flops);
  put(value, "threads", profile.threads);
  if (!profile.protocol.empty()) value["protocol"] = profile.protocol;
  if (!profile.task.empty()) value["task"] = profile.task;
  value["machine"] = make_machine(profile.machine);
  value["software"] = profile.software;
  return value;
}

Profile parse_profile(const json& record) {
  const Reader reader(record, "");
  check_schema(reader, kProfileSchema);
  Profile profile;
  profile.attention = parse_attention_record(reader.at("attention"));
  profile.length = reader.integer("length", 1);
  profile.batch = reader.integer("batch", 1);
  profile.heads = reader.integer("heads", 1);
  profile.head_dim = reader.integer("head_dim", 1);
  profile.scope = reader.word("scope", kScopes);
  profile.mode = reader.word("mode", kModes);
  profile.dtype = reader.text("dtype");
  profile.device = reader.text("device");
  profile.status = reader.word("status", kStatusWords);
  profile.reason = reader.text_or("reason", "");
  const bool ok = profile.status == "ok";
  if (ok || reader.find("time_ms")) {
    const Reader inner(reader.at("time_ms"), "time_ms");
    ProfileTime time{.median = inner.number("median", 0, kHuge),
                     .min = inner.number_if("min", 0, kHuge),
                     .iqr = inner.number_if("iqr", 0, kHuge),
                     .ci95 = inner.interval_if("ci95", 0, kHuge),
                     .samples = {}};
    if (const json* samples = inner.find("samples")) {
      if (!samples->is_array())
        fail("field 'time_ms.samples' should be an array, not " + shown(*samples));
      for (const json& sample : *samples)
        time.samples.push_back(inner.as_number("samples", sample, 0, kHuge));
    }
    profile.time = time;
  }
  if (ok || reader.find("memory_mib")) {
    const Reader inner(reader.at("memory_mib"), "memory_mib");
    profile.memory = ProfileMemory{.peak = inner.number("peak", 0, kHuge),
                                   .parameters = inner.number_if("parameters", 0, kHuge),
                                   .analytic = inner.number_if("analytic", -1, kHuge)};
  }
  profile.flops = reader.number_if("flops", -1, kHuge);
  profile.threads = reader.integer_if("threads", 0);
  profile.protocol = reader.text_or("protocol", "");
  profile.task = reader.text_or("task", "");
  if (const json* machine = reader.find("machine")) profile.machine = parse_machine(*machine);
  profile.software = reader.object_or_empty("software");
  return profile;
}

}  // namespace lra
