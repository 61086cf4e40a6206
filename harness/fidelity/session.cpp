#include "harness/fidelity/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>

#include "attention_variants/out_of_memory.h"
#include "harness/host/runtime.h"
#include "harness/host/signals.h"

namespace lra::fidelity {

Session::Session(const FidelityRequest& request)
    : request_(request),
      limited_(request.memory_limit),
      machine_(host::machine_of(request.device)),
      trained_(request.run.empty()
                   ? std::nullopt
                   : std::make_optional<TrainedInputs>(request.run, request.data, request.device)),
      file_(request.out) {}

InputSizes Session::asked(InputSizes own) const {
  if (request_.trials > 0) own.trials = request_.trials;
  if (request_.head_dim > 0) own.head_dim = request_.head_dim;
  return own;
}

std::optional<FidelityInputs> Session::random(
    int64_t experiment, const InputSizes& own, const std::vector<AttentionRecord>& attentions,
    const std::function<void(const FidelityInputs&)>& prepare) {
  const InputSizes sizes = asked(own);
  try {
    FidelityInputs inputs = random_inputs(sizes.trials, sizes.heads, sizes.length, sizes.head_dim,
                                          request_.seed, request_.device);
    if (prepare) prepare(inputs);
    return inputs;
  } catch (const std::exception& error) {
    if (!is_out_of_memory(error)) throw;
    add_failed(experiment, sizes, {}, attentions);
    return std::nullopt;
  }
}

std::vector<FidelityInputs> Session::with_trained(int64_t experiment, const InputSizes& own,
                                                  const std::vector<AttentionRecord>& attentions) {
  std::vector<FidelityInputs> all;
  if (auto given = random(experiment, own, attentions)) all.push_back(std::move(*given));
  if (!trained_) return all;
  InputSizes sizes = asked(own);
  try {
    for (FidelityInputs& layer : trained_->layers(sizes.trials, sizes.length))
      all.push_back(std::move(layer));
  } catch (const std::exception& error) {
    if (dynamic_cast<const Unsupported*>(&error) == nullptr && !is_out_of_memory(error)) throw;
    host::say(fmt::format("--run: nothing of experiment {} at length {}: {}", experiment,
                          sizes.length, first_line(error)));
    sizes.heads = trained_->heads();
    sizes.head_dim = trained_->head_dim();
    add_failed(experiment, sizes, trained_->data(), attentions);
  }
  return all;
}

void Session::add_failed(int64_t experiment, const InputSizes& sizes, const FidelityData& data,
                         const std::vector<AttentionRecord>& attentions) {
  const std::exception_ptr error = std::current_exception();
  FidelityInputs none;  // of these sizes, in one number's memory
  none.q = torch::zeros({1}).expand({sizes.trials, sizes.heads, sizes.length, sizes.head_dim});
  none.data = data;
  begin(experiment, none, std::ssize(attentions));
  for (const AttentionRecord& attention : attentions) {
    Fidelity record = cell(experiment, none, "float32");
    record.attention = attention;
    add(record, [&](Fidelity&, Measures&) -> bool { std::rethrow_exception(error); });
  }
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
    if (record.status == Status::crash) {
      crashed_.push_back(fmt::format("{} at length {} (experiment {}): {}", record.attention.label,
                                     record.length, record.experiment, record.reason));
    }
  }
  progress_->update(++done_, record.attention.label);
}

bool Session::attempt(Fidelity& record,
                      const std::function<bool(Fidelity&, Measures&)>& work) const {
  bool wanted = true;
  try {
    Measures measures;
    wanted = work(record, measures);
    if (!wanted) return false;
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
    throw;
  } catch (const std::exception& error) {
    record.status = host::status_of(error);
    record.reason = first_line(error);
  }
  return wanted;
}

}  // namespace lra::fidelity
