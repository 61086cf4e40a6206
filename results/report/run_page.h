// A page for one run: configuration, curves, confusion matrix, mistakes, provenance.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "results/analysis/run_names.h"
#include "results/records/result.h"

namespace lra {

/// An example of the test split, to look at.
struct Sample {
  std::string text;              // of a sequence of symbols
  std::vector<std::string> png;  // of images: a PNG file each
  std::string missing;           // why it cannot be shown; "" = it can
};

/// Shows example `index` of the data a run was tested on.
using SampleReader = std::function<Sample(const Result&, int64_t index)>;

/// Indices of the wrong predictions, the most confident first, at most `count`; empty where no
/// confidence was recorded.
std::vector<int64_t> confident_mistakes(const Predictions& predictions, size_t count);

/// HTML. `drawn` holds the SVG files of run_plots(result, name), by name; one that is missing is
/// left out.
std::string run_page(const Result& result, const std::string& name,
                     const std::map<std::string, std::string>& drawn, const SampleReader& samples);

}  // namespace lra
