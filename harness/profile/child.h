// Measuring in a process of its own: the request and the answer.
#pragma once

#include <string>
#include <vector>

#include "harness/profile/profiler.h"
#include "results/records/status.h"

namespace lra::profile {

enum class MeasureKind {
  cell,
  roofline,
  bytes,  // of one call
  room,   // bytes that the device has for tensors
};
constexpr auto names(MeasureKind) { return std::array{"cell", "roofline", "bytes", "room"}; }

/// The request to a measuring process.
struct MeasureRequest {
  MeasureKind kind = MeasureKind::cell;
  ProfileCell cell;
  std::string device;
  int64_t threads = 0, memory_limit = 0, flush_bytes = 0;
  double seconds = 0;
  std::vector<int> processors;  // empty: not pinned

  template <class Fields>
  void fields(Fields& f) {
    f("kind", kind);
    f("cell", cell);
    f("device", device);
    f("threads", threads);
    f("memory_limit", memory_limit);
    f("flush_bytes", flush_bytes);
    f("seconds", seconds);
    f("processors", processors);
  }
};

struct MeasureAnswer {
  json value;                    // null where there is none
  std::optional<Status> status;  // none where it answered
  std::string reason;
};

/// Asks a process of this program, or, for a peer, of another. Throws Interrupted after Ctrl-C.
MeasureAnswer run_in_child(const MeasureRequest& request, double timeout,
                           const std::string& program = "");

/// Bytes of tensors that a cell on `device` may take where no limit is given: 80 % of what is free
/// there. Asked of a GPU in a process of its own. Throws Error where that fails.
int64_t room_on(const std::string& device, double timeout);

/// What the process does with the word that it was given: measures, and prints the answer.
void run_profile_child(const std::string& word);

}  // namespace lra::profile
