#include "harness/profile/child.h"

#include <fmt/format.h>

#include "attention_variants/base/files.h"
#include "harness/host/child.h"
#include "harness/host/memory.h"
#include "harness/host/runtime.h"
#include "harness/measure/machine_watch.h"
#include "harness/measure/roofline.h"
#include "lra/data/task.h"

namespace lra::profile {
namespace {

// Samples of one process: more only make files larger.
constexpr int64_t kMostSamples = 300;

// The request, and to a peer that is a model what it is to build.
std::string request_text(const MeasureRequest& request) {
  json value = write_fields(request);
  const ProfileCell& cell = request.cell;
  if (!cell.peer.empty() && cell.scope == ProfileScope::model) {
    const Settings settings = config_of(cell).settings;
    const Task info = task(cell.task, settings.input.reading());
    value["cell"]["model"] = {{"vocabulary", info.vocabulary},
                              {"classes", info.classes},
                              {"inputs", info.inputs},
                              {"labels", info.position_labels ? "positions" : "samples"},
                              {"objective", settings.training.objective},
                              {"sizes", write_fields(settings.model)}};
  }
  return value.dump();
}

}  // namespace

MeasureAnswer run_in_child(const MeasureRequest& request, double timeout,
                           const std::string& program) {
  std::vector<std::string> words = {"--child", request_text(request)};
  if (program.empty()) words.insert(words.begin(), "profile");
  const host::ChildStatus ended = host::run_child(
      words, {.environment = request.processors.empty()
                                 ? std::vector<std::pair<std::string, std::string>>{}
                                 : measure::pinned_environment(request.processors),
              .timeout = timeout,
              .capture = true,
              .program = program,
              .oom_preferred = true});
  if (ended.timed_out)
    return {.value = nullptr,
            .status = Status::timeout,
            .reason = fmt::format("took longer than {:g} s", timeout)};
  if (ended.out_of_memory)
    return {.value = nullptr, .status = Status::oom, .reason = host::kKilledForMemory};
  if (ended.signal != 0 || ended.exit != 0)
    return {.value = nullptr, .status = Status::crash, .reason = ended.text(ended.err)};
  try {
    return {.value = parse_json(host::last_line(ended.out), "a measuring process's answer"),
            .status = std::nullopt,
            .reason = ""};
  } catch (const Error& error) {
    return {.value = nullptr, .status = Status::crash, .reason = error.what()};
  }
}

int64_t room_on(const std::string& device, double timeout) {
  if (host::parse_device(device).is_cpu()) return host::default_memory_limit();
  const MeasureAnswer answer =
      run_in_child({.kind = MeasureKind::room, .device = device, .threads = 1}, timeout);
  if (answer.value.is_null())
    throw Error(fmt::format("--device {}: its memory cannot be asked: {}", device, answer.reason));
  return answer.value.at("bytes").get<int64_t>();
}

void run_profile_child(const std::string& word) {
  MeasureRequest request;
  read_fields(parse_json(word, "--child"), request, "--child");
  // Before the first thread: what each starts with is what it inherits.
  if (!request.processors.empty()) measure::pin_process(request.processors);
  const torch::Device device = host::parse_device(request.device);
  host::use_threads(request.threads);
  if (device.is_cpu() && request.memory_limit > 0)
    host::limit_address_space(request.memory_limit, request.threads);
  json answer;
  if (request.kind == MeasureKind::roofline) {
    answer = make_roofline(measure::measure_roofline(device, dtype_of(request.cell.dtype),
                                                     request.memory_limit, request.seconds));
  } else if (request.kind == MeasureKind::room) {
    answer = {{"bytes", host::default_memory_limit(device)}};
  } else if (request.kind == MeasureKind::bytes) {
    answer = {{"bytes", nullptr}};  // more than there is
    try {
      answer["bytes"] = peak_bytes_of_call(request.cell, device, request.memory_limit);
    } catch (const std::exception& error) {
      if (host::status_of(error) != Status::oom) throw;
    }
  } else {
    answer = make_profile(profile_cell(request.cell, device, request.threads, request.memory_limit,
                                       {.seconds = request.seconds,
                                        .fewest = 1,
                                        .most = kMostSamples,
                                        .flush_bytes = request.flush_bytes},
                                       request.processors));
  }
  fmt::print("{}\n", answer.dump());
}

}  // namespace lra::profile
