// lra tune: a search over a grid of settings that costs every attention the same, and chooses on
// dev alone. Its cells are a suite's: runs below OUT, claimed and resumed like those.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "attention_variants/registry.h"
#include "harness/suite/runner.h"
#include "harness/suite/suite.h"
#include "harness/tune/tune_file.h"
#include "lra/config/protocol.h"
#include "lra/data/manifest.h"

namespace lra::tune {

struct TuneRequest {
  std::string task;
  std::vector<AttentionSpec> attentions;
  std::vector<uint64_t> seeds;
  std::string protocol = kDefaultProtocol;
  std::vector<std::string> sets;  // over the protocol's, at every point
  std::vector<Point> points;
  std::filesystem::path data;  // of lra data prepare --out; its test split is never opened
  std::filesystem::path out;
  std::string device = "cpu";  // "cpu" or "cuda": the runner chooses which GPU
  std::string dtype = "float32";
  int64_t threads = 1;         // of each cell
  bool threads_given = false;  // and no other number will do
};

struct Search {
  TuneRequest request;
  Manifest data;
  suite::Suite suite;  // the cells by attention, point, seed
};

/// The search of a request, with the points that OUT holds already before its own, and with the
/// threads of those. Writes nothing. Throws UsageError where names or values are wrong, where an
/// attention or a seed is there twice, where two attentions share the protocol's entry, where
/// attentions would train another number of steps, and on other threads than OUT's where they are
/// given; Error where OUT holds another search, and where there are no data.
Search plan_search(TuneRequest request);

/// The same with OUT/tune.json written, which says what is known of every cell by now, and what is
/// chosen of that. One process at a time.
TuneFile record_search(Search& search);

/// What the runs of a search say by now.
TuneFile file_of(const Search& search);

/// Runs the cells that have not ended (suite::run_cells).
void run_search(const Search& search, const suite::RunnerOptions& options);

}  // namespace lra::tune
