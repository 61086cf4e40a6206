// Processes that work together: they agree on errors, exchange numbers, and end together. An engine
// for each kind of device carries the numbers: MPI between CPUs, NCCL (through LibTorch's c10d)
// between GPUs.
//
// Errors: what one process throws inside run_collective() is thrown by all of them, so that none
// waits for one that is gone. An exception outside a collective aborts all ranks.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "attention_variants/base/error.h"
#include "attention_variants/torch.h"
#include "harness/host/launch.h"

namespace lra {

/// The processes that work together, as one of them sees them. Every member but the plain questions
/// is called by all of them, in the same order.
class Processes {
 public:
  Processes(const host::Launch& launch, std::string engine)
      : launch_(launch), engine_(std::move(engine)) {}
  virtual ~Processes() = default;
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  int64_t rank() const { return launch_.rank; }
  int64_t size() const { return launch_.size; }
  int64_t local_rank() const { return launch_.local_rank; }
  /// The first writes the files and reports.
  bool is_rank_zero() const { return rank() == 0; }
  const std::string& engine() const { return engine_; }  // "mpi" or "nccl"

  /// Replaces the elements of `values` by their sums over all processes: contiguous, float32,
  /// float64 or int64, on the CPU or on the engine's device.
  virtual void sum(const torch::Tensor& values) = 0;
  /// Replaces `values`, contiguous, of any type, by those of process `from`.
  virtual void broadcast(const torch::Tensor& values, int64_t from) = 0;
  /// Ends all processes at once, from any of them.
  [[noreturn]] virtual void abort(int status) = 0;

  /// One number of each process, in their order.
  std::vector<int64_t> gather(int64_t mine);

  /// Calls `work` on every process and returns when all are done. Where any of them throws, all
  /// throw: the same kind of error (UsageError, Unsupported, Interrupted, std::bad_alloc where
  /// memory ran out, else Error) with the message of the first that did, which it names where the
  /// others are well. Not to be nested.
  void run_collective(const std::function<void()>& work);
  /// True after run_collective() has thrown: all know of the error.
  bool agreed() const { return agreed_; }

 private:
  host::Launch launch_;
  std::string engine_;
  bool agreed_ = false;
};

/// `work` by run_collective(), or alone where `processes` is null.
void run_collective(Processes* processes, const std::function<void()>& work);
/// The same, but only the first process works.
void on_rank_zero(Processes* processes, const std::function<void()>& work);
/// True in the first process, and where there is only one.
inline bool is_rank_zero(const Processes* processes) {
  return processes == nullptr || processes->is_rank_zero();
}

/// Throws Error in all processes where `digest` is not the same in all; `what` says of what, as
/// "the model at step 400".
void check_same(Processes& processes, const std::string& digest, const std::string& what);

/// How many of the processes run on this host, and how many of these on the same processors.
struct Neighbours {
  int64_t on_host = 1, on_processors = 1;
};
Neighbours colocated_ranks(Processes& processes);

/// Threads of each process where `asked` are (0 = its part of all processors it may use, and no
/// more than any other process): sets LibTorch's threads and returns their number.
int64_t use_threads(int64_t asked, Processes* processes);

/// The device that an option's text means for this process: of several, "cuda" is the GPU of its
/// number on its host.
torch::Device own_device(const std::string& text, const Processes* processes);

/// The GPU of a process: that of its local rank, or the only one that CUDA_VISIBLE_DEVICES leaves
/// it, as launchers do that bind GPUs to processes. Throws Error where it is not there.
torch::Device gpu_of_rank(int64_t local_rank);

/// Runs `work` as one of the processes that a launcher started, or alone with null. Where it fails
/// the first process says so (a lone failure is said by the process that has it, and ends the
/// others), then all throw AlreadyReported. The others never show progress. `device` is the
/// option's text. Throws UsageError or Error where the processes cannot work together.
void run_together(const std::string& device, const std::function<void(Processes*)>& work);

/// An error that has been said.
class AlreadyReported : public std::exception {
 public:
  explicit AlreadyReported(int status) : status_(status) {}
  int status() const { return status_; }
  const char* what() const noexcept override { return "said already"; }

 private:
  int status_;
};

/// True where another process says what this one would, for an error that all have before they know
/// of each other: it has then had its time.
bool rank_zero_reports();

// ---- The engines ----

/// Throws Error where this program was built without MPI, or MPI knows of another number of
/// processes than the launcher.
std::unique_ptr<Processes> start_mpi(const host::Launch& launch);
/// "Open MPI v4.1.4", or "none".
std::string mpi_version();

/// Processes on GPUs, of which this one has cuda:<local rank>; they find each other at
/// MASTER_ADDR:MASTER_PORT. Throws UsageError where these are not set, Error where this program was
/// built without NCCL.
std::unique_ptr<Processes> start_nccl(const host::Launch& launch);
/// "2.28.9", or "none".
std::string nccl_version();

/// What to say where this program was built without the engine.
Error without_engine(const host::Launch& launch, const std::string& engine);

}  // namespace lra
