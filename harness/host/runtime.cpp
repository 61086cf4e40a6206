#include "harness/host/runtime.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <omp.h>
#include <torch/version.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <future>
#include <limits>
#include <mutex>
#include <regex>
#include <thread>
#include <vector>

#include "attention_variants/base/end_process.h"
#include "attention_variants/base/fields.h"
#include "attention_variants/ops/cpu_isa.h"
#include "attention_variants/out_of_memory.h"
#include "harness/host/gpu.h"
#include "harness/host/kernel_facts.h"
#include "harness/host/pages.h"
#include "harness/host/progress.h"
#include "harness/host/signals.h"

namespace lra::host {
namespace {

constexpr const char* kCommit = "commit";

// What /proc/cpuinfo says of the first processor under this name, "" where it says nothing.
std::string processor_said(const std::string& name) {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line) && !line.empty();) {
    const size_t colon = line.find(':');
    if (colon == line.npos || colon + 2 >= line.size()) continue;
    if (line.substr(0, line.find_last_not_of(" \t", colon - 1) + 1) == name)
      return line.substr(colon + 2);
  }
  return "";
}

std::string processor_name() {
  const std::string name = processor_said("model name");
  return name.empty() ? "unknown" : name;
}

std::string processor_model() {
  std::string text;
  for (const auto& [name, word] :
       {std::pair("cpu family", "family"), {"model", "model"}, {"stepping", "stepping"}}) {
    if (const std::string said = processor_said(name); !said.empty())
      text += fmt::format("{}{} {}", text.empty() ? "" : " ", word, said);
  }
  return text;
}

int64_t usable_processors() {
  const int64_t allowed = std::ssize(allowed_processors());
  return allowed > 0 ? allowed : sysconf(_SC_NPROCESSORS_ONLN);
}

// Throws where the system starts fewer threads: OpenMP would end the process, or wait for ever.
void check_startable(int64_t count) {
  std::promise<void> all_there;
  const std::shared_future<void> end = all_there.get_future().share();
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(count));
  std::string reason;
  try {
    while (std::ssize(threads) + 1 < count) threads.emplace_back([end] { end.wait(); });
  } catch (const std::exception& error) {
    reason = first_line(error);
  }
  all_there.set_value();
  for (std::thread& thread : threads) thread.join();
  if (!reason.empty()) {
    throw Error(fmt::format(
        "of {} threads the system starts no more than {} ({}); give fewer by --threads, or raise "
        "its limit: of processes (ulimit -u, pids.max of a container) or of memory (ulimit -v)",
        count, threads.size() + 1, reason));
  }
}

// Of those that LibTorch asks for, how many OpenMP gives it.
int64_t threads_given(int64_t asked) {
  std::atomic<int64_t> given{0};
  at::parallel_for(0, asked, 1, [&given](int64_t, int64_t) { ++given; });
  return given;
}

bool denormals_are_zero() {
  volatile float number = std::numeric_limits<float>::min();
  return number * 0.5F == 0;
}

}  // namespace

torch::Device parse_device(const std::string& text) {
  static const std::regex form("cpu|cuda(:[0-9]{1,3})?");
  if (!std::regex_match(text, form))
    throw UsageError("--device should be cpu, cuda or cuda:N, not '" + text + "'");
  torch::Device device(text);
  if (device.is_cpu()) return device;
  const auto count =
      static_cast<int64_t>(torch::cuda::is_available() ? torch::cuda::device_count() : 0);
  if (count == 0) {
    throw Error("--device " + text + ": " +
                (cuda_version() == "off"
                     ? "this program was built without CUDA (LRA_CUDA=on ./run builds it with)"
                     : "no CUDA device is available here") +
                "; use --device cpu");
  }
  if (!device.has_index()) device.set_index(0);
  if (device.index() >= count) {
    throw Error(fmt::format("--device {}: this machine has {} CUDA device(s), cuda:0 to cuda:{}",
                            text, count, count - 1));
  }
  // cuDNN's makes a plan for each new shape, and evaluations have many of them; others need none.
  at::globalContext().setSDPUseCuDNN(false);
  if (!has_own_gpu_kernels()) {
    static std::once_flag said;
    std::call_once(said, [] {
      say("this program's kernels for GPUs want compute capability 8.0 or newer of every visible "
          "GPU (CUDA_VISIBLE_DEVICES): LibTorch's slower operators run instead");
    });
  }
  return device;
}

std::string device_kind(const std::string& device) { return device.substr(0, device.find(':')); }

int64_t set_threads(int64_t threads) {
  constexpr int64_t kMostThreads = 1024;
  if (threads < 0 || threads > kMostThreads) {
    throw UsageError(fmt::format("--threads should be at least 0 and at most {}, not {}",
                                 kMostThreads, threads));
  }
  const int64_t count = threads > 0 ? threads : usable_processors();
  const int64_t most = omp_get_max_active_levels() > 0 ? omp_get_thread_limit() : 1;
  const int64_t given = std::min(count, std::max<int64_t>(most, 1));
  if (given < count && threads > 0) {
    say(
        fmt::format("WARNING: of {} threads OpenMP gives {}, and so many are used and recorded; "
                    "unset OMP_THREAD_LIMIT and OMP_MAX_ACTIVE_LEVELS for more",
                    count, given));
  }
  omp_set_dynamic(0);  // or it gives fewer where the machine has other work
  at::set_num_threads(static_cast<int>(given));
  return given;
}

int64_t use_threads(int64_t threads) {
  const int64_t count = set_threads(threads);
  check_startable(count);
  const int64_t given = threads_given(count);
  if (given == count) return count;
  throw Error(
      fmt::format("of {} threads OpenMP gives {}; ask for no more by --threads", count, given));
}

void flush_denormals() { at::globalContext().setFlushDenormal(true); }

void keep_float32() {
  at::globalContext().setAllowTF32CuDNN(false);
  at::globalContext().setFloat32MatmulPrecision("highest");
}

std::string cudnn_version_text(int64_t number) {
  const int64_t major = number < 10000 ? 1000 : 10000;  // 8902 is 8.9.2
  return fmt::format("{}.{}.{}", number / major, number % major / 100, number % 100);
}

void synchronize(torch::Device device) {
  if (device.is_cuda()) torch::cuda::synchronize(device.index());
}

Status status_of(const std::exception& error) {
  if (is_out_of_memory(error)) return Status::oom;
  const bool refused = dynamic_cast<const Unsupported*>(&error) != nullptr ||
                       dynamic_cast<const UsageError*>(&error) != nullptr;
  return refused ? Status::unsupported : Status::crash;
}

int exit_status(const std::exception& error) {
  if (const auto* interrupted = dynamic_cast<const Interrupted*>(&error))
    return 128 + (interrupted->signal() != 0 ? interrupted->signal() : SIGINT);
  return dynamic_cast<const UsageError*>(&error) != nullptr ? 2 : 1;
}

void open_standard_files() {
  for (int file = STDIN_FILENO; file <= STDERR_FILENO; ++file) {
    // The lowest number that is free, which is this one.
    if (fcntl(file, F_GETFD) == -1 && errno == EBADF && open("/dev/null", O_RDWR) == -1) return;
  }
}

void end_process(int status) {
  if (at::hasCUDA()) std::exit(status);
  end_without_destructors(status);
}

Machine machine_of(torch::Device device) {
  const double bytes =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
  std::string gpu, driver;
  if (device.is_cuda()) {
    gpu = gpu_name(gpu_bus(device.index()).value_or(""));
    driver = gpu_driver();
  }
  static const std::string name = processor_name(),
                           model = processor_model();  // a profile asks often
  return {.processor = name,
          .processor_model = model,
          .cores = sysconf(_SC_NPROCESSORS_ONLN),
          .usable_cores = usable_processors(),
          .memory_gib = std::round(bytes / (1 << 30) * 10) / 10,
          .gpu = gpu,
          .gpu_driver = driver,
          .huge_pages = huge_pages_setting()};
}

std::string compiler_text(std::string_view version) {
  constexpr std::string_view kClang = "Clang ";
  const size_t clang = version.find(kClang);
  if (clang == version.npos) return fmt::format("g++ {}", version);
  return fmt::format("clang++ {}", version.substr(clang + kClang.size()));
}

json software_json() {
  json software = {{"lra", LRA_VERSION},
                   {"torch", TORCH_VERSION},
                   {"compiler", compiler_text(__VERSION__)},
                   {"cpu_capability", at::get_cpu_capability()},
                   {"kernels", ops::cpu_isa()},
                   {"denormals", denormals_are_zero() ? "zero" : "kept"}};
  if (at::hasCUDA()) {
    const auto& cuda = at::detail::getCUDAHooks();
    const long runtime = cuda.versionCUDART();
    software["cuda"] = fmt::format("{}.{}", runtime / 1000, runtime % 1000 / 10);
    // That which is loaded, which may be another than LibTorch was built with.
    if (cuda.compiledWithCuDNN())
      software["cudnn"] = cudnn_version_text(cuda.versionRuntimeCuDNN());
    if (!has_own_gpu_kernels()) software["gpu_kernels"] = "LibTorch's";
  }
  if (*source_commit() != '\0') software[kCommit] = source_commit();
  return software;
}

std::string other_software(const json& software) {
  const json here = software_json();
  for (const auto& [part, value] : software.items()) {
    if (part == kCommit) continue;  // builds of one version go on with each other's work
    if (here.contains(part) && here.at(part) != value) {
      return fmt::format("{} {}, which is {} here", part, text_from_value(value),
                         text_from_value(here.at(part)));
    }
  }
  return "";
}

}  // namespace lra::host
