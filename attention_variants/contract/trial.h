// What the clauses of the contract are tried with: the attention under trial, its inputs, and what
// has been seen of it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "attention_variants/contract/contract.h"
#include "attention_variants/torch.h"

namespace lra::contract {

using Tensors = std::vector<torch::Tensor>;

/// Collects what a clause sees, and says at the end whether it holds.
class ClauseReport {
 public:
  explicit ClauseReport(Grade grade) : grade_(grade) {}

  /// What failures from here on mean.
  void grade(Grade grade) { grade_ = grade; }
  /// `value` should be at most `limit`; NaN is not.
  void at_most(const std::string& what, double value, double limit);
  /// `holds` should be true; `otherwise` says what it is when not.
  void that(bool holds, const std::string& otherwise);
  /// What is measured, where nothing can be.
  void note(const std::string& text) { nearest_text_ = text; }
  /// No NaN and no infinity.
  void finite(const std::string& what, const torch::Tensor& t);
  /// A call at a length ended in an error, which is fragile: no result, and none that is wrong.
  /// Memory that runs out is thrown again.
  void refused(int64_t positions, const std::exception& error);
  /// The clause could not be tried to its end.
  void ended_in(const std::exception& error);

  Verdict verdict(const std::string& clause) const;

 private:
  int64_t count_ = 0;
  double nearest_ = -1;  // the largest value / limit that holds, and its text
  std::string nearest_text_;
  struct Failure {
    Grade grade;
    std::string text;
    bool nan = false, refused = false;
  };

  Grade grade_;
  std::vector<Failure> failures_;
  bool ended_early_ = false;
};

/// One way into an attention, and what it is given: attend(q, k, v, mask) as the layer's own
/// projections would call it, or forward(x, mask).
struct EntryPoint {
  bool attends = false;
  std::vector<std::string> leaves;  // q, k, v; or q, v where k is q; or v alone; or x

  std::string name() const { return attends ? "attend()" : "forward()"; }
};

struct Inputs {
  Tensors leaves;      // [B,H,N,d] each, or x [B,N,D]
  torch::Tensor mask;  // [B,N] bool

  Tensors changed(const std::function<torch::Tensor(const torch::Tensor&)>& how) const;
  /// True at padded positions, for broadcasting over a leaf.
  torch::Tensor padded() const;
  /// Leaves of their own, that need gradients.
  Inputs needing_gradients() const;
};

/// How far apart outputs in float64 may be that are of the same function, by the order of sums.
inline constexpr double kExact = 1e-12;
/// The same in float32.
inline constexpr double kExactInFloat32 = 1e-5;

class ContractProbe {
 public:
  explicit ContractProbe(const ContractSubject& subject);

  /// attend() where there is one, then forward().
  const std::vector<EntryPoint>& forms() const { return forms_; }
  /// The attention itself where it has that form.
  const EntryPoint& core() const { return forms_.front(); }
  /// The whole layer.
  const EntryPoint& layer() const { return forms_.back(); }
  const ContractSubject& subject() const { return subject_; }

  /// In evaluation mode.
  std::shared_ptr<Attention> make(torch::ScalarType type = torch::kDouble) const;
  /// With the types of its parameters and buffers left alone.
  std::shared_ptr<Attention> as_made() const;
  /// ContractSubject::make_dropping in float64; null where that is empty.
  std::shared_ptr<Attention> make_dropping() const;
  /// `initial_seed`: of torch's global generator, from which parameters are initialised.
  std::shared_ptr<Attention> make(torch::ScalarType type, const AttentionContext& context,
                                  uint64_t initial_seed) const;
  /// Calls `tries` with one made for kFarPositions. Not where it says (by Unsupported) that it
  /// takes no so many, nor where it was to be made for less and ends in another error (refused()).
  void far(ClauseReport& f, const std::function<void(Attention&)>& tries) const;

  /// Gaussian leaves for a mask [B,N].
  Inputs inputs(const EntryPoint& form, const torch::Tensor& mask,
                torch::ScalarType type = torch::kDouble, uint64_t seed = 1) const;

  /// mask [B,N] with the first lengths[b] positions of sample b real. An empty sample gets one
  /// token where the attention is not finite on empty ones: one clause says so, the others need
  /// not.
  torch::Tensor samples(std::vector<int64_t> lengths, int64_t n) const;

  torch::Tensor call(Attention& attention, const EntryPoint& form, const Inputs& in) const;
  /// The same with the rows of padded positions zero, as the harness makes them: what stands there
  /// reaches nothing.
  torch::Tensor call_real(Attention& attention, const EntryPoint& form, const Inputs& in) const;
  /// The output in training of one made anew, from generators of that seed.
  torch::Tensor train(const EntryPoint& form, const Inputs& in, uint64_t seed = 0) const;

  /// kExact, or kExactInFloat32 where it computes in float32 whatever it is given.
  double exactness() const;

  /// The output, with and without a gradient asked for, and the gradients of all leaves are finite.
  void check_finite(ClauseReport& f, Attention& attention, const EntryPoint& form,
                    const Inputs& given, const std::string& when) const;

 private:
  bool has_attend(Attention& attention, const EntryPoint& form) const;
  bool is_finite_on_empty_samples() const;

  const ContractSubject& subject_;
  std::vector<EntryPoint> forms_;
  bool takes_empty_samples_ = true;
  mutable std::optional<double> exactness_;  // once it was asked for
};

/// "Float", "BFloat16"
inline const char* type_name(torch::ScalarType type) { return c10::toString(type); }

/// mask [B,N] with the first lengths[b] positions of sample b real.
torch::Tensor first(const std::vector<int64_t>& lengths, int64_t n);

/// max |a - b| / max(1, max |b|)
double difference(const torch::Tensor& a, const torch::Tensor& b);

/// The gradients of a loss in all leaves, zero where it does not depend on one.
Tensors gradients(const torch::Tensor& loss, const Tensors& leaves);

/// A sum of all outputs with fixed random weights, so that its gradient is nowhere zero.
torch::Tensor weighted_sum(const torch::Tensor& out);

}  // namespace lra::contract
