#include "harness/profile/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include "attention_variants/base/text.h"
#include "harness/host/folder_lock.h"
#include "harness/host/progress.h"
#include "harness/host/runtime.h"
#include "harness/profile/child.h"
#include "harness/profile/peers.h"
#include "harness/profile/profiler.h"
#include "harness/profile/store.h"
#include "lra/config/preset.h"
#include "lra/config/protocol.h"
#include "lra/data/task.h"
#include "results/analysis/changed_settings.h"
#include "results/analysis/profile_cells.h"

namespace lra::profile {
namespace {

// How the batch of each cell is found.
struct BatchRule {
  enum class Kind { fixed, tokens, largest } kind = Kind::fixed;
  int64_t count = 0;   // of samples or tokens
  std::string policy;  // for the records

  // `inputs`: sequences of a sample.
  int64_t batch(int64_t length, int64_t inputs) const {
    if (kind != Kind::tokens) return count;
    if (count < length * inputs) {
      throw UsageError(
          fmt::format("--batch {}: one sample of --lengths {} has more tokens", policy, length));
    }
    return count / (length * inputs);
  }
};

// Under so many seconds a cell, more than one process is not worth its start.
constexpr double kRough = 0.1;

constexpr const char* kTokens = "tokens=";
constexpr const char* kLargest = "largest";

BatchRule parse_batch(const std::string& text) {
  if (text == kLargest) return {.kind = BatchRule::Kind::largest, .policy = kLargest};
  const bool tokens = text.starts_with(kTokens);
  const std::string digits = tokens ? text.substr(std::string(kTokens).size()) : text;
  const int64_t count = whole_number<int64_t>(digits).value_or(0);
  if (count < 1 || count > int64_t{1} << 24) {
    throw UsageError(
        "--batch should be a number of samples, tokens=T (as many as have at most T tokens) or "
        "largest (the most that fits --memory-limit), not '" +
        text + "'");
  }
  if (!tokens) return {.count = count};
  return {.kind = BatchRule::Kind::tokens, .count = count, .policy = text};
}

// An option (0 = not given) beside what a --set made of it.
void check_given(const char* option, int64_t given, const char* key, int64_t used) {
  if (given > 0 && given != used) {
    throw UsageError(fmt::format("{} {} and --set {}={} contradict each other: give one of them",
                                 option, given, key, used));
  }
}

ops::Dtype parse_dtype(const std::string& word) {
  const auto dtype = parse_name<ops::Dtype>(word);
  if (!dtype)
    throw UsageError("--dtype should be float32, float64 or bfloat16, not '" + word + "'");
  return *dtype;
}

// A step of a profile is one batch through the model and AdamW: a setting that it does not read
// would name a table of what was not measured. `from` says where the words stand.
void check_read(const std::vector<std::string>& sets, const std::string& from) {
  const bool coloured = std::ranges::any_of(
      sets, [](const std::string& set) { return word_sets(set, "input.colours"); });
  for (const std::string& set : sets) {
    const std::string key = split_override(set).first;
    if (key == "input.mask" && coloured) continue;  // colours ask for another one than pixel 0's
    if (key == "training.batch")
      throw UsageError(fmt::format("{} {}: of a profile it is --batch", from, key));
    if (key.starts_with("model.") || key == "input.brackets" || key == "input.colours" ||
        key == "input.length" || key == "kernels" || key == "training.objective")
      continue;
    throw UsageError(
        fmt::format("{} {}: a profile is of whole samples and reads model.*, input.brackets, "
                    "input.colours, kernels and training.objective alone; the time of a whole "
                    "training is in the records of lra train",
                    from, key));
  }
}

// What all cells of a request have in common; `length`, `batch` and `attention` are still to come.
ProfileCell common_cell(const ProfileRequest& given, const Preset& preset) {
  ProfileCell cell{.heads = preset.heads,
                   .head_dim = preset.head_dim,
                   .scope = given.scope.value_or(preset.scope),
                   .mode = given.mode.value_or(preset.mode),
                   .dtype = parse_dtype(given.dtype),
                   .protocol = given.protocol.empty() ? preset.protocol : given.protocol,
                   .task = !given.task.empty()    ? task(given.task).name
                           : !preset.task.empty() ? preset.task
                                                  : tasks().front()->name};
  if (cell.scope == preset.scope) {
    cell.sets = preset.set_words();
  } else if (cell.scope == ProfileScope::model) {
    cell.heads = cell.head_dim = 0;  // the protocol's
  } else {
    if (cell.heads == 0) cell.heads = kHeads;
    if (cell.head_dim == 0) cell.head_dim = kHeadDim;
  }
  // What is given later stands.
  cell.sets.insert(cell.sets.end(), given.sets.begin(), given.sets.end());
  if (given.heads > 0) cell.heads = given.heads;
  if (given.head_dim > 0) cell.head_dim = given.head_dim;
  return cell;
}

// The largest power of two, at most 65,536, that calls of `cell` as a batch keep within
// `memory_limit` bytes, weights and inputs included; 0 where one sample is too much. Tried out in
// processes of their own.
int64_t largest_batch(const ProfileCell& cell, const ProfilePlan& plan, int64_t memory_limit) {
  const auto bytes = [&](int64_t batch) -> std::optional<int64_t> {
    MeasureRequest request{.kind = MeasureKind::bytes,
                           .cell = cell,
                           .device = plan.device,
                           .threads = plan.threads,
                           .memory_limit = memory_limit};
    request.cell.batch = batch;
    const MeasureAnswer answer = run_in_child(request, plan.timeout);
    // What fails with one sample says so itself when it is measured.
    if (answer.value.is_null() && answer.status != Status::oom && batch > 1) {
      throw Error(
          fmt::format("--batch largest: {} N={} with batch {} ended in {} ({}), so what "
                      "fits is not known: give {}--batch as a number",
                      cell.attention.text(), cell.length, batch, *answer.status, answer.reason,
                      answer.status == Status::timeout ? "more --timeout, or " : ""));
    }
    if (answer.value.is_null() || answer.value.at("bytes").is_null()) return std::nullopt;
    const int64_t told = answer.value.at("bytes");
    if (told < 0) {
      throw Error("this LibTorch cannot tell what " + plan.device +
                  " holds: give --batch as a number, or take LibTorch 2.9 or later");
    }
    return told;
  };
  // Bytes are about a constant and a part that grows with the batch: two small batches tell both.
  const std::optional<int64_t> one = bytes(1), two = bytes(2);
  if (!one || *one > memory_limit) return 0;
  int64_t batch = 1;
  while (batch < 65536 && two &&
         *one + (2 * batch - 1) * std::max<int64_t>(*two - *one, 0) <= memory_limit)
    batch *= 2;
  // The highest of several moments may be another one at that size.
  const auto fits = [&] {
    const std::optional<int64_t> all = bytes(batch);
    return all && *all <= memory_limit;
  };
  while (batch > 2 && !fits()) batch /= 2;
  return batch;
}

// What an earlier call into the same file has of the cell with the batch that it found, or null:
// what fits is other from minute to minute, and the cell would be another one.
const Profile* found_before(ProfileCell cell, const ProfilePlan& plan,
                            const std::vector<Profile>& records) {
  const torch::Device device = host::parse_device(plan.device);
  for (const Profile& record : records) {
    if (record.batch_policy != cell.batch_policy || record.length != cell.length) continue;
    cell.batch = record.batch;
    if (identity(profile_record(cell, device, plan.threads)) == identity(record)) return &record;
  }
  return nullptr;
}

void find_largest_batches(ProfilePlan& plan) {
  std::optional<host::FolderLock> lock;  // taken now: work that cannot be written is in vain
  if (!plan.out.empty()) lock.emplace(host::FolderLock::of_file(plan.out));
  const std::vector<Profile> records =
      std::filesystem::exists(plan.out) ? read_profile(plan.out) : std::vector<Profile>();
  const int64_t limit =
      plan.memory_limit > 0 ? plan.memory_limit : room_on(plan.device, plan.timeout);
  for (ProfileCell& cell : plan.cells) {
    if (const Profile* known = found_before(cell, plan, records)) {
      if (!plan.again || known->status == Status::ok) {
        cell.batch = known->batch;
        continue;
      }
      plan.dropped.push_back(identity(*known));
    }
    cell.batch = 1;
    cell.batch = std::max<int64_t>(largest_batch(cell, plan, limit), 1);
    host::say(fmt::format("{} N={}: batch {}", cell.attention.text(), cell.length, cell.batch));
  }
}

std::vector<NamedAttention> asked_attentions(const ProfileRequest& request, const Preset& preset) {
  if (!request.named.empty()) return request.named;
  std::vector<NamedAttention> asked;
  for (AttentionSpec& attention :
       attentions_of(request.attentions.empty() ? preset.attentions : request.attentions))
    asked.push_back({.attention = std::move(attention), .kept_file = ""});
  return asked;
}

// Two spellings of one attention would be measured against each other.
void check_meant_once(const std::vector<ProfileCell>& cells) {
  std::map<std::string, std::string> names;  // by what is meant
  for (const ProfileCell& cell : cells) {
    if (cell.length != cells.front().length) continue;
    const bool of_model = cell.scope == ProfileScope::model;
    const AttentionSpec spec = of_model ? config_of(cell).attention : cell.attention;
    const std::string name = cell.attention.text();
    const auto [it, is_new] =
        names.try_emplace(attention_key(spec.name, effective_options(cell)), name);
    if (!is_new) {
      throw UsageError(fmt::format("--attentions: {} and {} are one attention{}: give one",
                                   it->second, name,
                                   of_model ? " under protocol " + cell.protocol : ""));
    }
  }
}

}  // namespace

ProfilePlan plan_profile(const ProfileRequest& request, ProfilePlan plan) {
  const Preset preset = load_preset(request.preset);
  const ProfileCell common = common_cell(request, preset);
  const Protocol protocol = load_protocol(common.protocol);
  const int64_t usual =
      preset.batch > 0 ? preset.batch : task_settings(protocol, common.task).training.batch;
  BatchRule batch = request.batch.empty() ? BatchRule{.count = usual} : parse_batch(request.batch);
  if (batch.kind == BatchRule::Kind::largest && plan.memory_limit > 0)
    batch.policy +=
        fmt::format(" within {} MiB", static_cast<double>(plan.memory_limit) / (1 << 20));
  const bool batched = !request.batch.empty() || preset.batch > 0;
  if (common.scope != ProfileScope::model && batched && !request.protocol.empty())
    throw UsageError(
        "--protocol applies to --scope model alone, or where nothing else gives the batch");
  if (common.scope != ProfileScope::model && batched && !request.task.empty())
    throw UsageError(
        "--task applies to --scope model alone, or where nothing else gives the batch");
  plan.threads = host::set_threads(plan.threads);
  if (plan.passes == 0) plan.passes = plan.seconds < kRough ? 1 : 3;
  const std::vector<NamedAttention> attentions = asked_attentions(request, preset);
  const int64_t inputs = common.scope == ProfileScope::model ? task(common.task).inputs : 1;
  for (const int64_t length : request.lengths.empty() ? preset.lengths : request.lengths) {
    for (const auto& [attention, kept_file] : attentions) {
      ProfileCell cell = common;
      cell.attention = attention;
      cell.kept_file = kept_file;
      cell.length = length;
      cell.batch = batch.batch(length, inputs);
      cell.batch_policy = batch.policy;
      cell = validated_cell(std::move(cell));
      check_given("--heads", request.heads, "model.heads", cell.heads);
      check_given("--head-dim", request.head_dim, "model.head_dim", cell.head_dim);
      plan.cells.push_back(std::move(cell));
    }
  }
  check_read(preset.set_words(), fmt::format("preset {}: set", preset.name));
  check_read(request.sets, "--set");
  check_meant_once(plan.cells);
  // Only now, as it is work: what is wrong was found above.
  if (batch.kind == BatchRule::Kind::largest) find_largest_batches(plan);
  if (!plan.peers.empty()) {
    const size_t own = plan.cells.size();
    plan.cells = with_peers(plan.cells, list_peers(plan.peers));
    if (plan.cells.size() == own) {
      host::say(
          fmt::format("--peers {}: none of its packages has these attentions in scope {} and "
                      "{}; see {} --list",
                      plan.peers, common.scope, common.dtype, plan.peers));
    }
  }
  return plan;
}

}  // namespace lra::profile
