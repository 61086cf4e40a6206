// The cells of one call of `lra fidelity`, and the file that they go to.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness/fidelity/fidelity.h"
#include "harness/fidelity/fidelity_file.h"
#include "harness/fidelity/fidelity_inputs.h"
#include "harness/fidelity/measures.h"
#include "harness/host/memory.h"
#include "harness/host/progress.h"
#include "results/records/fidelity.h"

namespace lra::fidelity {

/// Sizes of inputs; trials and head_dim are an experiment's own, which the request goes over.
struct InputSizes {
  int64_t trials, heads, length, head_dim;  // T, H, n, d
};

class Session {
 public:
  /// Opens the trained run, where there is one, and then the file. The request's memory limit holds
  /// until the end.
  explicit Session(const FidelityRequest& request);

  /// Random inputs, with what `prepare` makes of them; nothing where memory runs out in that: then
  /// a cell for each of `attentions` says so.
  std::optional<FidelityInputs> random(
      int64_t experiment, const InputSizes& own, const std::vector<AttentionRecord>& attentions,
      const std::function<void(const FidelityInputs&)>& prepare = {});
  /// Random inputs and, where there is a run, those of its layers at the same length. Those that
  /// there are not, or not the memory for, are left out, and a cell for each of `attentions` says
  /// why.
  std::vector<FidelityInputs> with_trained(int64_t experiment, const InputSizes& own,
                                           const std::vector<AttentionRecord>& attentions);

  /// A record of such a cell, without attention, budget and measures.
  Fidelity cell(int64_t experiment, const FidelityInputs& inputs, const char* dtype) const;

  /// Begins the progress of `count` cells.
  void begin(int64_t experiment, const FidelityInputs& inputs, int64_t count);
  /// Does a cell that the file lacks, and records any status. `work` gives samples and may fill in
  /// the rest; it returns false where the cell is not to be.
  void add(Fidelity record, const std::function<bool(Fidelity&, Measures&)>& work);

  /// The cells of this call that ended in a crash, "nystrom at length 512 (experiment 4): why".
  const std::vector<std::string>& crashed() const { return crashed_; }

  /// How many cells the file holds.
  int64_t size() const { return static_cast<int64_t>(file_.size()); }

 private:
  bool attempt(Fidelity& record, const std::function<bool(Fidelity&, Measures&)>& work) const;
  InputSizes asked(InputSizes own) const;
  // The error that is being handled, as a cell without a budget for each of `attentions`.
  void add_failed(int64_t experiment, const InputSizes& sizes, const FidelityData& data,
                  const std::vector<AttentionRecord>& attentions);

  const FidelityRequest& request_;
  const host::CpuMemoryLimit limited_;
  const Machine machine_;
  const std::optional<TrainedInputs> trained_;
  FidelityFile file_;  // after what may refuse: nothing is begun then
  std::optional<host::Progress> progress_;
  int64_t done_ = 0;
  std::vector<std::string> crashed_;
};

}  // namespace lra::fidelity
