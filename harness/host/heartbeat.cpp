#include "harness/host/heartbeat.h"

#include <fmt/format.h>
#include <unistd.h>

#include <condition_variable>
#include <fstream>
#include <mutex>
#include <random>

#include "attention_variants/base/error.h"
#include "attention_variants/base/files.h"
#include "results/records/file_names.h"

namespace lra::host {
namespace {

namespace fs = std::filesystem;

constexpr const char* kBeats = ".beat";  // beside the lock file, which holds its holder

// Containers may share the name of their host, and have the same process numbers.
std::string made(const fs::path& folder) {
  fs::create_directories(folder);
  return fmt::format("{}-{}.{:08x}", host_name(), getpid(), std::random_device()());
}

std::string beat_of(const fs::path& folder, const std::string& name) {
  std::ifstream in(folder / (name + kBeats));
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    if (entry.path().extension() != kBeats && !entry.path().filename().string().starts_with('.'))
      names.push_back(entry.path().filename().string());
  }
  return names;
}

void remove_mark(const fs::path& folder, const std::string& name) {
  std::error_code gone;
  fs::remove(folder / (name + kBeats), gone);
  fs::remove(folder / name, gone);
}

// Marks whose locks are free belong to ended runners, unless their number still goes up.
void check_others(const fs::path& folder, const std::string& own, std::chrono::milliseconds beat) {
  std::vector<std::pair<std::string, std::string>> suspects;  // of other hosts: name, number
  for (const std::string& name : names_in(folder)) {
    if (name == own) continue;
    const std::string number = beat_of(folder, name);
    if (host::lock_holder(folder, name)) continue;
    if (name.substr(0, name.rfind('-')) == host_name()) {
      remove_mark(folder, name);
    } else {
      suspects.emplace_back(name, number);
    }
  }
  if (suspects.empty()) return;
  std::this_thread::sleep_for(3 * beat);
  for (const auto& [name, number] : suspects) {
    // It had its mark, and not yet the lock.
    if (host::lock_holder(folder, name)) continue;
    // Where the mark is gone, another who waited has removed it.
    if (beat_of(folder, name) != number && fs::exists(folder / (name + kBeats))) {
      throw Error(fmt::format(
          "runner {} is at work in {}, but its locks are not seen here: mount that folder on all "
          "hosts with locks (NFS without nolock and local_lock), or run on one host",
          name, folder.parent_path().string()));
    }
    remove_mark(folder, name);
  }
}

}  // namespace

RunnerHeartbeat::RunnerHeartbeat(const fs::path& out, std::chrono::milliseconds beat)
    : folder_(out / kRunnersFolder), name_(made(folder_)), lock_(folder_, name_) {
  beat_ = std::jthread([folder = folder_, name = name_, beat](const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any woken;
    for (int64_t number = 0; !stop.stop_requested(); ++number) {
      std::ofstream(folder / (name + kBeats)) << number;
      std::unique_lock lock(mutex);
      woken.wait_for(lock, stop, beat, [] { return false; });
    }
  });
  try {
    check_others(folder_, name_, beat);
  } catch (...) {
    beat_.request_stop();
    beat_.join();
    remove_mark(folder_, name_);
    throw;
  }
}

RunnerHeartbeat::~RunnerHeartbeat() {
  beat_.request_stop();
  beat_.join();
  remove_mark(folder_, name_);
}

std::vector<LockHolder> runners(const fs::path& out) {
  std::vector<LockHolder> alive;
  for (const std::string& name : names_in(out / kRunnersFolder)) {
    if (auto holder = host::lock_holder(out / kRunnersFolder, name))
      alive.push_back(std::move(*holder));
  }
  return alive;
}

}  // namespace lra::host
