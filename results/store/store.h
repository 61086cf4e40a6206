// All records of some folders and files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "results/records/fidelity.h"
#include "results/records/profile.h"
#include "results/records/result.h"
#include "results/where/record.h"

namespace lra {

/// A file that could not be used, or not wholly.
struct BadFile {
  std::string path;
  std::string reason;
};

struct Records {
  std::vector<Result> results;
  std::vector<Profile> profiles;
  std::vector<Fidelity> fidelity;
  std::vector<Where> where;
  std::vector<BadFile> bad;
};

/// Reads every path: a folder is walked (result.json, with predictions-test.csv and metrics.jsonl
/// beside it and the budget of its suite, and every other *.jsonl), a .jsonl file is read line by
/// line, any other file as one JSON record. Files are taken in sorted order, each once. A file that
/// is missing, truncated, of an unknown schema or short of a field goes to `bad` and the rest is
/// still read.
Records find_records(const std::vector<std::filesystem::path>& paths);

}  // namespace lra
