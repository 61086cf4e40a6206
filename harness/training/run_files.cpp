#include "harness/training/run_files.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include "attention_variants/base/files.h"
#include "harness/host/runtime.h"
#include "results/statistics/statistics.h"

namespace lra {

json run_identity(const Config& config, const Manifest& manifest) {
  json identity = config_identity(config.to_json());
  identity["fingerprint"] = manifest.fingerprint();
  return identity;
}

json accuracy_json(const Evaluation& evaluation, int64_t length) {
  constexpr int64_t kClasses = 8;
  const int64_t width = (length + kClasses - 1) / kClasses;
  std::map<int64_t, std::pair<int64_t, int64_t>> classes;  // class -> correct, count
  for (size_t i = 0; i < evaluation.labels.size(); ++i) {
    auto& [correct, count] = classes[std::max<int64_t>(evaluation.lengths[i] - 1, 0) / width];
    correct += evaluation.labels[i] == evaluation.predicted[i] ? 1 : 0;
    ++count;
  }
  Accuracy accuracy{
      .accuracy = evaluation.accuracy(), .correct = evaluation.correct, .count = evaluation.count};
  for (const auto& [index, counts] : classes) {
    accuracy.by_length.push_back(
        {.from = index * width + 1,
         .to = std::min((index + 1) * width, length),
         .accuracy = static_cast<double>(counts.first) / static_cast<double>(counts.second),
         .count = counts.second});
  }
  return make_accuracy(accuracy);
}

Accuracy accuracy_record(const json& accuracy) { return parse_accuracy(accuracy, "accuracy"); }

Result result_of(const TrainRequest& request, const Manifest& manifest, const Split& test) {
  Result result;
  result.task = request.config.task;
  result.attention = {.name = request.config.attention.name,
                      .label = request.config.attention.text(),
                      .options = request.config.attention_options};
  result.protocol = request.config.protocol;
  result.seed = request.config.seed;
  result.data = {.source = manifest.source,
                 .synthetic = manifest.synthetic,
                 .fingerprint = manifest.fingerprint()};
  std::map<int64_t, int64_t> labels;
  for (int64_t i = 0; i < test.size(); ++i) ++labels[test.label(i)];
  int64_t most = 0;
  for (const auto& [label, count] : labels) most = std::max(most, count);
  if (test.size() > 0)
    result.data.majority = static_cast<double>(most) / static_cast<double>(test.size());
  result.machine = machine_of(request.device);
  result.software = software_json();
  return result;
}

std::optional<int64_t> threads_of_run(const std::filesystem::path& run) {
  std::ifstream in(run / kConfigFile);
  const json value = json::parse(in, nullptr, /*allow_exceptions=*/false);
  if (!value.is_object() || !value.contains("threads") || !value["threads"].is_number_integer())
    return std::nullopt;
  return value["threads"].get<int64_t>();
}

Result read_result(const std::filesystem::path& path) {
  try {
    return parse_result(read_json(path));
  } catch (const std::runtime_error& error) {
    if (dynamic_cast<const Error*>(&error) != nullptr) throw;  // names the file already
    throw Error(path.string() + ": " + error.what());
  }
}

void cut_metrics(const std::filesystem::path& path, const TrainState& at) {
  if (!std::filesystem::exists(path)) return;
  std::istringstream in(read_file(path));
  std::string kept;
  for (std::string line; std::getline(in, line);) {
    const json value = json::parse(line, nullptr, /*allow_exceptions=*/false);
    const bool counted =
        value.is_object() && value.contains("step") && value["step"].is_number_integer();
    if (!counted || value["step"].get<int64_t>() > at.step) continue;
    const bool pending = at.evaluation_pending && value["step"].get<int64_t>() == at.step &&
                         value.value("split", json()) == "dev";
    if (!pending) kept += line + "\n";
  }
  write_file(path, kept);
}

}  // namespace lra
