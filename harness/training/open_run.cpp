#include "harness/training/open_run.h"

#include <fmt/format.h>

#include "attention_variants/base/files.h"
#include "attention_variants/base/json_text.h"
#include "attention_variants/base/own_file.h"
#include "harness/training/resume.h"
#include "harness/training/run_folder.h"

namespace lra {
namespace {

std::string no_checkpoint_text(const std::filesystem::path& run, const std::string& name) {
  const std::string lacks = run.string() + " has no " + name;
  if (!std::filesystem::exists(run / kResultFile))
    return lacks + " yet; the same lra train with --resume goes on with the run";
  const Result result = read_result(run / kResultFile);
  if (result.status != Status::ok) {
    return lacks + ": the run ended as " + to_string(result.status) + " before it had one (" +
           result.reason + ")";
  }
  return lacks + ", though the run has ended; the same lra train with --overwrite makes it anew";
}

json saved_run(const std::filesystem::path& run) {
  if (std::filesystem::exists(run / kConfigFile)) {
    return read_json_object(run / kConfigFile, "the configuration of a run",
                            "; put it back, or train anew with --overwrite");
  }
  throw Error(run.string() + " is not a run folder (no " + kConfigFile + "); lra train --run " +
              run.string() + " makes one");
}

struct KeptData {
  std::string directory, fingerprint;
};

KeptData data_of(const json& saved, const std::filesystem::path& run) {
  const std::string where = (run / kConfigFile).string() + ": data";
  const json data = saved.value("data", json::object());
  if (!data.is_object())
    throw Error(where + " should be a JSON object, not " + printable_json(data));
  return {.directory = text_under(data, "directory", where),
          .fingerprint = text_under(data, "fingerprint", where)};
}

TrainedModel load_model(const std::filesystem::path& run, Config config, const json& identity,
                        CheckpointKind checkpoint, torch::Device device) {
  Config modelled = config;
  modelled.attention_options = with_kept_file(config.attention_options, run);
  auto model = read_own(
      [&] {
        return std::make_shared<Model>(task(config.task, config.settings.input.reading()),
                                       modelled);
      },
      (run / kConfigFile).string());
  model->to(device);
  const auto file =
      checkpoint == CheckpointKind::best ? best_checkpoint(run) : run / kLastCheckpoint;
  if (!std::filesystem::exists(file))
    throw Error(no_checkpoint_text(run, file.filename().string()));
  const TrainState at = load_checkpoint(file, identity, *model, nullptr, device);
  return {std::move(config), std::move(model), at};
}

}  // namespace

TrainedModel open_model(const std::filesystem::path& run, CheckpointKind checkpoint,
                        torch::Device device) {
  const json saved = saved_run(run);
  Config config = Config::from_json(saved, (run / kConfigFile).string());
  const json identity = run_identity(config, data_of(saved, run).fingerprint);
  return load_model(run, std::move(config), identity, checkpoint, device);
}

std::string attention_of(const std::filesystem::path& run) {
  if (!std::filesystem::is_regular_file(run / kConfigFile)) return "";
  const json config = saved_run(run);
  const json::json_pointer name("/attention/name");
  return config.contains(name) && config[name].is_string() ? config[name].get<std::string>() : "";
}

OpenedRun open_run(const std::filesystem::path& run, const std::filesystem::path& data,
                   CheckpointKind checkpoint, torch::Device device, OpenedSplits wanted) {
  const json saved = saved_run(run);
  Config config = Config::from_json(saved, (run / kConfigFile).string());
  const KeptData kept = data_of(saved, run);
  const std::filesystem::path folder = data.empty() ? kept.directory : data.string();
  if (!std::filesystem::exists(folder / config.task)) {
    if (const std::string above = folder_above(data, config.task); !above.empty())
      throw Error(above);
    throw Error(data.empty() ? "the run's data are no longer in " + folder.string() +
                                   "; say where they are with --data"
                             : fmt::format("--data {} holds no {}, which {} is of", folder.string(),
                                           config.task, run.string()));
  }
  if (config.settings.evaluation.dev == DevSplit::test) wanted = OpenedSplits::all;
  PreparedData opened = open_data(folder, config.task, /*check_hashes=*/true,
                                  config.settings.input.reading(), wanted);
  const json identity = run_identity(config, opened.manifest().fingerprint());
  const std::string& trained_on = kept.fingerprint;
  if (!trained_on.empty() && trained_on != opened.manifest().fingerprint()) {
    throw Error(fmt::format(
        "{} is of other data (fingerprint {}) than those in {} ({}); give with --data the folder "
        "that it was trained on, or a copy",
        run.string(), trained_on.substr(0, 8), (folder / config.task).string(),
        opened.manifest().fingerprint().substr(0, 8)));
  }
  return {load_model(run, std::move(config), identity, checkpoint, device), std::move(opened)};
}

}  // namespace lra
