#include "harness/selfcheck/child.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <sstream>

#include "attention_variants/base/files.h"
#include "harness/host/child.h"
#include "harness/host/memory.h"
#include "harness/host/runtime.h"
#include "harness/selfcheck/checks.h"
#include "results/records/json_line.h"
#include "results/records/record_fields.h"

namespace lra::selfcheck {
namespace {

// The subject as a child is told it.
constexpr auto subject_fields = [](auto& f, auto& subject) {
  f.part("device", subject.device, std::mem_fn(&torch::Device::str), host::parse_device);
  f("threads", subject.threads);
  f("seconds", subject.seconds);
  f.part("folder", subject.folder, std::mem_fn(&std::filesystem::path::native),
         [](const json& value) { return value.get<std::string>(); });
  f.part("attention", subject.attention, std::mem_fn(&AttentionSpec::text), parse_attention);
  f.part("roofline", subject.roofline, make_roofline, parse_roofline);
};

// The records among the lines of a child, which may print more.
std::vector<Selfcheck> records_in(const std::string& out) {
  static const std::string start = fmt::format("{{\"schema\":\"{}\"", kSelfcheckSchema);
  std::vector<Selfcheck> records;
  std::istringstream lines(out);
  for (std::string line; std::getline(lines, line) && !lines.eof();) {
    if (line.starts_with(start)) records.push_back(parse_selfcheck(json::parse(line)));
  }
  return records;
}

// The record of a check that a child did not answer.
Selfcheck unanswered(const std::string& check, const CheckSubject& subject, Finding finding,
                     const std::string& reason) {
  const Check none{.name = check, .promise = "", .run = [](const CheckSubject&, CheckReport&) {}};
  Selfcheck record = run_check(none, subject);
  record.finding = finding;
  record.reason = reason;
  return record;
}

Selfcheck ended_in(const std::string& check, const CheckSubject& subject,
                   const host::ChildStatus& ended) {
  const auto record = [&](Finding finding, const std::string& reason) {
    Selfcheck made = unanswered(check, subject, finding, reason);
    made.seconds = ended.seconds;
    return made;
  };
  if (ended.timed_out) return record(Finding::timeout, "the time was over");
  if (ended.out_of_memory) return record(Finding::oom, host::kKilledForMemory);
  return record(Finding::crash, ended.text(ended.err));
}

}  // namespace

std::vector<Selfcheck> run_in_children(std::vector<std::string> checks, const CheckSubject& subject,
                                       const std::function<double()>& left) {
  std::vector<Selfcheck> records;
  json request = write_record(subject, subject_fields);
  while (!checks.empty()) {
    const double seconds = left();
    if (seconds <= 0) {
      for (const std::string& check : checks) {
        records.push_back(
            unanswered(check, subject, Finding::timeout, "the time was over before it began"));
      }
      break;
    }
    request["checks"] = checks;
    const host::ChildStatus ended =
        host::run_child({"selfcheck", "--child", request.dump()},
                        {.timeout = seconds, .capture = true, .oom_preferred = true});
    const std::vector<Selfcheck> answers = records_in(ended.out);
    records.insert(records.end(), answers.begin(), answers.end());
    checks.erase(checks.begin(),
                 checks.begin() + std::min(std::ssize(answers), std::ssize(checks)));
    if (checks.empty()) break;
    records.push_back(ended_in(checks.front(), subject, ended));
    checks.erase(checks.begin());
  }
  return records;
}

void run_selfcheck_child(const std::string& word) {
  const json request = parse_json(word, "--child");
  auto subject = read_record<CheckSubject>(request, "", subject_fields);
  subject.threads = host::use_threads(subject.threads);
  // What libraries take by themselves fails too, before the kernel has to kill.
  if (subject.device.is_cpu())
    host::limit_address_space(host::default_memory_limit(), subject.threads);
  const auto checks = subject.attention ? attention_checks() : machine_checks();
  for (const std::string name : request.at("checks")) {
    const auto check = std::ranges::find(checks, name, &Check::name);
    if (check == checks.end()) throw UsageError("--child: no check " + name);
    fmt::print("{}\n", json_line(make_selfcheck(run_check(*check, subject))));
    std::fflush(stdout);  // what follows may end this process
  }
}

}  // namespace lra::selfcheck
