// Where the time of a model's step goes (schema lra.where/1): by kind of work, op and part.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "attention_variants/base/enum_names.h"
#include "attention_variants/base/profile_scope.h"
#include "results/records/attention_record.h"
#include "results/records/machine.h"
#include "results/records/profile.h"

namespace lra {

inline constexpr const char* kWhereSchema = "lra.where/1";

enum class WorkKind {
  products,   // of matrices, own linear layers and feed-forward blocks among them
  attention,  // own kernels of attentions and mixers, and LibTorch's
  rows,       // norms, activations, dropout, sums, embeddings, losses
  copies,     // copies and clears
  scratch,    // memory asked for
  optimizer,
  other,  // views, autograd's own work, and ops of no known kind
};
constexpr auto names(WorkKind) {
  return std::array{"products", "attention", "rows", "copies", "scratch", "optimizer", "other"};
}

enum class StepPass { forward, backward };  // of optimizer and loss: forward
constexpr auto names(StepPass) { return std::array{"forward", "backward"}; }

/// One op in one part of the model, without the ops inside it; a mean step.
struct WhereOp {
  WorkKind kind = WorkKind::other;
  std::string op;    // LibTorch's name, "aten::mm", or of an own operator "lra::linear"
  std::string part;  // "embedding", "layer 1", "head", "loss", "optimizer"; "" = of none
  StepPass pass = StepPass::forward;
  double calls = 0;                // a step
  double ms = 0;                   // a step, in all calls
  std::optional<double> flops;     // a step; absent where they are not known
  std::optional<double> bytes;     // read and written, at least; absent where they are not known
  std::optional<double> roofline;  // the least time of these on this machine / ms
};

struct Where {
  AttentionRecord attention;
  int64_t length = 0, batch = 0;
  std::optional<int64_t> heads, head_dim;  // absent in older records
  ProfileMode mode = ProfileMode::training;
  std::string protocol, task, dtype, device;
  std::vector<std::string> sets;  // what differs from the protocol, "a.b=v"
  std::string settings_sha256, protocol_sha256, own_settings_sha256;  // as of a profile
  int64_t threads = 0;
  int64_t steps = 0;        // recorded
  double step_ms = 0;       // a step without recording, median
  double recorded_ms = 0;   // a step with recording, mean; the next three make it up
  double recording_ms = 0;  // taken by the recording itself, in no op
  double ops_ms = 0;        // of all ops
  double outside_ms = 0;    // in no op: the model's own code, and the time in between
  Roofline roofline;
  std::vector<WhereOp> ops;  // those that take longest first
  Machine machine;
  json software = json::object();
  std::string path;  // where it was read from; not written
};

/// Numbers that are not finite become null.
json make_where(const Where& record);
/// Reads a record; throws std::runtime_error that names the field, what was expected and what was
/// found, also where the ops do not add up to ops_ms. Unknown keys are passed over: later minor
/// additions do not make old readers fail.
Where parse_where(const json& value);

}  // namespace lra
