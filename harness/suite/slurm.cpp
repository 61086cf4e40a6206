#include "harness/suite/slurm.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <sstream>

#include "attention_variants/base/files.h"
#include "attention_variants/base/shell.h"
#include "attention_variants/base/text.h"
#include "harness/host/child.h"
#include "harness/host/signals.h"
#include "results/records/file_names.h"
#include "results/records/record_fields.h"

namespace lra::suite {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSlurmSchema = "lra.slurm/1";
constexpr const char* kJobsFile = "jobs.json";
constexpr const char* kReportScript = "report.sh";
// Slurm's own default allows array indices up to 1,000.
constexpr size_t kArray = 1000;

constexpr auto array_fields = [](auto& f, auto& array) {
  f("job", array.job);
  f("first", array.first);
};

constexpr auto jobs_fields = [](auto& f, auto& jobs) {
  f.schema(kSlurmSchema);
  f.list("arrays", jobs.arrays, Presence::optional, array_fields);
  f("report", jobs.report, Presence::optional);
};

json make_slurm_jobs(const SlurmJobs& jobs) { return write_record(jobs, jobs_fields); }

// Throws std::runtime_error that says what is wrong.
SlurmJobs parse_slurm_jobs(const json& value) {
  return read_record<SlurmJobs>(value, "", jobs_fields);
}

// "0-3,7" of ascending numbers.
std::string ranges(const std::vector<size_t>& numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", numbers[i]);
    if (last > i) text += fmt::format("-{}", numbers[last]);
    i = last + 1;
  }
  return text;
}

// Text that stands in quotes of a line of #SBATCH, which has no escapes.
std::string plain(const std::string& what, const std::string& text) {
  if (text.find_first_of("\"\\\n\r") == std::string::npos) return text;
  throw UsageError(fmt::format(
      "{} '{}' has a quote, a backslash or a line break, which no line of #SBATCH can hold", what,
      printable(text)));
}

std::string plain_word(const std::string& option, const std::string& text) {
  if (text.find_first_of(" \t") == std::string::npos) return plain(option, text);
  throw UsageError(fmt::format("{} '{}' should be one word", option, printable(text)));
}

// The lines that arrays and the last job have in common.
std::string head(const Suite& suite, const SlurmOptions& options, const std::string& job,
                 const std::string& log) {
  const fs::path out = fs::absolute(suite.request.out).lexically_normal();
  std::string text = "#!/bin/bash\n";
  const auto add = [&text](const std::string& option) { text += "#SBATCH --" + option + "\n"; };
  add("job-name=lra-" + job);
  add("ntasks=1");
  add(fmt::format("cpus-per-task={}",
                  options.cpus > 0 ? options.cpus : std::max<int64_t>(suite.request.threads, 1)));
  for (const auto& [name, value] : {std::pair{"partition", &options.partition},
                                    {"account", &options.account},
                                    {"time", &options.time},
                                    {"mem", &options.mem},
                                    {"gpus", &options.gpus}}) {
    if (!value->empty())
      add(fmt::format("{}={}", name, plain_word(std::string("--") + name, *value)));
  }
  add("requeue");
  add("open-mode=append");
  add(fmt::format("signal=B:TERM@{}", options.warning));
  // Of a log's name Slurm fills in what stands behind a %, as the job's number.
  std::string folder;
  for (const char letter : plain("--out", out.string()))
    folder += letter == '%' ? "%%" : std::string(1, letter);
  add(fmt::format("output=\"{}/slurm/{}\"", folder, log));
  add(fmt::format("chdir=\"{}\"", plain("the current folder", fs::current_path().string())));
  return text;
}

// Runs `command` so that a request to stop reaches it, and goes back to the queue where it stopped
// for that: exit status 143 (of SIGTERM) or 130 says that a checkpoint was written.
std::string body(const std::string& command, const std::string& job) {
  return fmt::format(R"(
{} &
child=$!
trap 'kill -TERM "$child"' TERM
wait "$child"
status=$?
# A signal ends the wait, not the program.
while kill -0 "$child" 2>/dev/null; do
  wait "$child"
  status=$?
done
if [[ ( $status -eq 143 || $status -eq 130 ) && $(squeue --noheader --jobs "{}" --format %T) == RUNNING ]]; then
  scontrol requeue "{}"
  sleep 60  # Slurm ends this script as it requeues the job
fi
exit "$status"
)",
                     command, job, job);
}

std::string suite_command(const Suite& suite, const SlurmOptions& options,
                          const std::vector<std::string>& program) {
  std::string command;
  for (const std::string& word : program) command += shell_quoted(word) + " ";
  command += fmt::format("suite --out {} --resume --device {} --threads {}",
                         shell_quoted(fs::absolute(suite.request.out).lexically_normal().string()),
                         suite.request.device, suite.request.threads);
  if (options.cell.timeout > 0) command += fmt::format(" --timeout {:g}", options.cell.timeout);
  command += fmt::format(" --tries {}", options.cell.tries);
  if (options.cell.check == ContractCheck::all) command += " --check";
  if (options.cell.check == ContractCheck::none) command += " --no-check";
  return command;
}

}  // namespace

std::vector<SlurmScript> slurm_scripts(const Suite& suite, const std::vector<size_t>& cells,
                                       const SlurmOptions& options,
                                       const std::vector<std::string>& program) {
  const fs::path folder = suite.request.out / kSlurmFolder;
  const std::string command = suite_command(suite, options, program);
  std::vector<SlurmScript> scripts;
  for (size_t begin = 0; begin < suite.cells.size(); begin += kArray) {
    std::vector<size_t> numbers;
    for (const size_t cell : cells) {
      if (cell >= begin && cell < begin + kArray) numbers.push_back(cell - begin);
    }
    if (numbers.empty()) continue;
    std::string text = head(suite, options, "cell", "%A_%a.log");
    text += fmt::format("#SBATCH --array={}{}\n", ranges(numbers),
                        options.array_limit > 0 ? fmt::format("%{}", options.array_limit) : "");
    text += fmt::format(
        "\n# One cell of the suite a job, by its number in lra suite plan.\n"
        "cell=$((SLURM_ARRAY_TASK_ID + {}))",
        begin);
    text += body(command + " --only \"$cell\"", "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID");
    scripts.push_back(
        {.path = folder / fmt::format("cells-{}.sh", begin), .text = std::move(text)});
  }
  if (!options.report) return scripts;
  std::string text = head(suite, options, "report", "report-%j.log");
  text += "\n# What is left of the suite: the profile and the report.";
  text += body(command, "$SLURM_JOB_ID");
  scripts.push_back({.path = folder / kReportScript, .text = std::move(text)});
  return scripts;
}

std::vector<std::string> submit(const Suite& suite, const std::vector<SlurmScript>& scripts,
                                const std::set<std::string>& queued) {
  const fs::path folder = suite.request.out / kSlurmFolder;
  fs::create_directories(folder);
  const fs::path file = folder / kJobsFile;
  const json before = fs::exists(file) ? read_json(file) : json();
  // Those of earlier submissions may be in the queue still. Each is kept as soon as it is known:
  // what is stopped here does not take a job back.
  SlurmJobs jobs = before.is_null() ? SlurmJobs() : parse_slurm_jobs(before);
  std::vector<std::string> ids;
  for (const SlurmScript& script : scripts) {
    const bool report = script.path.filename() == kReportScript;
    write_file(script.path, script.text, Links::replace);
    std::vector<std::string> words = {"--parsable"};
    std::vector<std::string> awaited(queued.begin(), queued.end());
    awaited.insert(awaited.end(), ids.begin(), ids.end());
    if (report && !awaited.empty())
      words.push_back(fmt::format("--dependency=afterany:{}", fmt::join(awaited, ":")));
    words.push_back(script.path.string());
    const host::ChildStatus ended =
        host::run_child(words, {.capture = true, .program = "sbatch", .to_its_end = true});
    if (ended.exit != 0 || ended.signal != 0) {
      if (!ids.empty()) {
        host::run_child(ids, {.capture = true, .program = "scancel", .to_its_end = true});
        if (before.is_null()) {
          fs::remove(file);
        } else {
          write_json(file, before, Links::replace);
        }
      }
      throw Error(ended.exit == host::kNotFound
                      ? "there is no sbatch here: submit on a host of the cluster, or look at the "
                        "scripts with --dry-run"
                      : fmt::format("sbatch {}: {}{}", script.path.string(),
                                    host::last_line(ended.err),
                                    ids.empty() ? "" : " (the jobs before it were cancelled)"));
    }
    // "123", or "123;cluster"
    const std::string id = ended.out.substr(0, ended.out.find_first_of(";\n"));
    ids.push_back(id);
    if (report) {
      jobs.report = id;
    } else {
      const std::string name = script.path.stem().string();  // cells-1000
      jobs.arrays.push_back({.job = id, .first = std::stol(name.substr(name.find('-') + 1))});
    }
    write_json(file, make_slurm_jobs(jobs), Links::replace);
    if (host::stop_requested() && ids.size() < scripts.size()) {
      throw host::Interrupted(
          fmt::format("stopped with {} of {} jobs submitted; take them back with scancel {}, then "
                      "the same command with --resume submits them all",
                      ids.size(), scripts.size(), fmt::join(ids, " ")));
    }
  }
  return ids;
}

void remove_scripts(const fs::path& out) {
  const fs::path folder = out / kSlurmFolder;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    const std::string name = entry.path().filename().string();
    const bool cells = name.starts_with("cells-") && name.ends_with(".sh");
    if (cells || name == kReportScript || name == kJobsFile) fs::remove(entry.path(), none);
  }
  fs::remove(folder, none);  // where nothing else is in it
}

SlurmQueue queue_of(const SlurmJobs& jobs, const std::string& squeue) {
  SlurmQueue queue;
  std::istringstream in(squeue);
  for (std::string line; std::getline(in, line);) {
    std::vector<std::string> fields;
    std::istringstream parts(line);
    for (std::string part; std::getline(parts, part, '|');) fields.push_back(part);
    if (fields.size() < 3) continue;
    queue.report |= !jobs.report.empty() && fields[0] == jobs.report;
    const size_t underscore = fields[0].find('_');
    if (underscore == std::string::npos) continue;
    const std::string index = fields[0].substr(underscore + 1);
    if (index.empty() || index.size() > 9 ||
        !std::ranges::all_of(index, [](unsigned char c) { return std::isdigit(c); }))
      continue;
    for (const SlurmJobs::Array& array : jobs.arrays) {
      if (array.job != fields[0].substr(0, underscore)) continue;
      const size_t cell = static_cast<size_t>(array.first) + std::stoul(index);
      const bool placed = fields.size() > 3 && !fields[3].empty();
      queue.cells[cell] = {.job = array.job,
                           .text = fields[1] + (placed                ? " on " + fields[3]
                                                : fields[2] != "None" ? " (" + fields[2] + ")"
                                                                      : "")};
    }
  }
  return queue;
}

SlurmQueue queue_of(const fs::path& out) {
  const fs::path file = out / kSlurmFolder / kJobsFile;
  if (!fs::exists(file)) return {};
  const json value = read_json(file);
  SlurmJobs jobs;
  try {
    jobs = parse_slurm_jobs(value);
  } catch (const std::runtime_error&) {
    return {.trouble =
                file.string() + " is not what lra suite submit writes; the queue is left out"};
  }
  std::vector<std::string> ids;
  for (const SlurmJobs::Array& array : jobs.arrays) ids.push_back(array.job);
  if (ids.empty()) return {};
  // Job numbers that have left the queue are an error where they are asked for, so all are listed.
  const host::ChildStatus ended =
      host::run_child({"--noheader", "--array", "--format=%i|%T|%r|%N"},
                      {.timeout = 20, .capture = true, .program = "squeue"});
  if (ended.exit == host::kNotFound)
    return {.trouble = "there is no squeue here: what the queue says of the cells is left out"};
  if (ended.exit != 0 || ended.signal != 0) {
    const std::string said = host::last_line(ended.err);
    return {.trouble = "squeue: " + (said.empty() ? "no answer within 20 seconds" : said)};
  }
  return queue_of(jobs, ended.out);
}

std::string add_queue(SuiteStatus& status) {
  const SlurmQueue queue = queue_of(status.out);
  for (const auto& [cell, queued] : queue.cells) {
    for (CellStatus& of : status.cells) {
      if (of.index == cell) of.queue = queued.text;
    }
  }
  return queue.trouble;
}

}  // namespace lra::suite
