#include "harness/fidelity/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness/host/memory.h"
#include "harness/host/runtime.h"
#include "harness/host/signals.h"

namespace lra::fidelity {

Session::Session(const FidelityRequest& request)
    : request_(request),
      machine_(host::machine_of(request.device)),
      trained_(request.run.empty()
                   ? std::nullopt
                   : std::make_optional<TrainedInputs>(request.run, request.data, request.device)),
      file_(request.out) {}

FidelityInputs Session::random(int64_t own_trials, int64_t heads, int64_t length,
                               int64_t own_head_dim) const {
  return random_inputs(request_.trials > 0 ? request_.trials : own_trials, heads, length,
                       request_.head_dim > 0 ? request_.head_dim : own_head_dim, request_.seed,
                       request_.device);
}

std::vector<FidelityInputs> Session::with_trained(int64_t experiment, FidelityInputs given,
                                                  const std::vector<AttentionRecord>& attentions) {
  std::vector<FidelityInputs> all{std::move(given)};
  if (!trained_) return all;
  const int64_t trials = all[0].trials(), length = all[0].length();
  try {
    for (FidelityInputs& layer : trained_->layers(trials, length)) all.push_back(std::move(layer));
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

Fidelity Session::cell(int64_t experiment, const FidelityInputs& inputs, const char* dtype) const {
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
          .software = host::software_json()};
}

void Session::begin(int64_t experiment, const FidelityInputs& inputs, int64_t count) {
  const std::string layer = inputs.layer ? fmt::format(" layer {}", *inputs.layer) : "";
  progress_.emplace(fmt::format("experiment {}, length {}, {}{}", experiment, inputs.length(),
                                inputs.data.source, layer),
                    count);
  done_ = 0;
}

void Session::add(Fidelity record, const std::function<bool(Fidelity&, Measures&)>& work) {
  if (host::stop_requested()) throw host::Interrupted("stopped; the same command goes on");
  if (!file_.has(record)) {
    if (attempt(record, work)) file_.append(record);
  }
  progress_->update(++done_, record.attention.label);
}

bool Session::attempt(Fidelity& record,
                      const std::function<bool(Fidelity&, Measures&)>& work) const {
  host::set_cpu_memory_limit(request_.memory_limit);
  bool wanted = true;
  try {
    Measures measures;
    wanted = work(record, measures);
    for (auto& [name, samples] : measures) {
      const auto wild = std::ranges::count_if(samples, [](double x) { return !std::isfinite(x); });
      if (wild == 0) {
        record.measures.emplace_back(name, estimate_of(std::move(samples)));
        continue;
      }
      record.status = Status::diverged;
      if (!record.reason.empty()) record.reason += "; ";
      record.reason +=
          fmt::format("{}: {} of {} samples are not finite", name, wild, samples.size());
    }
  } catch (const host::Interrupted&) {
    host::set_cpu_memory_limit(0);
    throw;
  } catch (const std::exception& error) {
    record.status = host::status_of(error);
    record.reason = first_line(error);
  }
  host::set_cpu_memory_limit(0);
  return wanted;
}

}  // namespace lra::fidelity
