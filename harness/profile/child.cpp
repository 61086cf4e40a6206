#include "harness/profile/child.h"

#include <fmt/format.h>

#include "attention_variants/base/files.h"
#include "harness/host/child.h"
#include "harness/host/memory.h"
#include "harness/host/runtime.h"
#include "harness/measure/machine_watch.h"
#include "harness/measure/roofline.h"

namespace lra::profile {
namespace {

// Samples of one process: more only make files larger.
constexpr int64_t kMostSamples = 300;

json request_json(const MeasureRequest& request) {
  return {{"kind", to_string(request.kind)},
          {"cell", cell_json(request.cell)},
          {"device", request.device},
          {"threads", request.threads},
          {"memory_limit", request.memory_limit},
          {"flush_bytes", request.flush_bytes},
          {"seconds", request.seconds},
          {"processors", request.processors}};
}

MeasureRequest parse_request(const json& value) {
  return {.kind = parse_name<MeasureKind>(value.at("kind").get<std::string>()).value(),
          .cell = parse_cell(value.at("cell")),
          .device = value.at("device"),
          .threads = value.at("threads"),
          .memory_limit = value.at("memory_limit"),
          .flush_bytes = value.at("flush_bytes"),
          .seconds = value.at("seconds"),
          .processors = value.at("processors")};
}

}  // namespace

MeasureAnswer run_in_child(const MeasureRequest& request, double timeout,
                           const std::string& program) {
  std::vector<std::string> words = {"--child", request_json(request).dump()};
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
  const MeasureRequest request = parse_request(parse_json(word, "--child"));
  // Before the first thread: what each starts with is what it inherits.
  if (!request.processors.empty()) measure::pin_process(request.processors);
  const torch::Device device = host::parse_device(request.device);
  host::use_threads(request.threads);
  if (device.is_cpu() && request.memory_limit > 0)
    host::limit_address_space(request.memory_limit, request.threads);
  json answer;
  if (request.kind == MeasureKind::roofline) {
    const Roofline roofline = measure::measure_roofline(device, dtype_of(request.cell.dtype),
                                                        request.memory_limit, request.seconds);
    answer = {{"gflops", roofline.gflops}, {"gigabytes_per_second", roofline.gigabytes_per_second}};
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
