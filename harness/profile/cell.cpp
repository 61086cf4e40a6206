#include "harness/profile/cell.h"

#include <fmt/format.h>

#include "attention_variants/base/files.h"
#include "harness/host/runtime.h"
#include "lra/config/protocol.h"

namespace lra::profile {
namespace {

// In later versions with more settings.
std::string values_sha256(const Settings& settings) {
  json values = config_identity(write_fields(with_rates(settings)));
  values.at("input").erase("length");
  return sha256(values.dump());
}

// What the protocol says, by which records of others of its name are told apart.
void add_protocol(const ProfileCell& cell, Profile& record) {
  const Protocol protocol = load_protocol(cell.protocol);
  record.protocol = protocol.name;
  record.protocol_sha256 = protocol_sha256(protocol, cell.task);
  if (entry_settings(protocol, cell.task, cell.attention).empty()) return;
  const AttentionSpec meant = meant_attention(protocol, cell.task, cell.attention);
  record.own_settings_sha256 = values_sha256(task_settings(protocol, cell.task, entry_name(meant)));
}

}  // namespace

std::string protocol_sha256(const Protocol& protocol, const std::string& task) {
  return values_sha256(task_settings(protocol, task));
}

Config config_of(const ProfileCell& cell) {
  std::vector<std::string> sets = {fmt::format("input.length={}", cell.length)};
  if (cell.heads > 0) sets.push_back(fmt::format("model.heads={}", cell.heads));
  if (cell.head_dim > 0) sets.push_back(fmt::format("model.head_dim={}", cell.head_dim));
  sets.insert(sets.end(), cell.sets.begin(), cell.sets.end());
  return make_config(load_protocol(cell.protocol), cell.task, cell.attention, sets, /*seed=*/0,
                     to_string(cell.dtype), cell.kept_file);
}

AttentionSpec made_attention(const ProfileCell& cell) {
  AttentionSpec made = cell.attention;
  if (!cell.kept_file.empty()) made.options["file"] = cell.kept_file;
  return made;
}

json with_named_file(const ProfileCell& cell, json options) {
  if (!cell.kept_file.empty()) options["file"] = cell.attention.options.at("file");
  return options;
}

json effective_options(const ProfileCell& cell) {
  const AttentionSpec made = made_attention(cell);
  return with_named_file(cell, cell.scope == ProfileScope::model
                                   ? config_of(cell).attention_options
                                   : attention_entry(made.name).effective_options(made.options));
}

ProfileCell validated_cell(ProfileCell cell) {
  attention_entry(cell.attention.name).effective_options(made_attention(cell).options);
  if (cell.scope != ProfileScope::model) {
    if (!cell.sets.empty())
      throw UsageError("--set applies to --scope model alone; the other scopes have no protocol");
    return cell;
  }
  if (cell.dtype == ops::Dtype::float64)
    throw UsageError("--scope model runs in float32 or bfloat16 (autocast), not in float64");
  const Settings settings = config_of(cell).settings;
  if (settings.input.length != cell.length) {
    throw UsageError(fmt::format("--set input.length={}: the lengths to measure are --lengths",
                                 settings.input.length));
  }
  cell.heads = settings.model.heads;
  cell.head_dim = settings.model.head_dim;
  return cell;
}

Profile profile_record(const ProfileCell& cell, torch::Device device, int64_t threads) {
  Profile record;
  record.attention = {.name = cell.attention.name, .label = cell.attention.text()};
  record.length = cell.length;
  record.batch = cell.batch;
  record.batch_policy = cell.batch_policy;
  record.heads = cell.heads;
  record.head_dim = cell.head_dim;
  record.scope = cell.scope;
  record.mode = cell.mode;
  record.dtype = to_string(cell.dtype);
  record.device = device.str();
  record.threads = threads;
  record.machine = host::machine_of(device);
  record.software = host::software_json();
  if (cell.scope != ProfileScope::model) {
    record.attention.options = effective_options(cell);
  } else {
    const Config config = config_of(cell);
    record.attention = {.name = config.attention.name,
                        .label = config.attention.text(),
                        .options = with_named_file(cell, config.attention_options)};
    add_protocol(cell, record);
    record.task = cell.task;
    record.sets = cell.sets;
    record.settings_sha256 = sha256(write_fields(config.settings).dump());
  }
  if (!cell.peer.empty()) {
    record.package = cell.package;
    record.attention.options = json::object();  // it has its own, by other names
  }
  return record;
}

}  // namespace lra::profile
