// What the end of a cell's process means for its cell.
#pragma once

#include <string>

#include "harness/host/child.h"
#include "results/records/status.h"

namespace lra::suite {

/// All that is known when the process of a cell has ended.
struct EndOfTry {
  host::ChildStatus child;
  std::optional<Status> status;  // of the result it left
  std::string last_line;         // of what it wrote, "" where that is not known
  bool new_checkpoint = false;   // it wrote one
  bool stopping = false;         // the runner was asked to stop
  int64_t tries = 0;             // that ended before without a new checkpoint, in a row
};

struct Outcome {
  enum class Next {
    done,   // its result stands
    fail,   // it left none: `status` and `reason` are to be recorded
    retry,  // once more
    leave,  // it was asked to stop: a later runner of the suite continues it
  } next = Next::done;
  Status status = Status::ok;
  std::string reason;
  std::string ended;  // the try, for tries.log
  int64_t tries = 0;  // as EndOfTry::tries, with this one
};

/// `most_tries`: without a new checkpoint, then it is a crash. `timeout`: of the cell, in seconds.
Outcome outcome_of(const EndOfTry& end, int64_t most_tries, double timeout);

/// Why a cell is "timeout".
std::string timeout_reason(double timeout);

}  // namespace lra::suite
