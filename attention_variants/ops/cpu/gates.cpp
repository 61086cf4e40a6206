#include "attention_variants/ops/gates.h"
#include "attention_variants/ops/heads.h"

#include "attention_variants/ops/autograd_state.h"
#include "attention_variants/ops/cpu/kernels/rows/gates.h"
#include "attention_variants/ops/cpu/operators.h"
#include "attention_variants/ops/cpu/row_tiles.h"

namespace lra::ops::cpu {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Tiles of these rows, with a worker's memory between them and the loops.
template <class Body>
void for_tiles(const torch::Tensor& like, const StoredList& stored, const Body& body) {
  const int64_t rows = like.size(-1) == 0 ? 0 : like.numel() / like.size(-1);
  RowTileWorkers<TilesBetween> between(row_tile_workers(rows), stored);
  parallel_for_row_tiles(
      rows, nullptr,
      [&](int64_t worker, int64_t begin, int64_t count) { body(begin, count, between[worker]); },
      [](int64_t, int64_t) {});
}

class GeluOfRows : public torch::autograd::Function<GeluOfRows> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& given, Gelu form) {
    const torch::Tensor x = dense(given), out = torch::empty_like(x);
    context->save_for_backward({x});
    save_settings(*context, form);
    const StoredRows from(x), to(out);
    for_tiles(x, {from, to}, [&](int64_t begin, int64_t count, const TilesBetween& own) {
      float* const y = to.to_write(begin, own[1]);
      gelu_of(form, from.read(begin, count, own[0]), count * to.width(), y);
      to.store(begin, count, y);
    });
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const torch::Tensor x = saved_tensors(*context)[0], grad = dense(gradients[0]),
                        grad_x = torch::empty_like(x);
    const Gelu form = saved_settings<Gelu>(*context);
    const StoredRows from(x), given(grad), to(grad_x);
    for_tiles(x, {from, given, to}, [&](int64_t begin, int64_t count, const TilesBetween& own) {
      float* const y = to.to_write(begin, own[2]);
      gelu_backward(form, from.read(begin, count, own[0]), given.read(begin, count, own[1]),
                    count * to.width(), y);
      to.store(begin, count, y);
    });
    return {grad_x, {}};
  }
};

// value and gate [..,D]; or value [..,2D], whose second half is the gate, and a gate of no
// elements.
class SigmoidGate : public torch::autograd::Function<SigmoidGate> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& value_given,
                               const torch::Tensor& gate_given) {
    const torch::Tensor value = dense(value_given), gate = dense(gate_given);
    context->save_for_backward({value, gate});
    std::vector<int64_t> sizes = value.sizes().vec();
    sizes.back() = gate.numel() == 0 ? value.size(-1) / 2 : value.size(-1);
    const torch::Tensor out = torch::empty(sizes, value.options().dtype(torch::promote_types(
                                                      value.scalar_type(), gate.scalar_type())));
    const StoredRows values(value), gates(gate), to(out);
    for_tiles(out, {values, gates, to}, [&](int64_t begin, int64_t count, const TilesBetween& own) {
      const Gated in = read(values, gates, begin, count, own[0], own[1]);
      float* const y = to.to_write(begin, own[2]);
      gate_rows(in.value, in.gate, count, to.width(), {y, to.width()});
      to.store(begin, count, y);
    });
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list kept = saved_tensors(*context);
    const torch::Tensor &value = kept[0], &gate = kept[1], grad = dense(gradients[0]),
                        grad_value = torch::empty_like(value), grad_gate = torch::empty_like(gate);
    const StoredRows values(value), gates(gate), given(grad), to_value(grad_value),
        to_gate(grad_gate);
    for_tiles(grad, {values, gates, given, to_value, to_gate},
              [&](int64_t begin, int64_t count, const TilesBetween& own) {
                const Gated in = read(values, gates, begin, count, own[0], own[1]);
                const int64_t width = given.width(), stride = values.width();
                float* const of_value = to_value.to_write(begin, own[3]);
                float* const of_gate =
                    gate.numel() == 0 ? of_value + width : to_gate.to_write(begin, own[4]);
                gate_rows_backward(in.value, in.gate, {given.read(begin, count, own[2]), width},
                                   count, width, {of_value, stride}, {of_gate, stride});
                to_value.store(begin, count, of_value);
                if (gate.numel() > 0) to_gate.store(begin, count, of_gate);
              });
    return {grad_value, gate.numel() == 0 ? torch::Tensor() : grad_gate};
  }

 private:
  struct Gated {
    ConstMatrix value, gate;
  };

  static Gated read(const StoredRows& values, const StoredRows& gates, int64_t begin, int64_t count,
                    float* value, float* gate) {
    const ConstMatrix rows{values.read(begin, count, value), values.width()};
    if (gates.width() > 0) return {rows, {gates.read(begin, count, gate), gates.width()}};
    return {rows, {rows.data + values.width() / 2, values.width()}};
  }
};

}  // namespace

bool takes(const Place& place, const ElementsShape& shape) {
  return is_cpu_stored(place) && shape.count > 0 && shape.alike;
}

torch::Tensor run(const GeluCall& call) { return GeluOfRows::apply(call.x, call.form); }

torch::Tensor run(const SigmoidGateCall& call) {
  return SigmoidGate::apply(
      call.value, call.gate.defined() ? call.gate : torch::empty({0}, call.value.options()));
}

}  // namespace lra::ops::cpu
