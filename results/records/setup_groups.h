// Which records of one setting were measured under the same values of its protocol and by the same
// set of kernels.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "attention_variants/base/fields.h"
#include "results/records/machine.h"

namespace lra {

/// The instruction set of the CPU's kernels in a record's `software`; "" where it says none, and
/// for another device, whose work they do not do.
std::string cpu_kernels(const json& software, const std::string& device);

/// The same, and on a GPU "own" or, in a record that says so, "LibTorch's".
std::string kernel_set(const json& software, const std::string& device);

/// The instructions of LibTorch's own kernels, as "AVX2"; "" as in cpu_kernels().
std::string cpu_capability(const json& software, const std::string& device);

/// Machine::processor_model of what the processor did; "" of another device, and where not known.
std::string cpu_model(const Machine& machine, const std::string& device);

/// What a record says of how it was measured, beyond what its table's title does.
struct SetupMarks {
  std::string kernels;       // as kernel_set(); "" = not known
  std::string capability;    // as cpu_capability(); "" = not known
  std::string processor;     // Machine::processor_model; "" = not known
  bool any_kernels = false;  // it uses no kernels of this program, as another package
  std::string values;        // protocol_sha256; "" = not known
  std::string own;           // own_settings_sha256; "" = the protocol has none for the attention
  std::string settings;      // settings_sha256, of this cell alone; "" = not known
  std::string cell;          // what the record is of, as attention and length
  std::string file;          // a file's records without `values` are of one protocol
};

struct SetupGroup {
  std::string cpu;                 // "kernels avx2, LibTorch's AVX2"; "" where all are alike
  std::string values;              // "values 1a2b3c4d"; "" where those are of one group
  std::vector<std::string> notes;  // on what tells it apart, for below a table
  std::vector<size_t> members;     // places in what was given, in their order
};

/// Groups of the same values, kernels, capability and processor. What does not say its values is of
/// the group that holds one of its cells under the same settings, else of the only one there is,
/// unless that holds one of its cells under other settings; and where there are several, of a group
/// that knows none. What does not say its kernels is of the only set there is, and where there are
/// several of a group that knows none; what uses none is of each that has its values, and rows of
/// its file if that has any. So with the other two.
std::vector<SetupGroup> setup_groups(std::span<const SetupMarks> marks);

/// Of two measurements of the same cell: "kernels avx2 before, avx512 now", likewise of LibTorch's
/// and of the processor; "" where they are the same, or one is not known.
std::string other_cpu(const SetupMarks& before, const SetupMarks& now);

/// Of two measurements of the same cell: how the values of their protocols differ,
/// "protocol_sha256 1a2b3c4d before, 5e6f7a8b now"; "" where that is not known.
std::string other_values(const SetupMarks& before, const SetupMarks& now);

}  // namespace lra
