// The budget of the suite that a run is a cell of, from the suite's file above the run's folder.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "results/records/result.h"

namespace lra {

/// Reads each suite's file once.
class SuiteBudgets {
 public:
  /// Of the run in this folder; an unknown one where no suite's file stands kLevelsBelowSuite
  /// above it that can be read and lists the run.
  RunBudget of(const std::filesystem::path& run);

 private:
  struct Suite {
    RunBudget budget;
    std::set<std::string> runs;  // folders below the suite's
  };
  const std::optional<Suite>& suite(const std::filesystem::path& file);
  static std::optional<Suite> read(const std::filesystem::path& file);

  std::map<std::filesystem::path, std::optional<Suite>> suites_;
};

}  // namespace lra
