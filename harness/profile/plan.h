// What a profile measures and how: the cells that a preset and the options over it make.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/profile/profiler.h"

namespace lra::profile {

struct ProfilePlan {
  std::vector<ProfileCell> cells;
  std::string peers;          // the program that measures cells of other packages; see peers.h
  std::filesystem::path out;  // JSONL; what it holds is kept, and what it lacks measured
  std::string device = "cpu";
  int64_t threads = 0;       // 0 = all processors
  int64_t memory_limit = 0;  // bytes of tensors on CPUs; 0 = 80 % of what is free then
  int64_t flush_bytes = 0;   // of a GPU's cache, before each sample; 0 = off
  double seconds = 3;        // of samples a cell, over its passes
  double timeout = 600;      // of a process; 0 = none
  int64_t passes = 0;        // processes a cell; a noisy cell gets up to as many again; 0 = 3, or 1
                             // where `seconds` are too few for more
  double max_minutes = 0;    // after these, no pass begins but a cell's first; 0 = no end
  uint64_t seed = 0;         // of the order
  bool pin = true;           // threads to processors
  bool roofline = true;      // measured first, for the records
  bool again = false;        // drop what the file holds of cells that failed or stayed noisy
  // Identities that `again` drops, too: failed cells whose batch is tried out anew.
  std::vector<std::string> dropped;
};

/// An attention to be measured.
struct NamedAttention {
  AttentionSpec attention;
  std::string kept_file;  // that is read in place of its own; "" = none
};

/// The cells that are wanted. Empty, absent or 0: the preset's, or of scope model the protocol's.
struct ProfileRequest {
  std::string preset = "lra", attentions, protocol, task, dtype = "float32";
  std::optional<ProfileScope> scope;
  std::optional<ProfileMode> mode;
  std::string batch;  // samples, "tokens=T" (at most T tokens) or "largest"
  std::vector<int64_t> lengths;
  std::vector<std::string> sets;  // of scope model: "a.b=v" over the protocol
  int64_t heads = 0, head_dim = 0;
  std::vector<NamedAttention> named;  // in place of `attentions`
};

/// `plan` with its threads and passes settled and the cells of `request`, those of `plan.peers`
/// among them. A batch "largest" is tried out in processes of their own. Throws UsageError on wrong
/// names and values.
ProfilePlan plan_profile(const ProfileRequest& request, ProfilePlan plan);

}  // namespace lra::profile
