// A cell's training in a process of its own: the request, and running it.
#pragma once

#include <string>
#include <vector>

#include "attention_variants/base/fields.h"
#include "harness/training/contract_check.h"

namespace lra::suite {

/// How a cell's processes are run; none of it changes a bit of what is trained.
struct CellPolicy {
  int64_t tries = 3;   // of a process that ends without progress
  double timeout = 0;  // seconds for the cell over all its tries; 0 = none
  ContractCheck check = ContractCheck::own;
};

struct TrainJob {
  std::string task, attention;
  json attention_options = json::object();  // as given
  std::string kept_file;  // that is read in place of the attention's own; "" = none
  std::string protocol, dtype;
  std::vector<std::string> sets;
  uint64_t seed = 0;
  std::string data, run, device;
  int64_t threads = 1;
  int64_t sharing = 1;       // of its GPU: how many cells the runner has on it at a time
  int64_t memory_limit = 0;  // bytes of tensors on a CPU; 0 = 80 % of what is free
  ContractCheck check = ContractCheck::own;
  bool quiet = false;
  std::string error_log;                // the file that gets the error that ends it; "" = none
  json configuration = json::object();  // what the rest should make (config_identity)

  template <class Fields>
  void fields(Fields& f) {
    f("task", task);
    f("attention", attention);
    f("attention_options", attention_options);
    f("kept_file", kept_file);
    f("protocol", protocol);
    f("dtype", dtype);
    f("sets", sets);
    f("seed", seed);
    f("data", data);
    f("run", run);
    f("device", device);
    f("threads", threads);
    f("sharing", sharing);
    f("memory_limit", memory_limit);
    f("check", check);
    f("quiet", quiet);
    f("error_log", error_log);
    f("configuration", configuration);
  }
};

/// The words by which this program does the job in another process.
std::vector<std::string> child_words(const TrainJob& job);

/// The exit status of that process where the attention refuses the model that it is asked for.
inline constexpr int kRefused = 3;

/// What that process does with its word: resumes the job's run, or begins it. Throws as train()
/// does, and Error where the run did not end as "ok"; ends the process where the attention refuses.
void run_train_job(const std::string& word);

}  // namespace lra::suite
