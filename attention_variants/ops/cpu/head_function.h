// An operator that computes one head of one sample at a time, as a function of autograd.
#pragma once

#include <algorithm>
#include <utility>

#include "attention_variants/ops/autograd_state.h"
#include "attention_variants/ops/cpu/heads.h"
#include "attention_variants/ops/cpu/rounding.h"
#include "attention_variants/ops/heads.h"
#include "attention_variants/torch.h"

namespace lra::ops::cpu {

/// The tensors of one call. `in` is as given, the first Op::kHeadInputs of them [B,H,N,d] with
/// contiguous rows, in float32 or bfloat16, the others contiguous.
struct HeadTensors {
  torch::autograd::variable_list in;
  torch::Tensor out;                     // [B,H,M,e]
  torch::autograd::variable_list state;  // what the backward pass reads beside
};

/// Op is made of HeadTensors and its Options and has
///   kInputs, kHeadInputs, kKept: tensors given; of heads, first; kept for the backward pass, first
///   kReadsOut: whether the backward pass reads the result
///   kOutRows: of the result that forward() has from rows() at a time, at most
///   allocate(tensors, differentiated): out and state; it may change both
///   items(Pass), parts(Pass) and scratch(Pass): how many items there are, ranges that positions of
///   one are cut into, and the bytes that one works in
///   forward(item, arena, team)
///   allocate_gradients(gradients) of inputs that are not heads, where there are any
///   backward(item, grad_out, gradients, arena, team)
///   finish(gradients), on the caller's thread
template <class Op>
class HeadFunction : public torch::autograd::Function<HeadFunction<Op>> {
  using Context = torch::autograd::AutogradContext;
  using List = torch::autograd::variable_list;
  using Options = typename Op::Options;

 public:
  static torch::Tensor call(const List& given, const Options& options) {
    return HeadFunction::apply(at::TensorList(given), options, is_differentiated(given));
  }

  static torch::Tensor forward(Context* context, at::TensorList given, const Options& options,
                               bool differentiated) {
    const GemmPrecisionScope scope(save_gemm_precision(*context));
    HeadTensors tensors;
    for (size_t i = 0; i < given.size(); ++i) {
      tensors.in.push_back(i < Op::kHeadInputs ? with_contiguous_rows(given[i]) : dense(given[i]));
    }
    Op op(tensors, options);
    op.allocate(tensors, differentiated);
    const List heads(tensors.in.begin(), tensors.in.begin() + Op::kHeadInputs);
    parallel_for_heads(
        op.items(Pass::forward), op.parts(Pass::forward),
        with_copies(op.scratch(Pass::forward),
                    copied_bytes(heads) + copied_bytes(tensors.out, Op::kOutRows)),
        [&](int64_t item, Arena& arena, const Team& team) { op.forward(item, arena, team); });
    if (differentiated) {
      List kept(tensors.in.begin(), tensors.in.begin() + Op::kKept);
      if (Op::kReadsOut) kept.push_back(tensors.out);
      kept.insert(kept.end(), tensors.state.begin(), tensors.state.end());
      context->save_for_backward(kept);
      save_settings(*context, options);
    }
    return tensors.out;
  }

  static List backward(Context* context, List given) {
    const GemmPrecisionScope scope(saved_gemm_precision(*context));
    const List kept = saved_tensors(*context);
    const auto inputs = kept.begin() + Op::kKept, state = inputs + (Op::kReadsOut ? 1 : 0);
    const HeadTensors tensors{.in = {kept.begin(), inputs},
                              .out = Op::kReadsOut ? *inputs : torch::Tensor(),
                              .state = at_cache_lines({state, kept.end()})};
    const Op op(tensors, saved_settings<Options>(*context));
    const torch::Tensor grad_out = with_contiguous_rows(given[0]);
    List gradients(Op::kInputs + 2);  // undefined of what is not differentiated, and of the options
    for (size_t i = 0; i < Op::kHeadInputs; ++i) gradients[i] = empty_heads_like(tensors.in[i]);
    List heads(tensors.in.begin(), tensors.in.begin() + Op::kHeadInputs);
    heads.insert(heads.end(), gradients.begin(), gradients.begin() + Op::kHeadInputs);
    heads.push_back(grad_out);
    if (Op::kReadsOut) heads.push_back(tensors.out);
    op.allocate_gradients(gradients);
    parallel_for_heads(op.items(Pass::backward), op.parts(Pass::backward),
                       with_copies(op.scratch(Pass::backward), copied_bytes(heads)),
                       [&](int64_t item, Arena& arena, const Team& team) {
                         op.backward(item, grad_out, gradients, arena, team);
                       });
    op.finish(gradients);
    return gradients;
  }

 private:
  // Hooks on saved tensors may give back copies that lie otherwise.
  static List at_cache_lines(List state) {
    for (torch::Tensor& one : state) {
      if (reinterpret_cast<uintptr_t>(one.const_data_ptr()) % Arena::kLine != 0) one = one.clone();
    }
    return state;
  }

  static HeadScratch with_copies(HeadScratch bytes, int64_t copies) {
    bytes.head += copies;
    return bytes;
  }
};

/// What most Ops are: an item is a head of a sample, and gradients are those of heads.
class HeadOp {
 public:
  static constexpr int64_t kOutRows = INT64_MAX;

  explicit HeadOp(const HeadTensors& tensors)
      : tensors_(tensors), batch_(tensors.in[0].size(0)), heads_(tensors.in[0].size(1)) {}
  int64_t items(Pass) const { return batch_ * heads_; }
  int64_t parts(Pass) const { return 1; }
  void allocate_gradients(torch::autograd::variable_list&) const {}
  void finish(torch::autograd::variable_list&) const {}

 protected:
  // What is in bfloat16 is copied to the arena, and from there.
  ConstMatrix head(const torch::Tensor& x, int64_t item, Arena& arena) const {
    return read_head(x, item / heads_, item % heads_, arena);
  }
  ConstMatrix input(size_t i, int64_t item, Arena& arena) const {
    return head(tensors_.in[i], item, arena);
  }
  WrittenHead rows(const torch::Tensor& x, int64_t item, Arena& arena,
                   OldRows old = OldRows::unread) const {
    return {x, item / heads_, item % heads_, {0, x.size(2)}, arena, old};
  }
  /// The sample's row of a mask [B,N]; null where it has no elements, which stands for none.
  const bool* mask_row(const torch::Tensor& mask, int64_t item) const {
    return mask.numel() == 0 ? nullptr : mask.const_data_ptr<bool>() + item / heads_ * mask.size(1);
  }

  const HeadTensors& tensors_;
  const int64_t batch_, heads_;
};

}  // namespace lra::ops::cpu
