#include <algorithm>
#include <array>

#include "attention_variants/ops/autograd_state.h"
#include "attention_variants/ops/cpu/kernels/gemm/gemm.h"
#include "attention_variants/ops/cpu/kernels/rows/diagonal_scan.h"
#include "attention_variants/ops/cpu/operators.h"
#include "attention_variants/ops/cpu/parallel.h"
#include "attention_variants/ops/cpu/row_tiles.h"
#include "attention_variants/ops/heads.h"

namespace lra::ops::cpu {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kScanChunk = 128;  // positions whose states are held at a time

// The tensors of one call, contiguous, and its sizes.
struct Recurrence {
  torch::Tensor u, transition, input, skip;  // [B,N,D], [2,P], [2P,D], [D]
  std::vector<torch::Tensor> outputs;        // [D,2P] of the forward and the backward direction
  int64_t batch, length, width, states;

  // u, transition, input, skip and outputs.
  explicit Recurrence(const variable_list& given)
      : u(given[0]),
        transition(given[1]),
        input(given[2]),
        skip(given[3]),
        outputs(given.begin() + 4, given.end()),
        batch(u.size(0)),
        length(u.size(1)),
        width(u.size(2)),
        states(transition.size(1)) {}

  int64_t chunks() const { return (length + kScanChunk - 1) / kScanChunk; }
  static ScanOrder order(size_t direction) {
    return direction == 0 ? ScanOrder::forward : ScanOrder::backward;
  }
  ConstMatrix input_rows() const { return {input.const_data_ptr<float>(), width}; }
  ConstMatrix output_rows(size_t direction) const {
    return {outputs[direction].const_data_ptr<float>(), 2 * states};
  }
  ConstMatrix rows_of(const torch::Tensor& x, int64_t b, int64_t begin) const {
    return {x.const_data_ptr<float>() + (b * length + begin) * width, width};
  }
  Matrix mutable_rows_of(const torch::Tensor& x, int64_t b, int64_t begin) const {
    return {x.mutable_data_ptr<float>() + (b * length + begin) * width, width};
  }
  // x: the states of rows [begin, begin + rows) of a sample; carry: those before them, then after.
  void run_chunk(int64_t b, int64_t begin, int64_t rows, ScanOrder order, Matrix x,
                 float* carry) const {
    gemm_nt(rows, 2 * states, width, rows_of(u, b, begin), input_rows(), x);
    scan_rows(transition.const_data_ptr<float>(), states, /*conjugate=*/false, order, x, rows,
              carry);
  }
};

// Calls body(chunk, begin, rows) in the order of a scan, or against it.
template <class Body>
void for_chunks(const Recurrence& of, ScanOrder order, bool reversed, const Body& body) {
  const bool ascending = (order == ScanOrder::forward) != reversed;
  for (int64_t i = 0; i < of.chunks(); ++i) {
    const int64_t chunk = ascending ? i : of.chunks() - 1 - i, begin = chunk * kScanChunk;
    body(chunk, begin, std::min(kScanChunk, of.length - begin));
  }
}

struct ScanPart {
  ScanPart(int64_t states, Arena& arena)
      : x(arena.matrix(kScanChunk, 2 * states)), carry(arena.take(2 * states)) {}
  Matrix x;
  float* carry;
};

struct ScanBackwardPart {
  ScanBackwardPart(int64_t states, int64_t width, size_t directions, Arena& arena)
      : x(arena.matrix(kScanChunk, 2 * states)),
        grad(arena.matrix(kScanChunk, 2 * states)),
        carry(arena.take(2 * states)),
        grad_carry(arena.take(2 * states)),
        transition(take_zeros(arena, 2 * states)),
        input(take_zeros(arena, 2 * states * width)),
        skip(take_zeros(arena, width)),
        output(take_zeros(arena, 2 * states * width)),
        output_back(directions == 2 ? take_zeros(arena, 2 * states * width) : nullptr) {}
  Matrix x, grad;
  float *carry, *grad_carry;
  float *transition, *input, *skip, *output, *output_back;  // sums
};

class DiagonalScan : public torch::autograd::Function<DiagonalScan> {
 public:
  static torch::Tensor forward(AutogradContext* context, at::TensorList given,
                               bool differentiated) {
    variable_list kept;
    for (const torch::Tensor& t : given) kept.push_back(dense(t));
    const Recurrence of(kept);
    const torch::Tensor y = torch::empty_like(of.u);
    const int64_t directions = std::ssize(of.outputs);
    // The states before each chunk.
    const torch::Tensor between = torch::empty(
        {differentiated ? directions : 0, of.batch, of.chunks(), 2 * of.states}, of.u.options());
    RowTileWorkers<ScanPart> parts(threads_for(of.batch), of.states);
    parallel_for_dynamic(of.batch, [&](int64_t b, int64_t thread) {
      for (size_t direction = 0; direction < of.outputs.size(); ++direction)
        forward_sample(of, b, direction, between, y, parts[thread]);
    });
    if (differentiated) {
      kept.push_back(between);
      context->save_for_backward(kept);
    }
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    variable_list kept = saved_tensors(*context);
    const torch::Tensor between = kept.back(), grad_y = dense(gradients[0]);
    kept.pop_back();
    const Recurrence of(kept);
    const torch::Tensor grad_u = torch::empty_like(of.u);
    const int64_t workers = threads_for(of.batch);
    RowTileWorkers<ScanBackwardPart> parts(workers, of.states, of.width, of.outputs.size());
    parallel_for_dynamic(workers, [&](int64_t worker, int64_t) {
      for (int64_t b = of.batch * worker / workers; b < of.batch * (worker + 1) / workers; ++b) {
        for (size_t direction = 0; direction < of.outputs.size(); ++direction)
          backward_sample(of, b, direction, between, grad_y, grad_u, parts[worker]);
      }
    });
    variable_list found = {grad_u, parts.sum(&ScanBackwardPart::transition, of.transition),
                           parts.sum(&ScanBackwardPart::input, of.input),
                           parts.sum(&ScanBackwardPart::skip, of.skip),
                           parts.sum(&ScanBackwardPart::output, of.outputs[0])};
    if (of.outputs.size() == 2)
      found.push_back(parts.sum(&ScanBackwardPart::output_back, of.outputs[1]));
    found.emplace_back();  // of `differentiated`
    return found;
  }

 private:
  static float* carry_of(const Recurrence& of, const torch::Tensor& between, size_t direction,
                         int64_t b, int64_t chunk) {
    const int64_t sample = static_cast<int64_t>(direction) * of.batch + b;
    return between.mutable_data_ptr<float>() + (sample * of.chunks() + chunk) * 2 * of.states;
  }

  static void forward_sample(const Recurrence& of, int64_t b, size_t direction,
                             const torch::Tensor& between, const torch::Tensor& y,
                             const ScanPart& part) {
    const ScanOrder order = Recurrence::order(direction);
    std::fill(part.carry, part.carry + 2 * of.states, 0.0F);
    for_chunks(of, order, /*reversed=*/false, [&](int64_t chunk, int64_t begin, int64_t rows) {
      if (between.numel() > 0) {
        std::copy(part.carry, part.carry + 2 * of.states,
                  carry_of(of, between, direction, b, chunk));
      }
      of.run_chunk(b, begin, rows, order, part.x, part.carry);
      gemm_nt(rows, of.width, 2 * of.states, part.x, of.output_rows(direction),
              of.mutable_rows_of(y, b, begin), {.old = direction == 0 ? 0.0F : 1.0F});
      if (direction == 0) {
        add_scaled_columns(of.rows_of(of.u, b, begin), rows, of.width,
                           of.skip.const_data_ptr<float>(), of.mutable_rows_of(y, b, begin));
      }
    });
  }

  // g_t = Cᴴ dy_t + conj(λ) g_{t+1} of states x_t; they are computed again, chunk by chunk.
  static void backward_sample(const Recurrence& of, int64_t b, size_t direction,
                              const torch::Tensor& between, const torch::Tensor& grad_y,
                              const torch::Tensor& grad_u, const ScanBackwardPart& part) {
    const ScanOrder order = Recurrence::order(direction), against = order == ScanOrder::forward
                                                                        ? ScanOrder::backward
                                                                        : ScanOrder::forward;
    const int64_t columns = 2 * of.states;
    float* const grad_output = direction == 0 ? part.output : part.output_back;
    std::fill(part.grad_carry, part.grad_carry + columns, 0.0F);
    for_chunks(of, order, /*reversed=*/true, [&](int64_t chunk, int64_t begin, int64_t rows) {
      const float* const before = carry_of(of, between, direction, b, chunk);
      std::copy(before, before + columns, part.carry);
      of.run_chunk(b, begin, rows, order, part.x, part.carry);
      const ConstMatrix given = of.rows_of(grad_y, b, begin);
      gemm(rows, columns, of.width, given, of.output_rows(direction), part.grad);
      scan_rows(of.transition.const_data_ptr<float>(), of.states, /*conjugate=*/true, against,
                part.grad, rows, part.grad_carry);
      add_transition_gradients(part.x, part.grad, rows, of.states, order, before, part.transition);
      gemm_tn(of.width, columns, rows, given, part.x, {grad_output, columns}, {.old = 1});
      gemm_tn(columns, of.width, rows, part.grad, of.rows_of(of.u, b, begin),
              {part.input, of.width}, {.old = 1});
      gemm(rows, of.width, columns, part.grad, of.input_rows(),
           of.mutable_rows_of(grad_u, b, begin), {.old = direction == 0 ? 0.0F : 1.0F});
      if (direction == 0) {
        add_scaled_columns(given, rows, of.width, of.skip.const_data_ptr<float>(),
                           of.mutable_rows_of(grad_u, b, begin));
        add_column_products(given, of.rows_of(of.u, b, begin), rows, of.width, part.skip);
      }
    });
  }
};

}  // namespace

bool takes(const Place& place, const DiagonalScanShape& shape) {
  return is_cpu_float(place) && shape.float_parameters;
}

torch::Tensor run(const DiagonalScanCall& call) {
  variable_list given = {call.u, call.transition, call.input, call.skip, call.output};
  if (call.output_back.defined()) given.push_back(call.output_back);
  return DiagonalScan::apply(at::TensorList(given), is_differentiated(given));
}

}  // namespace lra::ops::cpu
