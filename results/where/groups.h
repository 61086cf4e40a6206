// Which steps taken apart stand beside each other, and their time by kind of work and by part.
#pragma once

#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "results/where/record.h"

namespace lra {

/// What the time of a step that is in no op is called among kinds and parts.
inline constexpr const char* kOutside = "in no op";

/// Steps that may be compared: all but the attention in common, the machine, the set of the
/// CPU's kernels and the values of the protocol too.
struct WhereGroup {
  // "listops N=2048, batch 32, training, protocol lra-strict, float32, ..."; where protocols of one
  // name have other values, "protocol mine (values 1a2b3c4d)", and where other kernels measured the
  // same, "cpu, kernels avx2".
  std::string setting;
  std::vector<std::string> notes;  // on what tells it apart from others of the same setting
  std::vector<std::pair<std::string, const Where*>> rows;  // by name, the shortest step first
};

/// In the order of their settings. An attention that was measured again is a row of its own,
/// "nystrom (2)".
std::vector<WhereGroup> where_groups(std::span<const Where> records);

using WhereSums = std::map<std::string, double>;  // by name: ms of a step, kOutside among them

/// The ops' own times, summed. An op of no part is in "no part".
WhereSums sums_by_kind(const Where& record);
WhereSums sums_by_part(const Where& record);

/// Of the recorded step without what the recording took, a fraction.
double share_of_step(double ms, const Where& record);

}  // namespace lra
