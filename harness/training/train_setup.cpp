#include "harness/training/train_setup.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/host/memory.h"
#include "harness/host/progress.h"
#include "harness/host/runtime.h"
#include "harness/processes/data_parallel.h"
#include "harness/processes/processes.h"
#include "harness/training/evaluation.h"

namespace lra {

namespace {

void check_splits(const PreparedData& data, const Config& config) {
  const EvaluationOptions& e = config.settings.evaluation;
  for (const char* name : kSplits) {
    if (!e.test && std::string(name) == "test") continue;
    const int64_t size = evaluation_split(data, config, name).size(),
                  least = e.drop_last && std::string(name) != "train" ? e.batch : 1;
    if (size < least) {
      throw Error(fmt::format(
          "the {} split has {} samples, fewer than {}{}", name, size, least,
          least > 1 ? ", an evaluation batch: with evaluation.drop_last nothing is left" : ""));
    }
  }
}

bool length_is_overridden(const Config& config) {
  return std::ranges::count(config.overridden, "input.length") > 0;
}

void check_images(const PreparedData& data, const Config& config) {
  const json side = data.manifest().options.value("resolution", json());
  const int64_t length = config.settings.input.length;
  if (!side.is_number_integer() || length_is_overridden(config)) return;
  const int64_t pixels = side.get<int64_t>() * side.get<int64_t>();
  if (pixels <= length) return;
  throw Error(
      fmt::format("the images are {} x {} pixels, of which input.length of protocol {} would keep "
                  "the first {}; give --set input.length={}, or data of another --resolution",
                  side.get<int64_t>(), side.get<int64_t>(), config.protocol, length, pixels));
}

// Of all splits that the run reads.
int64_t longest_sample(const PreparedData& data, const Config& config) {
  int64_t longest = 0;
  for (const char* name : kSplits) {
    if (!config.settings.evaluation.test && std::string(name) == "test") continue;
    const Split& split = data.split(name);
    for (int64_t i = 0; i < split.size(); ++i) longest = std::max(longest, split.length(i));
  }
  return longest;
}

// Labels at positions that are cut off would be lost without a word, and an expression without its
// end has no value.
void check_lengths(const PreparedData& data, const Config& config) {
  const InputOptions& input = config.settings.input;
  const int64_t kept = input.kept();
  const bool whole = task(config.task).whole_samples && !length_is_overridden(config);
  std::vector<int64_t> labels;
  for (const char* name : kSplits) {
    if (!config.settings.evaluation.test && std::string(name) == "test") continue;
    const Split& split = data.split(name);
    const bool labelled =
        split.has_position_labels() && config.settings.training.objective == Objective::classify;
    if (!labelled && !whole) continue;
    for (int64_t i = 0; i < split.size(); ++i) {
      const int64_t length = split.length(i);
      if (length <= kept) continue;
      if (labelled) {
        labels.resize(static_cast<size_t>(length));
        split.copy_labels(i, length, labels.data());
        if (std::all_of(labels.begin() + kept, labels.end(), [](int64_t l) { return l < 0; }))
          continue;
      }
      throw Error(fmt::format(
          "sample {} of the {} split has {} positions{}, of which input.length and input.cut keep "
          "the first {}; give --set input.length={}{}",
          i, name, length, labelled ? ", and labels to its end" : "", kept,
          longest_sample(data, config), input.cut == 0 ? "" : " --set input.cut=0"));
    }
  }
}

}  // namespace

PreparedData open_run_data(const std::filesystem::path& data, const Config& config,
                           bool check_hashes) {
  const bool tested = config.settings.evaluation.test;
  return open_data(data, config.task, check_hashes, config.settings.input.reading(),
                   tested ? OpenedSplits::all : OpenedSplits::all_but_test);
}

void check_data(const PreparedData& data, const Config& config) {
  check_splits(data, config);
  check_images(data, config);
  check_lengths(data, config);
}

std::optional<CutSamples> cut_samples(const PreparedData& data, const Config& config) {
  if (!task(config.task).whole_samples) return std::nullopt;
  CutSamples found{.kept = config.settings.input.kept(), .longest = longest_sample(data, config)};
  if (found.longest <= found.kept) return std::nullopt;
  for (const Split& split : training_splits(data, config)) {
    found.of += split.size();
    for (int64_t i = 0; i < split.size(); ++i) found.cut += split.length(i) > found.kept ? 1 : 0;
  }
  return found;
}

std::string CutSamples::warning(const Config& config) const {
  const InputOptions& input = config.settings.input;
  return fmt::format(
      "WARNING: {} of {} training samples of {} are longer than {} ({}), up to {} tokens, and are "
      "cut: an expression without its end has no value",
      cut, of, config.task, kept < input.length ? "input.cut" : "input.length", kept, longest);
}

void say_cut_samples(const TrainRequest& request) {
  if (!length_is_overridden(request.config)) return;  // check_data() refuses it
  const PreparedData data = open_run_data(request.data, request.config, /*check_hashes=*/false);
  if (const auto found = cut_samples(data, request.config))
    host::say(found->warning(request.config));
}

json run_config_json(const TrainRequest& request, const Manifest& manifest, const json& identity,
                     const std::optional<ContractRecord>& contract) {
  json value = request.config.to_json();
  value["identity"] = identity;
  value["data"] = {{"directory", std::filesystem::absolute(request.data).string()},
                   {"fingerprint", manifest.fingerprint()}};
  RunSetting setting{.device = request.device.str(),
                     .threads = request.threads,
                     .software = host::software_json(),
                     .contract = contract};
  if (request.processes != nullptr) {
    setting.processes = request.processes->size();
    setting.engine = request.processes->engine();
  }
  value.update(make_run_setting(setting));
  return value;
}

void limit_memory(const TrainRequest& request) {
  if (!request.device.is_cpu()) return;
  const int64_t sharers =
      request.processes == nullptr ? 1 : colocated_ranks(*request.processes).on_host;
  const int64_t limit =
      request.memory_limit > 0 ? request.memory_limit : host::default_memory_limit() / sharers;
  host::set_cpu_memory_limit(host::live_bytes(request.device) + limit);
}

int64_t micro_batches_of(const TrainRequest& request) {
  const TrainingOptions& t = request.config.settings.training;
  if (request.processes == nullptr) return 1;
  return micro_batch_count(t.batch, t.micro_batch, request.processes->size());
}

std::unique_ptr<BatchFeed> training_feed(const TrainRequest& request, const PreparedData& data,
                                         int64_t step) {
  LoaderOptions options = loader_options(request.config);
  options.batch = request.config.settings.training.batch;
  if (const Processes* all = request.processes)
    options.samples = share_of(options.batch, all->rank(), all->size());
  options.shuffle = true;
  std::vector<Split> splits = training_splits(data, request.config);
  // A part of a GPU, so that no model runs out of memory for its data.
  const int64_t room = request.device.is_cpu() ? 0
                                               : host::default_memory_limit(request.device) / 4 /
                                                     std::max<int64_t>(request.sharing, 1);
  const FeedKind kind = feed_kind(splits, options, request.device, room);
  return make_feed(kind, std::move(splits), options, request.device, step);
}

}  // namespace lra
