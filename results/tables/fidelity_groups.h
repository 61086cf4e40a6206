// Groups the cells of fidelity experiments by what they were measured with.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "results/records/fidelity.h"

namespace lra {

/// What must be equal for two cells to stand in one table.
using FidelitySetting =
    std::tuple<int64_t, std::string, int64_t, int64_t, int64_t, int64_t, int64_t, uint64_t,
               std::string, std::string, int64_t, std::string>;

struct FidelityRow {
  std::map<int64_t, const Fidelity*> cells;  // by budget
  const Fidelity* fixed = nullptr;           // without a budget
};

struct FidelityGroup {
  std::vector<const Fidelity*> cells;
  std::string dtype;         // of all cells; "" where they differ, and rows are named by it
  std::string budget;        // the option or options
  std::set<int64_t> values;  // of the budget
  std::map<std::string, FidelityRow> rows;
  bool has_fixed = false;
  bool repeated = false;  // a cell was measured more than once: its last line stands
};

/// The settings that occur, in order, with their cells; every approximation stands on one scale in
/// the experiment that has them all.
std::map<FidelitySetting, FidelityGroup> fidelity_groups(std::span<const Fidelity> cells);

/// "random gaussian", or which run's.
std::string fidelity_data_text(const FidelityData& data);

/// "Iterations of the inverse, layer 1 of ..."
std::string fidelity_heading(const Fidelity& f);

/// "length 256, 1 head of 32, 10 trials, ..."
std::string fidelity_setting_text(const FidelityGroup& group);

}  // namespace lra
