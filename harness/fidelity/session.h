// The cells of one call of `lra fidelity`, and the file that they go to.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "harness/fidelity/fidelity.h"
#include "harness/fidelity/fidelity_file.h"
#include "harness/fidelity/fidelity_inputs.h"
#include "harness/fidelity/measures.h"
#include "harness/host/progress.h"
#include "results/records/fidelity.h"

namespace lra::fidelity {

class Session {
 public:
  /// Opens the trained run, where there is one, and then the file.
  explicit Session(const FidelityRequest& request);

  /// Random inputs of the request's sizes, or of an experiment's own where it asks for none.
  FidelityInputs random(int64_t own_trials, int64_t heads, int64_t length,
                        int64_t own_head_dim) const;
  /// The given inputs and, where there is a run, those of its layers at the same length; where it
  /// has none, a cell for each of `attentions` that says why.
  std::vector<FidelityInputs> with_trained(int64_t experiment, FidelityInputs given,
                                           const std::vector<AttentionRecord>& attentions);

  /// A record of such a cell, without attention, budget and measures.
  Fidelity cell(int64_t experiment, const FidelityInputs& inputs, const char* dtype) const;

  /// Begins the progress of `count` cells.
  void begin(int64_t experiment, const FidelityInputs& inputs, int64_t count);
  /// Does a cell that the file lacks, and records any status. `work` gives samples and may fill in
  /// the rest; it returns false where the cell is not to be.
  void add(Fidelity record, const std::function<bool(Fidelity&, Measures&)>& work);

  /// How many cells the file holds.
  int64_t size() const { return static_cast<int64_t>(file_.size()); }

 private:
  bool attempt(Fidelity& record, const std::function<bool(Fidelity&, Measures&)>& work) const;

  const FidelityRequest& request_;
  const Machine machine_;
  const std::optional<TrainedInputs> trained_;
  FidelityFile file_;  // after what may refuse: nothing is begun then
  std::optional<host::Progress> progress_;
  int64_t done_ = 0;
};

}  // namespace lra::fidelity
