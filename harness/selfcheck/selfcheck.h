// lra selfcheck: every check of every attention on one device, in processes of their own.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "attention_variants/registry.h"
#include "results/selfcheck/record.h"

namespace lra::selfcheck {

struct SelfcheckRequest {
  std::vector<AttentionSpec> attentions;  // empty: all that run by their name
  std::vector<std::string> checks;        // empty: all
  std::string device = "cpu";             // cpu, cuda or cuda:N
  int64_t threads = 0;                    // 0 = all processors
  double minutes = 5;                     // after these what runs is ended
  std::filesystem::path out;              // JSONL; must not be there yet
};

/// Runs them and writes a line for each, whatever its end; gives the same. Throws UsageError on
/// names that there are not, Error where `out` is there already, Interrupted after Ctrl-C: what was
/// checked until then stays in `out`.
std::vector<Selfcheck> run_selfcheck(const SelfcheckRequest& request);

/// The names that `checks` may hold, in the order in which they run.
std::vector<std::string> check_names();

}  // namespace lra::selfcheck
