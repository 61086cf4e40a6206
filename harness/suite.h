// Tasks × attentions × seeds: data, training, measuring, tables. Every cell is a run folder and a
// process of its own.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/prepare.h"
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
  DataSources data;               // `folder` is OUT/data whatever stands here
  std::filesystem::path out;
  std::string device = "cpu", dtype = "float32";
  int64_t threads = 0;
  Resume resume = Resume::no;
};

/// Finds or makes the data, runs what is missing, writes OUT/report and prints the two tables.
/// Returns the number of parts (cells, the profile) that did not end as "ok". A cell that fails is
/// a record with its status; the others go on.
int64_t run_suite(const SuiteRequest& request);

}  // namespace lra
