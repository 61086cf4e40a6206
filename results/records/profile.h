// A line of a profile (schema lra.profile/1): time and memory of one cell.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "attention_variants/base/profile_scope.h"
#include "results/records/attention_record.h"
#include "results/records/machine.h"
#include "results/records/status.h"
#include "results/statistics/interval.h"

namespace lra {

inline constexpr const char* kProfileSchema = "lra.profile/1";

/// One process's share of a cell's samples, and what was seen of the machine meanwhile.
struct ProfilePass {
  int64_t samples = 0;           // how many of the cell's samples are its own, in their order
  int64_t warm_up = 0;           // calls before them
  std::optional<double> others;  // part of its processors' time that other work took, 0 to 1
  std::optional<double> mhz;     // of the processor, as the system says
  std::optional<stats::Interval> reference;  // ms of a fixed chain of operations, before and after
  std::optional<double> device_ms;           // median by a GPU's own clock
  std::string noisy;                         // why it is; "" = quiet
};

struct ProfileTime {
  double median = 0;  // milliseconds, as all here
  std::optional<double> min, iqr;
  std::optional<stats::Interval> ci95;  // of the median
  std::vector<double> samples;          // pass after pass
  std::vector<ProfilePass> passes;      // empty: all samples are of one process
};

struct ProfileMemory {
  // MiB of live tensors above the start, inputs and weights excluded; absent where LibTorch cannot
  // tell what a GPU holds.
  std::optional<double> peak;
  std::optional<double> parameters;    // MiB of weights and buffers
  std::optional<double> analytic;      // MiB that the variant's own account says
  std::optional<double> optimizer;     // MiB of the optimizer's state
  std::optional<double> process_peak;  // MiB resident at most in the whole process (VmHWM)
  std::optional<double> reserved;      // MiB that LibTorch held of a GPU at most
  std::optional<double> device;        // MiB in use on that GPU, by all processes
};

/// What a machine reached in this program's own measurement, with the cells' threads and type.
struct Roofline {
  double gflops = 0;                // GFLOP/s of a large matrix product
  double gigabytes_per_second = 0;  // 10^9 bytes a second, read and written, of a large copy
};
json make_roofline(const Roofline& roofline);
Roofline parse_roofline(const json& value);

/// One cell of a profile: one line of a JSONL file.
struct Profile {
  AttentionRecord attention;
  int64_t length = 0, batch = 0, heads = 0, head_dim = 0;  // N, B, H, d: at least 1
  ProfileScope scope = ProfileScope::core;
  ProfileMode mode = ProfileMode::inference;
  std::string dtype;    // "float32"
  std::string device;   // "cpu", "cuda:0"
  std::string package;  // whose code ran, with its version; "" = this program's
  Status status = Status::ok;
  std::string reason;
  std::optional<ProfileTime> time;      // "time_ms"; required where the status is ok
  std::optional<ProfileMemory> memory;  // "memory_mib"; required where the status is ok
  std::string noisy;                    // why the time is not to be trusted; "" = it is
  std::optional<double> flops;          // of one forward
  std::optional<double> least_bytes;    // that one forward must move: inputs, weights and output
  std::optional<Roofline> roofline;
  std::optional<int64_t> threads;
  std::string batch_policy;       // how the batch was chosen, "tokens=16384"; "" = it is fixed
  std::string protocol, task;     // of scope model; "" = absent
  std::vector<std::string> sets;  // of scope model: what differs from the protocol, "a.b=v"
  // Of scope model, "" = not known: of all settings in effect; of the protocol's values for the
  // task, the length left out, as every attention has them; and with those that it has for this
  // attention alone, "" where there are none.
  std::string settings_sha256, protocol_sha256, own_settings_sha256;
  json method = json::object();  // how it was measured: limits, pinning, order
  Machine machine;
  json software = json::object();
  std::string path;  // where it was read from; not written
};

/// Numbers that are not finite become null.
json make_profile(const Profile& profile);
/// Reads a record; throws std::runtime_error that names the field, what was expected and what was
/// found. Unknown keys are passed over: later minor additions do not make old readers fail.
Profile parse_profile(const json& record);

/// The parts that fidelity records hold too: "time_ms" and "memory_mib".
json make_time(const ProfileTime& time);
ProfileTime parse_time(const json& value);
json make_memory(const ProfileMemory& memory);
ProfileMemory parse_memory(const json& value);

}  // namespace lra
