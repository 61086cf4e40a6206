// OUT/suite.json: the one writer and reader.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "attention_variants/base/fields.h"
#include "results/records/file_names.h"

namespace lra::suite {

struct SuiteFile {
  std::string protocol;
  json budget = json::object();
  std::string data;  // "" = none was given
  std::string dtype, device;
  int64_t threads = 0;              // of each cell
  std::optional<double> max_hours;  // null = no limit
  std::optional<double> fraction;   // "cut": of the steps; null = nothing was cut
  std::vector<std::string> tasks, attentions;
  std::string folder;  // that paths in `attentions` are from; "" = unknown
  std::vector<uint64_t> seeds;
  std::vector<std::string> sets;
  json sources = json::object();  // task -> path
  bool synthetic = false;
  std::vector<std::string> runs;  // folders below OUT, a cell each
  std::vector<json> cells;        // their configurations
};

json make_suite_file(const SuiteFile& file);
/// Throws std::runtime_error that names the field, what was expected and what was found.
SuiteFile parse_suite_file(const json& value);

}  // namespace lra::suite
