#include "harness/selfcheck/selfcheck.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "attention_variants/base/append_file.h"
#include "harness/host/folder_lock.h"
#include "harness/host/progress.h"
#include "harness/host/runtime.h"
#include "harness/host/signals.h"
#include "harness/host/temporary_folder.h"
#include "harness/selfcheck/child.h"
#include "results/records/json_line.h"

namespace lra::selfcheck {
namespace {

// Those of `checks` that were asked for, all where none was.
std::vector<std::string> chosen(std::span<const Check> checks,
                                const std::vector<std::string>& asked) {
  std::vector<std::string> names;
  for (const Check& check : checks) {
    if (asked.empty() || std::ranges::count(asked, check.name) > 0) names.push_back(check.name);
  }
  return names;
}

std::vector<AttentionSpec> attentions_of(const SelfcheckRequest& request) {
  if (!request.attentions.empty()) {
    for (const AttentionSpec& spec : request.attentions)  // wrong before any work
      attention_entry(spec.name).effective_options(spec.options);
    return request.attentions;
  }
  std::vector<AttentionSpec> all;
  for (const AttentionEntry* entry : attention_entries()) all.push_back({entry->info.name});
  return all;
}

void check_asked(const std::vector<std::string>& asked) {
  const std::vector<std::string> valid = check_names();
  for (const std::string& name : asked) {
    if (std::ranges::count(valid, name) == 0) throw unknown_name("check", name, valid);
  }
}

// Times are held against the roofline.
std::vector<std::string> with_roofline(std::vector<std::string> asked) {
  if (std::ranges::count(asked, kSpeed) > 0 && std::ranges::count(asked, kRoofline) == 0)
    asked.emplace_back(kRoofline);
  return asked;
}

// The file of one self-check: old lines beside new ones would say what no one program did.
AppendFile begun(const std::filesystem::path& out) {
  if (std::filesystem::exists(out)) {
    throw Error(fmt::format(
        "{} is there already; a self-check begins afresh: remove it, or choose another --out",
        out.string()));
  }
  return AppendFile(out);
}

// One call of the command.
class SelfcheckRun {
 public:
  explicit SelfcheckRun(const SelfcheckRequest& request)
      : attentions_(attentions_of(request)),
        machine_checks_(chosen(machine_checks(), with_roofline(request.checks))),
        attention_checks_(chosen(attention_checks(), request.checks)),
        minutes_(request.minutes),
        subject_{.attention = std::nullopt,
                 .device = host::parse_device(request.device),
                 .threads = host::use_threads(request.threads),
                 .seconds = 0,
                 .folder = {},
                 .roofline = std::nullopt},
        folder_(host::temporary_place(), "lra-selfcheck"),
        lock_(host::FolderLock::of_file(request.out)),
        file_(begun(request.out)),
        progress_("selfcheck", std::ssize(machine_checks_) +
                                   std::ssize(attention_checks_) * std::ssize(attentions_)) {
    // A quarter of the time is for the three measurements of each.
    subject_.seconds = std::clamp(
        minutes_ * 60 / 12 / static_cast<double>(std::max<size_t>(attentions_.size(), 1)), 0.01,
        0.5);
    subject_.folder = folder_.path();
  }

  std::vector<Selfcheck> run() {
    add(run_in_children(machine_checks_, subject_, [this] { return seconds_left(); }));
    subject_.roofline = roofline();
    for (const AttentionSpec& attention : attentions_) {
      subject_.attention = attention;
      add(run_in_children(attention_checks_, subject_, [this] { return seconds_left(); }));
    }
    progress_.finish();
    return records_;
  }

 private:
  using Clock = std::chrono::steady_clock;

  double seconds_left() const {
    return minutes_ * 60 - std::chrono::duration<double>(Clock::now() - begin_).count();
  }

  std::optional<Roofline> roofline() const {
    for (const Selfcheck& record : records_) {
      const SelfcheckMeasures& m = record.measures;
      if (record.finding == Finding::ok && m.gflops && m.gigabytes_per_second)
        return Roofline{.gflops = *m.gflops, .gigabytes_per_second = *m.gigabytes_per_second};
    }
    return std::nullopt;
  }

  void add(const std::vector<Selfcheck>& found) {
    for (const Selfcheck& record : found) {
      file_.append(json_line(make_selfcheck(record)) + "\n");
      records_.push_back(record);
    }
    file_.sync();
    progress_.update(std::ssize(records_), subject_.attention ? subject_.attention->text() : "");
  }

  const std::vector<AttentionSpec> attentions_;
  const std::vector<std::string> machine_checks_, attention_checks_;
  const double minutes_;
  CheckSubject subject_;
  const host::TemporaryFolder folder_;
  const host::FolderLock lock_;
  AppendFile file_;
  host::Progress progress_;
  const Clock::time_point begin_ = Clock::now();
  std::vector<Selfcheck> records_;
};

}  // namespace

std::vector<std::string> check_names() {
  std::vector<std::string> names = chosen(machine_checks(), {});
  for (const std::string& name : chosen(attention_checks(), {})) names.push_back(name);
  return names;
}

std::vector<Selfcheck> run_selfcheck(const SelfcheckRequest& request) {
  check_asked(request.checks);
  try {
    return SelfcheckRun(request).run();
  } catch (const host::Interrupted&) {
    throw host::Interrupted(fmt::format(
        "stopped; {} holds the checks made so far; a self-check begins afresh, so remove it, or "
        "choose another --out",
        request.out.string()));
  }
}

}  // namespace lra::selfcheck
