#include "harness/prepare.h"

#include <optional>

#include "harness/progress.h"
#include "harness/signals.h"

namespace lra {

bool prepare_with_progress(const std::string& name, PrepareOptions options) {
  const Task& chosen = task(name);
  const bool existed = std::filesystem::exists(options.out / name / "manifest.json");
  std::optional<Progress> progress;
  std::string current;
  options.progress = [&](int64_t done, int64_t total, const std::string& what) {
    if (!progress || what != current) {
      if (progress) progress->finish();
      progress.emplace(what, total);
      current = what;
    }
    progress->update(done);
  };
  options.stop = &stop_requested();
  try {
    chosen.prepare(options);
  } catch (const UsageError&) {
    throw;
  } catch (const Error& error) {
    if (stop_requested()) throw Interrupted(error.what());
    throw;
  }
  if (progress) progress->finish();
  return existed;
}

}  // namespace lra
