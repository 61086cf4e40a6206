// Layers of other packages beside the attentions: a program of its own measures them, asked by the
// same plan, so that they run between our own cells and in the same number of processes.
#pragma once

#include <string>
#include <vector>

#include "harness/profile/profiler.h"

namespace lra::profile {

/// What another package has that stands for an attention.
struct Peer {
  std::string name;         // by which the program knows it
  AttentionSpec attention;  // of the same kind and sizes, as its options say
  std::string package;      // "linformer 0.2.3"
  std::vector<std::string> scopes, dtypes;
};

/// What `program --list` says is there: a JSON array of {"peer", "attention", "package", "scopes",
/// "dtypes"}, and of {"peer", "missing"} for what it knows and cannot run, which a message names.
/// Throws UsageError where it says something else, or has nothing.
std::vector<Peer> list_peers(const std::string& program);

/// For each cell, behind it, a cell of each peer whose attention has the same effective options,
/// and that has the cell's scope and number type.
std::vector<ProfileCell> with_peers(const std::vector<ProfileCell>& cells,
                                    const std::vector<Peer>& peers);

/// The record of one pass from what the program answered to `cell`: a line as of `lra profile`, of
/// which status, reason, time, memory and software are taken over. Throws Error on another answer.
Profile peer_record(const json& answer, Profile expected);

}  // namespace lra::profile
