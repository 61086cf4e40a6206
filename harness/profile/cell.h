// One cell of the memory and time tables: what is measured.
#pragma once

#include <string>
#include <vector>

#include "attention_variants/base/profile_scope.h"
#include "attention_variants/registry.h"
#include "attention_variants/torch.h"
#include "lra/config/protocol.h"
#include "results/records/profile.h"

namespace lra::profile {

/// What is measured.
struct ProfileCell {
  AttentionSpec attention;
  int64_t length = 512, batch = 1, heads = 2, head_dim = 32;
  ProfileScope scope = ProfileScope::core;
  ProfileMode mode = ProfileMode::inference;
  ops::Dtype dtype = ops::Dtype::float32;
  std::string protocol = kDefaultProtocol, task;  // of scope model
  std::vector<std::string> sets;                  // of scope model: "a.b=v" over the protocol
  std::string batch_policy;                       // how the batch was chosen; "" = it is fixed
  std::string peer, package;  // another package's layer, and that package; "" = our own attention
  std::string kept_file;      // that is read in place of the attention's own; "" = none

  template <class Fields>
  void fields(Fields& f) {
    f("attention", attention.name);
    f("options", attention.options);
    f("length", length);
    f("batch", batch);
    f("heads", heads);
    f("head_dim", head_dim);
    f("scope", scope);
    f("mode", mode);
    f("dtype", dtype);
    f("protocol", protocol);
    f("task", task);
    f("sets", sets);
    f("batch_policy", batch_policy);
    f("peer", peer);
    f("package", package);
    f("kept_file", kept_file);
  }
};

/// The attention as it is made: of the kept file, where the cell has one.
AttentionSpec made_attention(const ProfileCell& cell);

/// The options of a cell's attention as records hold them: with the file that it is named by.
json with_named_file(const ProfileCell& cell, json options);

/// Every option that its attention runs with, as records hold them; of scope model the protocol's
/// are among them.
json effective_options(const ProfileCell& cell);

/// The cell with the heads it runs with: of scope model the protocol's where `heads` or `head_dim`
/// is 0, and above both what its `sets` say. Throws UsageError where its number type, names,
/// options or settings are wrong.
ProfileCell validated_cell(ProfileCell cell);

/// The record of a cell before anything is measured: what it is, where, and the given options.
Profile profile_record(const ProfileCell& cell, torch::Device device, int64_t threads);

/// Of scope model: the protocol's configuration with the cell's sizes.
Config config_of(const ProfileCell& cell);

/// What a record's protocol_sha256 is, of what the protocol says of a task.
std::string protocol_sha256(const Protocol& protocol, const std::string& task);

}  // namespace lra::profile
