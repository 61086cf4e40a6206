#include "harness/suite/runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <list>
#include <map>
#include <set>
#include <thread>

#include "attention_variants/base/files.h"
#include "harness/host/child.h"
#include "harness/host/memory.h"
#include "harness/host/progress.h"
#include "harness/host/runtime.h"
#include "harness/host/signals.h"
#include "harness/suite/cell.h"
#include "harness/suite/changed_files.h"
#include "harness/suite/job.h"
#include "harness/suite/outcome.h"
#include "harness/suite/queue.h"
#include "harness/training/run_folder.h"

namespace lra::suite {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// A process that is asked to stop for its time may write a checkpoint first.
constexpr double kGrace = 60;
// How often the cells that others hold are looked at.
constexpr std::chrono::milliseconds kLook{500};

struct Job {
  size_t cell, slot;
  host::FolderLock claim;
  host::Child child;
  std::string begin;
  std::optional<FileStamp> checkpoint;  // before it began
  uintmax_t log_from;                   // where its part of the log begins
};

// A place for one cell at a time.
struct Slot {
  std::string device;
  bool busy = false;
};

TrainJob job_of(const Suite& suite, size_t i, const fs::path& data, const std::string& device,
                const fs::path& kept) {
  const SuiteCell& cell = suite.cells[i];
  return {.task = cell.config.task,
          .attention = cell.config.attention.name,
          .attention_options = cell.config.attention.options,
          .kept_file = kept.string(),
          .protocol = suite.request.protocol,
          .dtype = suite.request.dtype,
          .sets = cell.sets,
          .seed = cell.config.seed,
          .data = data.string(),
          .run = cell.run.string(),
          .device = device,
          .threads = suite.request.threads,
          .quiet = host::is_quiet(),
          .configuration = config_identity(cell.config.to_json())};
}

// Keeps the slots busy with cells, each in a process of its own.
class SuiteRunner {
 public:
  SuiteRunner(const Suite& suite, const RunnerOptions& options,
              const std::map<std::string, fs::path>& data)
      : suite_(suite),
        options_(options),
        data_(data),
        queue_(suite, options.only, options.cell.timeout, options.most_sharing()),
        slots_(static_cast<size_t>(options.jobs)) {
    for (size_t i = 0; i < slots_.size(); ++i) slots_[i].device = options.device_of(i);
    if (slots_.size() > 1 && slots_.front().device == "cpu")
      memory_limit_ = host::default_memory_limit() / static_cast<int64_t>(slots_.size());
  }

  // The number of chosen cells that did not end as ok.
  int64_t run_cells() {
    look();
    const size_t count = queue_.chosen().size();
    if (queue_.done() > 0)
      host::say(fmt::format("{} of {} cells have ended already", queue_.done(), count));
    std::optional<host::Progress> progress;
    if (slots_.size() > 1) progress.emplace("cells", count, queue_.done());
    auto looked = Clock::now() - kLook;
    for (;;) {
      const bool freed = reap();
      if (host::stop_requested()) {
        if (jobs_.empty()) throw host::Interrupted("stopped; " + options_.go_on + " goes on");
      } else if (freed || Clock::now() - looked >= kLook) {
        look();
        looked = Clock::now();
        if (queue_.left() == 0 && jobs_.empty()) break;
        fill();
        if (jobs_.empty()) tell_waiting();
      }
      if (progress) progress->update(static_cast<int64_t>(queue_.done()), note());
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    if (progress) progress->finish();
    return queue_.failed();
  }

  // All at once, as each is then waited for.
  ~SuiteRunner() {
    for (Job& job : jobs_) job.child.ask_to_stop();
  }
  SuiteRunner(const SuiteRunner&) = delete;
  SuiteRunner& operator=(const SuiteRunner&) = delete;

 private:
  const fs::path& run(size_t i) const { return suite_.cells[i].run; }
  const fs::path& data(size_t i) const { return data_.at(suite_.cells[i].config.task); }
  std::string label(size_t i) const {
    return fmt::format("[{}/{}] {}", i + 1, suite_.cells.size(), suite_.cells[i].label());
  }

  // Does what concerns one cell. What goes wrong there is no reason to end the others.
  template <class Work>
  void with_cell(size_t i, Work work) {
    try {
      work();
    } catch (const host::Interrupted&) {
      throw;
    } catch (const std::exception& error) {
      queue_.set_aside(i);
      host::say_error(fmt::format("{}: {}; it is left as it is, and the others go on", label(i),
                                  first_line(error)));
    }
  }

  void look() {
    for (const size_t i : queue_.chosen()) with_cell(i, [&] { queue_.look(i); });
  }

  // Starts cells until every slot is busy or no cell can be claimed.
  void fill() {
    for (const size_t i : queue_.chosen()) {
      const auto slot = std::ranges::find(slots_, false, &Slot::busy);
      if (slot == slots_.end()) return;
      const bool ours = std::ranges::count(jobs_, i, &Job::cell) > 0;
      if (!queue_.ended(i) && !ours)
        with_cell(i, [&] { start(i, static_cast<size_t>(slot - slots_.begin())); });
    }
  }

  void start(size_t i, size_t slot) {
    fs::create_directories(run(i));
    auto claim = host::FolderLock::try_lock(run(i), kClaim);
    // The process of a runner that was killed may still be writing its last checkpoint.
    if (!claim || training_holder(run(i))) return;
    if (queue_.look(i)) return;  // another may have ended it since we looked
    const double left = queue_.time_left(i);
    if (left <= 0) {
      fail(i, slots_[slot].device, Status::timeout, timeout_reason(options_.cell.timeout));
      return;
    }
    clear_result(i);
    queue_.begin(i);
    const fs::path log = run(i) / kLogFile;
    const bool alone = slots_.size() == 1;  // and its progress is the terminal's
    if (tries_[i] == 0) host::say(label(i));
    std::error_code none;
    const auto size = fs::file_size(log, none);
    TrainJob process = job_of(suite_, i, data(i), slots_[slot].device, kept_now(i));
    process.sharing = options_.sharing(static_cast<int64_t>(queue_.left()));
    process.memory_limit = memory_limit_;
    process.check = options_.cell.check;
    if (alone) process.error_log = log.string();
    Job job{
        .cell = i,
        .slot = slot,
        .claim = std::move(*claim),
        .child = host::Child(child_words(process), {.timeout = options_.cell.timeout > 0 ? left : 0,
                                                    .grace = kGrace,
                                                    .log = alone ? fs::path() : log,
                                                    .oom_preferred = true}),
        .begin = host::utc_now(),
        .checkpoint = stamp_of_checkpoint(run(i)),
        .log_from = none ? 0 : size};
    slots_[slot].busy = true;
    jobs_.push_back(std::move(job));
  }

  // The file that the cell's attention is read from in place of its own, which may have changed
  // since the suite was opened; empty = its own.
  fs::path kept_now(size_t i) {
    const auto changed = changed_now(suite_, suite_.cells[i].config.attention);
    if (!changed || changed->kept.empty()) return {};  // the process says what has changed
    if (told_.insert(changed->attention).second) host::say(changed->text());
    return changed->kept;
  }

  // What is no record of ours may be one of another version's, and is kept.
  void clear_result(size_t i) {
    const fs::path result = run(i) / kResultFile, aside = run(i) / kBadResultFile;
    std::string bad;
    if (final_status(run(i), &bad) || bad.empty()) {
      fs::remove(result);
      return;
    }
    fs::rename(result, aside);
    host::say(fmt::format("{}: {}; it is now {}, and the cell runs again", label(i), bad,
                          aside.string()));
  }

  // Reaps finished processes; true where there was one.
  bool reap() {
    bool any = false;
    for (auto job = jobs_.begin(); job != jobs_.end();) {
      const auto ended = job->child.poll();
      if (!ended) {
        ++job;
        continue;
      }
      with_cell(job->cell, [&] { settle_cell(*job, *ended); });
      slots_[job->slot].busy = false;
      job = jobs_.erase(job);
      any = true;
    }
    return any;
  }

  // What the end of a process means for its cell.
  void settle_cell(const Job& job, const host::ChildStatus& ended) {
    const size_t i = job.cell;
    const std::string device = slots_[job.slot].device;
    const Outcome outcome =
        outcome_of({.child = ended,
                    .status = final_status(run(i)),
                    .last_line = said_last(job),
                    .new_checkpoint = stamp_of_checkpoint(run(i)) != job.checkpoint,
                    .stopping = host::stop_requested(),
                    .tries = tries_[i]},
                   options_.cell.tries, options_.cell.timeout);
    tries_[i] = outcome.tries;
    append_try(run(i), {.begin = job.begin,
                        .device = device,
                        .threads = suite_.request.threads,
                        .sharing = options_.most_sharing(),
                        .seconds = ended.seconds,
                        .ended = outcome.ended});
    switch (outcome.next) {
      case Outcome::Next::done:
        queue_.end(i);
        host::say(label(i) + ": " + to_string(outcome.status));
        break;
      case Outcome::Next::fail:
        fail(i, device, outcome.status, outcome.reason);
        break;
      case Outcome::Next::retry:
        host::say(fmt::format("{}: {}; once more", label(i), outcome.ended));
        break;
      case Outcome::Next::leave:
        break;
    }
  }

  void fail(size_t i, const std::string& device, Status status, const std::string& reason) {
    record_failure(suite_.cells[i], data(i), device, suite_.request.threads, status, reason);
    queue_.end(i);
    host::say(fmt::format("{}: {} ({})", label(i), status, reason));
  }

  // The last line of its part of the log.
  std::string said_last(const Job& job) const {
    std::ifstream in(run(job.cell) / kLogFile);
    if (!in.seekg(static_cast<std::streamoff>(job.log_from))) return "";
    return host::last_line({std::istreambuf_iterator<char>(in), {}});
  }

  void tell_waiting() {
    const std::optional<size_t> open = queue_.first_open();
    const auto holder = waiting_ || !open ? std::nullopt : cell_holder(run(*open));
    if (!holder) return;
    host::say(fmt::format("waiting for {} of {} cells that others have, {} at {}", queue_.left(),
                          queue_.chosen().size(), holder->text(), label(*open)));
    waiting_ = true;
  }

  std::string note() const {
    std::string text;
    for (const Job& job : jobs_)
      text += (text.empty() ? "at " : ", ") + suite_.cells[job.cell].label();
    return text;
  }

  const Suite& suite_;
  const RunnerOptions& options_;
  const std::map<std::string, fs::path>& data_;  // folders by task
  CellQueue queue_;
  std::vector<Slot> slots_;
  std::map<size_t, int64_t> tries_;  // deaths in a row without a new checkpoint
  std::list<Job> jobs_;
  std::set<std::string> told_;  // attentions whose files have changed
  int64_t memory_limit_ = 0;
  bool waiting_ = false;
};

}  // namespace

int64_t RunnerOptions::most_sharing() const {
  const int64_t count = std::ssize(devices);
  return std::max<int64_t>((jobs + count - 1) / count, 1);
}

int64_t RunnerOptions::sharing(int64_t cells) const {
  if (devices.front() == "cpu") return 1;
  const int64_t gpus = std::ssize(devices);
  return std::max<int64_t>((std::min(jobs, cells) + gpus - 1) / gpus, 1);
}

int64_t run_cells(const Suite& suite, const RunnerOptions& options,
                  const std::map<std::string, fs::path>& data) {
  return SuiteRunner(suite, options, data).run_cells();
}

}  // namespace lra::suite
