#include "harness/where/step_recorder.h"

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <atomic>
#include <string_view>

#include "harness/host/runtime.h"
#include "harness/where/op_traits.h"

namespace lra::where {
namespace {

std::atomic<StepRecorder*> active_recorder{nullptr};
// What runs on this thread: the innermost frame.
thread_local at::ObserverContext* innermost_frame = nullptr;

constexpr std::string_view kEngine = "autograd::engine::evaluate_function";
// How autograd calls the nodes of torch::autograd::Function, which own kernels are.
constexpr std::string_view kOwnNode = "CppNode<";

}  // namespace

// A call that has not ended.
struct StepRecorder::Frame : at::ObserverContext {
  Frame* parent = nullptr;
  bool is_scope = false, opens_part = false;
  Clock::time_point entered, started;  // before and after what the recording itself does
  std::chrono::nanoseconds inside{0};  // in the frames that it calls, with their recording
  uint64_t first_node = 0;             // of autograd's sequence
  std::string op, part;
  StepPass pass = StepPass::forward;
  OpTraits traits;
  double flops = -1, bytes = -1;
  double flops_inside = 0, bytes_inside = 0;  // accounts of the calls that it makes
  std::vector<const void*> seen;              // tensors that are in `bytes`

  void count(const c10::IValue& value) {
    if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) count(tensor);
    } else if (value.isTensor()) {
      count(value.toTensor());
    }
  }
  void count(const at::Tensor& tensor) {
    if (!tensor.defined() || !tensor.has_storage()) return;
    const void* data = tensor.const_data_ptr();
    if (std::ranges::find(seen, data) != seen.end()) return;
    seen.push_back(data);
    // What is expanded is no larger than what it is of.
    bytes += static_cast<double>(std::min(tensor.nbytes(), tensor.storage().nbytes()));
  }

  bool counts_tensors() const { return traits.account == Account::moved || is_product(); }
  bool is_product() const {
    return traits.account == Account::product || traits.account == Account::sum;
  }

  // Of what the call is given.
  void take_account(c10::ArrayRef<const c10::IValue> inputs) {
    if (traits.account == Account::own && inputs.size() == 2) {
      flops = static_cast<double>(inputs[0].toInt());
      bytes = static_cast<double>(inputs[1].toInt());
    }
    if (!counts_tensors()) return;
    bytes = 0;
    for (const c10::IValue& input : inputs) count(input);
    const size_t first = traits.account == Account::sum ? 1 : 0;
    if (!is_product() || inputs.size() < first + 2 || !inputs[first].isTensor() ||
        !inputs[first + 1].isTensor())
      return;
    const at::Tensor a = inputs[first].toTensor(), b = inputs[first + 1].toTensor();
    if (a.defined() && b.defined() && b.dim() >= 2)
      flops = 2 * static_cast<double>(a.numel()) * static_cast<double>(b.size(-1));
  }

  // The work of an operator that hands it on is that of those inside. A small part of it, as the
  // clearing of sums, may be theirs beside its own.
  void drop_account_of_inside() {
    const bool handed_on = is_product() ? flops_inside > 0 && flops_inside >= flops
                                        : bytes_inside > 0 && bytes_inside >= bytes;
    if (counts_tensors() && handed_on) flops = bytes = -1;
  }
  // An overload of an operator that calls another is one call of it, by the outer's account.
  bool is_forwarded() const { return !is_scope && parent != nullptr && parent->op == op; }
  void tell_parent() const {
    if (parent == nullptr) return;
    const bool handed_on = is_forwarded();
    parent->flops_inside += handed_on || flops < 0 ? flops_inside : flops;
    parent->bytes_inside += handed_on || bytes < 0 ? bytes_inside : bytes;
  }
};

namespace {

// -1 once a number is not known.
void add_known(double& sum, double number) { sum = sum < 0 || number < 0 ? -1 : sum + number; }

}  // namespace

StepRecorder::StepRecorder(torch::Device device) : device_(device) {
  StepRecorder* none = nullptr;
  TORCH_CHECK(active_recorder.compare_exchange_strong(none, this),
              "steps are recorded by one recorder at a time");
  handle_ = at::addGlobalCallback(
      at::RecordFunctionCallback(start, end)
          .needsInputs(true)
          .needsOutputs(true)
          .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION,
                   at::RecordScope::USER_SCOPE}));
}

StepRecorder::~StepRecorder() {
  at::removeCallback(handle_);
  active_recorder = nullptr;
}

void StepRecorder::record(const std::function<void()>& step) {
  made_.clear();
  host::synchronize(device_);
  const auto begin = Clock::now();
  step();
  host::synchronize(device_);
  total_ += Clock::now() - begin;
  ++steps_;
}

std::unique_ptr<at::ObserverContext> StepRecorder::start(const at::RecordFunction& function) {
  StepRecorder* recorder = active_recorder;
  if (recorder == nullptr) return nullptr;
  host::synchronize(recorder->device_);  // what was begun before is not of this call
  const auto entered = Clock::now();
  auto frame = std::make_unique<Frame>();
  frame->entered = entered;
  frame->parent = static_cast<Frame*>(innermost_frame);
  recorder->describe(function, *frame);
  innermost_frame = frame.get();
  frame->started = Clock::now();
  return frame;
}

void StepRecorder::end(const at::RecordFunction& function, at::ObserverContext* context) {
  StepRecorder* recorder = active_recorder;
  if (recorder == nullptr || context == nullptr) return;
  host::synchronize(recorder->device_);
  const auto ended = Clock::now();
  auto& frame = static_cast<Frame&>(*context);
  innermost_frame = frame.parent;
  recorder->finish(function, frame, ended);
}

void StepRecorder::describe(const at::RecordFunction& function, Frame& frame) {
  const std::string_view name = function.name();
  if (frame.parent != nullptr) {
    frame.part = frame.parent->part;
    frame.pass = frame.parent->pass;
  }
  frame.first_node = at::sequence_number::peek();
  switch (function.scope()) {
    case at::RecordScope::USER_SCOPE:
      frame.is_scope = true;
      frame.opens_part = frame.part.empty() && frame.pass == StepPass::forward;
      if (frame.opens_part) frame.part = name;
      return;
    case at::RecordScope::BACKWARD_FUNCTION:
      describe_node(function, frame);
      return;
    default:
      break;
  }
  if (name.starts_with(kEngine)) {
    frame.op = kEngine;
    frame.pass = StepPass::backward;
    return;
  }
  frame.op = name;
  frame.traits = traits_of(name);
  frame.take_account(function.inputs());
}

// A node of autograd's graph: of the part and the own operator whose forward pass made it.
void StepRecorder::describe_node(const at::RecordFunction& function, Frame& frame) {
  const std::string_view name = function.name();
  frame.op = name;
  frame.pass = StepPass::backward;
  const std::scoped_lock lock(mutex_);
  if (const Made* part = maker_of(function.seqNr(), /*operators=*/false)) frame.part = part->part;
  // The engine's frame around it adds up gradients and frees what the node kept.
  if (frame.parent != nullptr && frame.parent->op == kEngine) frame.parent->part = frame.part;
  if (name.find(kOwnNode) == std::string_view::npos) return;
  if (Made* own = maker_of(function.seqNr(), /*operators=*/true)) {
    frame.op = own->op;
    frame.traits = {own->kind, Account::own};
    // Each product of the forward pass has two gradients.
    frame.flops = 2 * own->flops;
    if (own->flops > 0) own->flops = 0;  // a second node adds none
  }
}

StepRecorder::Made* StepRecorder::maker_of(int64_t number, bool operators) {
  if (number < 0) return nullptr;
  const auto node = static_cast<uint64_t>(number);
  const auto found = std::ranges::find_if(made_, [&](const Made& made) {
    return made.op.empty() != operators && made.begin <= node && node < made.end;
  });
  return found == made_.end() ? nullptr : &*found;
}

void StepRecorder::finish(const at::RecordFunction& function, Frame& frame,
                          Clock::time_point ended) {
  const std::scoped_lock lock(mutex_);
  if (frame.counts_tensors()) {
    for (const c10::IValue& output : function.outputs()) frame.count(output);
  }
  frame.drop_account_of_inside();
  const bool own = frame.traits.account == Account::own && frame.pass == StepPass::forward;
  if (frame.opens_part || own) {
    made_.push_back({.begin = frame.first_node,
                     .end = at::sequence_number::peek(),
                     .part = frame.part,
                     .op = frame.op,
                     .kind = frame.traits.kind,
                     .flops = frame.flops});
  }
  if (!frame.is_scope) {
    OpSum& sum = sums_[{frame.traits.kind, frame.op, frame.part, frame.pass}];
    sum.time += ended - frame.started - frame.inside;
    if (!frame.is_forwarded()) {
      ++sum.calls;
      add_known(sum.flops, frame.flops);
      add_known(sum.bytes, frame.bytes);
    }
  }
  frame.tell_parent();
  const auto now = Clock::now();
  recording_ += (now - ended) + (frame.started - frame.entered);
  if (frame.parent != nullptr) frame.parent->inside += now - frame.entered;
}

}  // namespace lra::where
