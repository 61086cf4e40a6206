// Tasks × attentions × seeds: data, training, measuring, tables. Every cell is a run folder and a
// process of its own.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/trainer.h"
#include "lra/budget.h"

namespace lra {

struct SuiteRequest {
  std::vector<std::string> tasks;
  std::vector<AttentionSpec> attentions;
  std::vector<uint64_t> seeds;
  std::string protocol = "lra-strict";
  Budget budget;
  std::vector<std::string> sets;  // over the budget's own
  std::filesystem::path data;     // empty: OUT/data, made by the suite
  std::filesystem::path out;
  std::string device = "cpu", dtype = "float32";
  int64_t threads = 0;
  Resume resume = Resume::no;
};

/// Runs what is missing, writes OUT/report and prints the two tables. Returns the number of parts
/// (cells, the profile) that did not end as "ok". A cell that fails is a record with its status;
/// the others go on.
int64_t run_suite(const SuiteRequest& request);

}  // namespace lra
