#include "harness/processes/processes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <new>
#include <thread>

#include "attention_variants/out_of_memory.h"
#include "harness/host/folder_lock.h"
#include "harness/host/kernel_facts.h"
#include "harness/host/progress.h"
#include "harness/host/runtime.h"
#include "harness/host/signals.h"

namespace lra {
namespace {

enum class Failure : int64_t { none, error, usage, unsupported, interrupted, memory };

Failure failure_of(const std::exception& error) {
  if (is_out_of_memory(error)) return Failure::memory;
  if (dynamic_cast<const host::Interrupted*>(&error) != nullptr) return Failure::interrupted;
  if (dynamic_cast<const Unsupported*>(&error) != nullptr) return Failure::unsupported;
  if (dynamic_cast<const UsageError*>(&error) != nullptr) return Failure::usage;
  return Failure::error;
}

// What a process tells the others of its failure; all bits zero where there is none.
struct Told {
  Failure failure = Failure::none;
  int signal = 0;  // that asked it to stop

  int64_t bits() const { return static_cast<int64_t>(failure) | int64_t{signal} << 8; }
  static Told of(int64_t bits) {
    return {static_cast<Failure>(bits & 0xff), static_cast<int>(bits >> 8)};
  }
};

Told told_of(const std::exception& error) {
  const auto* interrupted = dynamic_cast<const host::Interrupted*>(&error);
  return {failure_of(error), interrupted != nullptr ? interrupted->signal() : 0};
}

// The memory of another process, or of this one.
class OutOfMemory : public std::bad_alloc {
 public:
  explicit OutOfMemory(std::string message) : message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  std::string message_;
};

[[noreturn]] void raise(Failure failure, const std::string& message, int signal) {
  switch (failure) {
    case Failure::memory:
      throw OutOfMemory(message);
    case Failure::interrupted:
      throw host::Interrupted(message, signal);
    case Failure::unsupported:
      throw Unsupported(message);
    case Failure::usage:
      throw UsageError(message);
    default:
      throw Error(message);
  }
}

std::string broadcast_text(Processes& processes, const std::string& text, int64_t from) {
  const int64_t size = processes.gather(static_cast<int64_t>(text.size()))[from];
  torch::Tensor bytes = torch::zeros({size}, torch::kUInt8);
  auto* letters = reinterpret_cast<char*>(bytes.data_ptr<uint8_t>());
  if (processes.rank() == from) std::copy(text.begin(), text.end(), letters);
  if (size > 0) processes.broadcast(bytes, from);
  return {letters, static_cast<size_t>(size)};
}

// A number that is the same for equal texts; 0 for none.
int64_t number_of(const std::string& text) {
  return static_cast<int64_t>(std::hash<std::string>{}(text) >> 1);
}

std::string processors_text() {
  return fmt::format("{}", fmt::join(host::allowed_processors(), ","));
}

std::unique_ptr<Processes> start(const host::Launch& launch, const std::string& device) {
  if (device.starts_with("cuda")) {
    if (device != "cuda") {
      throw UsageError(fmt::format(
          "--device {} names one GPU for {} processes; say --device cuda, and each takes the GPU "
          "of its number on its host",
          device, launch.size));
    }
    return start_nccl(launch);
  }
  if (launch.by == host::Launcher::torchrun) {
    throw UsageError(fmt::format(
        "WORLD_SIZE={} starts processes on GPUs, with --device cuda; on CPUs use mpirun -n {} "
        "lra ..., or unset WORLD_SIZE for a process on its own",
        launch.size, launch.size));
  }
  return start_mpi(launch);
}

}  // namespace

std::vector<int64_t> Processes::gather(int64_t mine) {
  torch::Tensor numbers = torch::zeros({size()}, torch::kInt64);
  auto* data = numbers.data_ptr<int64_t>();
  data[rank()] = mine;
  sum(numbers);
  return {data, data + size()};
}

void Processes::run_collective(const std::function<void()>& work) {
  Told mine;
  std::string message;
  try {
    work();
  } catch (const std::exception& error) {
    mine = told_of(error);
    message = first_line(error);
  }
  std::vector<Told> all;
  for (const int64_t bits : gather(mine.bits())) all.push_back(Told::of(bits));
  const auto first = std::ranges::find_if(
      all, [](Failure failure) { return failure != Failure::none; }, &Told::failure);
  if (first == all.end()) return;
  agreed_ = true;
  const int64_t from = first - all.begin();
  message = broadcast_text(*this, message, from);
  const bool everybody = std::ranges::count(all, first->failure, &Told::failure) == size();
  // One of them was asked, and all end as it does.
  raise(first->failure,
        everybody ? message : fmt::format("process {} of {}: {}", from, size(), message),
        std::ranges::max(all, {}, &Told::signal).signal);
}

void run_collective(Processes* processes, const std::function<void()>& work) {
  if (processes == nullptr) {
    work();
  } else {
    processes->run_collective(work);
  }
}

void on_rank_zero(Processes* processes, const std::function<void()>& work) {
  run_collective(processes, [&] {
    if (is_rank_zero(processes)) work();
  });
}

void check_same(Processes& processes, const std::string& digest, const std::string& what) {
  const std::vector<int64_t> all = processes.gather(number_of(digest));
  processes.run_collective([&] {
    for (size_t i = 1; i < all.size(); ++i) {
      if (all[i] == all[0]) continue;
      throw Error(fmt::format(
          "{} is not the same in processes 0 and {}; all hosts need the same program, data, kind "
          "of processor and run folder; --resume goes on from the last checkpoint",
          what, i));
    }
  });
}

Neighbours colocated_ranks(Processes& processes) {
  const std::string host = host::host_name();
  const auto like_mine = [&](const std::string& text) {
    return std::ranges::count(processes.gather(number_of(text)), number_of(text));
  };
  return {.on_host = like_mine(host), .on_processors = like_mine(host + processors_text())};
}

int64_t use_threads(int64_t asked, Processes* processes) {
  int64_t all = 0;
  run_collective(processes, [&] { all = host::use_threads(asked); });
  if (processes == nullptr || asked > 0) return all;
  const int64_t mine = std::max<int64_t>(all / colocated_ranks(*processes).on_processors, 1);
  return host::use_threads(std::ranges::min(processes->gather(mine)));
}

torch::Device own_device(const std::string& text, const Processes* processes) {
  if (processes == nullptr || text != "cuda") return host::parse_device(text);
  return gpu_of_rank(processes->local_rank());
}

torch::Device gpu_of_rank(int64_t local_rank) {
  const bool bound = host::environment_variable("CUDA_VISIBLE_DEVICES").has_value() &&
                     torch::cuda::is_available() && torch::cuda::device_count() == 1;
  return host::parse_device(fmt::format("cuda:{}", bound ? 0 : local_rank));
}

bool rank_zero_reports() {
  std::optional<host::Launch> launch;
  try {
    launch = host::find_launch();
  } catch (const UsageError&) {  // it is what is to be said
  }
  if (!launch || launch->rank == 0) return false;
  // A launcher ends all when it sees one end with an error.
  std::this_thread::sleep_for(std::chrono::seconds(2));
  return true;
}

void run_together(const std::string& device, const std::function<void(Processes*)>& work) {
  const std::optional<host::Launch> launch = host::find_launch();
  if (!launch) return work(nullptr);
  const bool quiet = host::is_quiet();
  if (launch->rank > 0) host::set_quiet(true);
  const auto say_alone = [&](const std::exception& error) {
    host::say_error(
        fmt::format("process {} of {}: {}", launch->rank, launch->size, first_line(error)));
  };
  std::unique_ptr<Processes> processes;
  try {
    processes = start(*launch, device);
  } catch (const std::exception& error) {
    // Of another host's devices and libraries rank 0 knows nothing; what was asked for it does.
    if (launch->rank > 0 && dynamic_cast<const UsageError*>(&error) == nullptr) say_alone(error);
    if (rank_zero_reports()) throw AlreadyReported(host::exit_status(error));
    throw;
  }
  try {
    work(processes.get());
  } catch (const std::exception& error) {
    const int status = host::exit_status(error);
    if (processes->agreed()) {
      if (processes->is_rank_zero()) host::say_error(first_line(error));
      processes.reset();  // not before: a launcher ends the others when it sees one end so
      throw AlreadyReported(status);
    }
    say_alone(error);
    processes->abort(status);
  }
  host::set_quiet(quiet);
}

Error without_engine(const host::Launch& launch, const std::string& engine) {
  return Error(fmt::format(
      "{} started {} processes, but this lra was built without {}; see docs/parallel.md for what "
      "to install, then build it again, or start it alone",
      launch.by, launch.size, engine));
}

}  // namespace lra
