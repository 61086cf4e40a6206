#include "harness/training/pretraining.h"

#include <fmt/format.h>

#include <map>
#include <string_view>
#include <utility>

#include "attention_variants/base/files.h"
#include "attention_variants/base/json_text.h"
#include "attention_variants/registry.h"
#include "harness/processes/processes.h"
#include "harness/steps/trained_groups.h"
#include "harness/training/console.h"
#include "harness/training/run_folder.h"
#include "harness/training/train_setup.h"

namespace lra {

namespace fs = std::filesystem;

namespace {

// The best checkpoint of a run folder, or the file itself.
fs::path checkpoint_of(const fs::path& given) {
  const auto refuse = [&](const std::string& what) {
    throw Error("--init-from " + given.string() + ": " + what);
  };
  if (fs::is_regular_file(given)) return given;
  if (!fs::is_directory(given)) refuse("there is no such run folder or checkpoint");
  fs::path best = best_checkpoint(given);
  if (!fs::exists(best)) {
    refuse(std::string("it has no ") + kBestCheckpoint +
           " (yet); give the folder of a run that has evaluated, or a checkpoint");
  }
  return best;
}

// How far its run had come, which may be beyond the best step.
TrainState progress_of(const fs::path& given, const Checkpoint& checkpoint) {
  const fs::path last = given / kLastCheckpoint;
  return fs::is_directory(given) && fs::exists(last) ? read_checkpoint(last).at : checkpoint.at;
}

// The effective options but for the place of a file, which its SHA-256 stands for.
json own_options(const json& identity) {
  json options = identity.value(json::json_pointer("/attention/options"), json::object());
  if (options.contains("sha256")) options.erase("file");
  return options;
}

// Settings that change what a model makes of the same tensors.
constexpr const char* kReadsWeights[] = {"heads",     "head_dim",    "block",       "gate",
                                         "encoder",   "positions",   "rotary_base", "norm",
                                         "norm_kind", "norm_eps",    "gelu",        "pixel_mean",
                                         "pixel_sd",  "pixel_means", "pixel_sds"};

std::string text_at(const json& config, const char* at, const std::string& otherwise) {
  return config.value(json::json_pointer(at), otherwise);
}

// What the layers take for a token: all, which have two settings, or by which input.mask. Images
// fill their positions.
std::string tokens_read(const json& config) {
  const std::string mask = text_at(config, "/input/mask", to_string(InputMask::length));
  const bool counted =
      text_at(config, "/model/padding", to_string(Padding::masked)) == to_string(Padding::counted);
  const bool filled =
      task(text_at(config, "/task", "")).image && mask == to_string(InputMask::length);
  return counted || filled ? to_string(InputMask::none) : mask;
}

// Throws where a setting of the model is another, whose default may be left out.
void check_same_setting(const std::string& where, const char* key, const json& there,
                        const json& here) {
  const json::json_pointer at(std::string("/model/") + key);
  const json theirs = there.value(at, json()), own = here.value(at, json());
  if (theirs == own) return;
  const auto value = [](const json& v) { return v.is_null() ? "the default" : v.dump(); };
  throw Error(fmt::format("{}: its model.{} is {}, not {}; give the same", where, key,
                          value(theirs), value(own)));
}

// Throws where padding would be read as what it was not.
void check_same_padding(const std::string& where, const std::string& attention, const json& there,
                        const json& here) {
  const std::string read = tokens_read(here);
  if (read != tokens_read(there)) {
    const auto said = [](const json& config) {
      return fmt::format("input.mask {} and model.padding {}",
                         text_at(config, "/input/mask", to_string(InputMask::length)),
                         text_at(config, "/model/padding", to_string(Padding::masked)));
    };
    throw Error(fmt::format("{}: it was trained with {}, and this run has {}; give the same", where,
                            said(there), said(here)));
  }
  if (read == to_string(InputMask::none)) return;
  if (attention_entry(attention).info.uniform_padding)
    check_same_setting(where, "padded_rows", there, here);
  if (read == to_string(InputMask::nonzero) &&
      text_at(here, "/model/pooling", "") == to_string(Pooling::cls))
    check_same_setting(where, "cls_mask", there, here);
}

// Throws where the weights would be read as what they are not.
void check_same_model(const std::string& where, const json& there, const json& here) {
  const auto refuse = [&](const std::string& what) { throw Error(where + ": " + what); };
  const auto text = [](const json& config, const char* at) {
    return config.value(json::json_pointer(at), std::string());
  };
  const std::string task = text(there, "/task"), attention = text(there, "/attention/name");
  if (task != text(here, "/task")) {
    refuse(fmt::format("it was trained on {}, whose tokens are not those of {}; give a run of {}",
                       task, text(here, "/task"), text(here, "/task")));
  }
  if (attention != text(here, "/attention/name")) {
    refuse(fmt::format("its attention is {}, not {}; give --attention {}, or another run",
                       attention, text(here, "/attention/name"), attention));
  }
  const std::string different = differences_text(own_options(there), own_options(here));
  if (!different.empty()) {
    refuse(fmt::format("its {} has other options ({}); give the same", attention, different));
  }
  for (const char* key : kReadsWeights) check_same_setting(where, key, there, here);
  check_same_padding(where, attention, there, here);
  const json::json_pointer causal("/model/causal");
  const bool was = there.value(causal, false), is = here.value(causal, false);
  const std::string moves = moving_in_causal_form(attention, own_options(here));
  if (was != is && !moves.empty()) {
    refuse(
        fmt::format("its model.causal is {}, not {}, and with {} the weights of {} are of other "
                    "positions there; give the same",
                    was, is, moves, attention));
  }
  // It was trained on what chooses here, and chosen by what is tested here.
  const json::json_pointer dev("/evaluation/dev");
  if (there.value(dev, json()) == to_string(DevSplit::test) &&
      here.value(dev, json()) != to_string(DevSplit::test))
    refuse("it has seen dev and test (evaluation.dev test); give a run that has not");
}

// Throws where the origin's training may have seen what is tested here.
void check_same_data(const std::string& where, const json& identity,
                     const std::string& fingerprint) {
  const std::string there = identity.value("fingerprint", std::string());
  if (there == fingerprint) return;
  throw Error(fmt::format(
      "{}: it was trained on other data (fingerprint {}) than those of --data ({}), and may have "
      "seen what is tested here; give the data that it had, or a run on these",
      where, there.empty() ? "unknown" : there.substr(0, 12), fingerprint.substr(0, 12)));
}

PretrainingRecord record_of(const fs::path& given, const Checkpoint& checkpoint) {
  const TrainState at = progress_of(given, checkpoint);
  const json& config = checkpoint.config;
  PretrainingRecord record;
  record.path = given.string();
  record.sha256 = checkpoint.sha256;
  record.objective =
      config.value(json::json_pointer("/training/objective"), to_string(Objective::classify));
  record.step = checkpoint.at.step;
  record.steps = at.step;
  record.samples = at.step * config.value(json::json_pointer("/training/batch"), int64_t{0});
  record.seconds = at.seconds;
  return record;
}

PretrainingRecord recorded(const json& value, const fs::path& file) {
  try {
    return parse_pretraining_record(value);
  } catch (const std::runtime_error& error) {
    throw Error(file.string() + ": " + error.what());
  }
}

bool is_head(const std::string& name) { return name.starts_with("classifier."); }

// Of the objective, and so of one side alone.
bool may_lack(const std::string& name) { return is_head(name) || name == "hidden"; }

using State = std::map<std::string, torch::Tensor>;

State state_of(const Model& model) {
  State state;
  for (const auto& item : model.named_parameters()) state[item.key()] = item.value();
  for (const auto& item : model.named_buffers()) state[item.key()] = item.value();
  return state;
}

State state_of(const Checkpoint& checkpoint) {
  constexpr std::string_view kPrefix = "model.";
  State state;
  for (const auto& [name, tensor] : checkpoint.file.tensors) {
    if (name.starts_with(kPrefix)) state[name.substr(kPrefix.size())] = tensor;
  }
  return state;
}

// Names in the record what of `there` a model of the state `here` takes and leaves, and what it
// starts anew. Throws where a tensor but of the head is not in both, or is of another shape.
void match(const State& there, const State& here, const std::string& where,
           PretrainingRecord& record) {
  const auto refuse = [&](const std::string& what) {
    throw Error(where + ": " + what +
                "; give the settings of model and input that it had, model.causal too");
  };
  record.taken = record.left = record.fresh = {};
  for (const auto& [name, tensor] : there) {
    const auto at = here.find(name);
    if (is_head(name) || (at == here.end() && may_lack(name))) {
      record.left.push_back(name);
      continue;
    }
    if (at == here.end()) refuse("this model has no tensor " + name);
    if (at->second.sizes() != tensor.sizes() || at->second.scalar_type() != tensor.scalar_type()) {
      refuse(fmt::format("its tensor {} is {}, that of this model {}", name, shape_text(tensor),
                         shape_text(at->second)));
    }
    record.taken.push_back(name);
  }
  for (const auto& [name, tensor] : here) {
    if (!is_head(name) && there.contains(name)) continue;
    if (!may_lack(name)) refuse("it has no tensor " + name + ", which this model has");
    record.fresh.push_back(name);
  }
}

// Before hours of the first run: that the second can start from it.
void check_runs_fit(const Config& first, const Config& second) {
  const auto made = [](const Config& config) {
    Model model(task(config.task, config.settings.input.reading()), config);
    trained_groups(model, config.settings.optimizer);  // throws where a pattern matches nothing
    return state_of(model);
  };
  PretrainingRecord record;
  check_same_model("pretraining", first.to_json(), second.to_json());
  match(made(first), made(second), "pretraining", record);
}

// A result of the run that never came to be, as the one before it failed: tables count it among
// the runs of the configuration that was asked for.
void write_failure(const TrainRequest& request, const fs::path& first) {
  Result result = read_result(first / kResultFile);
  result.reason = fmt::format("{}: {}", kPretrainingFolder, result.reason);
  result.config = request.config.to_json();
  result.config.erase("pretrained");
  result.metric.clear();
  result.dev.reset();
  result.best_step.reset();
  write_json(request.run / kResultFile, make_result(result), Links::replace);
}

}  // namespace

std::optional<Origin> origin_of(const TrainRequest& request, const std::string& fingerprint) {
  const fs::path& given = request.init_from;
  if (given.empty()) return std::nullopt;
  const fs::path config_file = request.run / kConfigFile;
  json before;  // what a run that is continued says
  if (request.resume == Resume::yes && has_begun(request.run) && fs::exists(config_file)) {
    const json saved = read_json(config_file);
    if (saved.is_object()) before = saved.value("pretrained", json());
    if (before.is_object() && before.value("path", std::string()) == given.string())
      return Origin{.record = recorded(before, config_file), .checkpoint = std::nullopt};
    if (!fs::exists(given)) {
      throw Error(fmt::format(
          "{} holds a run that did not start from {}; use the same options, another --run folder, "
          "or --overwrite",
          request.run.string(), given.string()));
    }
  }
  Checkpoint checkpoint = read_checkpoint(checkpoint_of(given));
  check_same_model("--init-from " + given.string(), config_identity(checkpoint.config),
                   config_identity(request.config.to_json()));
  check_same_data("--init-from " + given.string(), checkpoint.config, fingerprint);
  if (before.is_object() && before.value("sha256", std::string()) == checkpoint.sha256)
    return Origin{.record = recorded(before, config_file), .checkpoint = std::nullopt};
  PretrainingRecord record = record_of(given, checkpoint);
  return Origin{.record = std::move(record), .checkpoint = std::move(checkpoint)};
}

TrainRequest with_origin(TrainRequest request, const std::optional<Origin>& origin) {
  if (origin) request.config.pretrained = make_pretraining_record(origin->record);
  return request;
}

void start_from(Origin& origin, Model& model, Config& config) {
  const std::string where = "--init-from " + origin.record.path;
  const State there = state_of(origin.checkpoint.value());
  State here = state_of(model);
  match(there, here, where, origin.record);
  for (const std::string& name : origin.record.taken)
    assign_tensor(here.at(name), there.at(name), name, where);
  config.pretrained = make_pretraining_record(origin.record);
  say_origin(origin.record);
  origin.checkpoint.reset();
}

Status train(const TrainRequest& request) {
  if (request.config.settings.pretraining.empty()) return train_run(request);
  if (!request.init_from.empty()) {
    throw UsageError("--init-from applies to runs without pretraining of their own; protocol " +
                     request.config.protocol + " and --set ask for it (pretraining)");
  }
  TrainRequest second = request;
  second.init_from = request.run / kPretrainingFolder;
  if (request.resume == Resume::yes && has_begun(request.run)) return train_run(second);
  TrainRequest first = request;
  first.config = pretraining_config(request.config);
  check_runs_fit(first.config, request.config);
  if (request.resume != Resume::yes) {
    // What the folder holds is refused, or removed, before the first of two runs.
    on_rank_zero(request.processes, [&] {
      check_data(open_run_data(request.data, request.config, /*check_hashes=*/false),
                 request.config);
      RunFolder before(request.run, json::object(), request.resume, Access::write);
      if (!request.event_files.empty()) make_event_folder(request.event_files);
      before.clear();
    });
  } else {
    // How the run that comes first ended before; of the second RunFolder removes it.
    on_rank_zero(request.processes, [&] {
      if (!fs::exists(request.run / kBestCheckpoint)) fs::remove(request.run / kResultFile);
    });
  }
  first.run = second.init_from;
  if (!first.event_files.empty()) first.event_files /= kPretrainingFolder;
  say_pretraining(first.config, request.config);
  const Status status = train_run(first);
  if (status == Status::ok) return train_run(second);
  on_rank_zero(request.processes, [&] { write_failure(request, first.run); });
  return status;
}

}  // namespace lra
