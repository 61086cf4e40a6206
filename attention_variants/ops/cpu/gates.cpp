#include "attention_variants/ops/gates.h"

#include "attention_variants/ops/autograd_state.h"
#include "attention_variants/ops/cpu/kernels/rows/gates.h"
#include "attention_variants/ops/cpu/operators.h"
#include "attention_variants/ops/cpu/row_tiles.h"

namespace lra::ops::cpu {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

ConstMatrix all_rows(const torch::Tensor& x) { return {x.const_data_ptr<float>(), x.size(-1)}; }
Matrix all_rows(torch::Tensor& x) { return {x.mutable_data_ptr<float>(), x.size(-1)}; }

// Tiles of the rows of x, all of its dimensions but the last.
template <class Body>
void for_tiles(const torch::Tensor& x, const Body& body) {
  const int64_t rows = x.size(-1) == 0 ? 0 : x.numel() / x.size(-1);
  parallel_for_row_tiles(
      rows, nullptr, [&](int64_t, int64_t begin, int64_t count) { body(begin, count); },
      [](int64_t, int64_t) {});
}

class GeluOfRows : public torch::autograd::Function<GeluOfRows> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& given, Gelu form) {
    const torch::Tensor x = given.contiguous();
    context->save_for_backward({x});
    save_settings(*context, form);
    torch::Tensor out = torch::empty_like(x);
    for_tiles(x, [&](int64_t begin, int64_t count) {
      gelu_of(form, all_rows(x)[begin], count * x.size(-1), all_rows(out)[begin]);
    });
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const torch::Tensor x = saved_tensors(*context)[0], grad = gradients[0].contiguous();
    const Gelu form = saved_settings<Gelu>(*context);
    torch::Tensor grad_x = torch::empty_like(x);
    for_tiles(x, [&](int64_t begin, int64_t count) {
      gelu_backward(form, all_rows(x)[begin], all_rows(grad)[begin], count * x.size(-1),
                    all_rows(grad_x)[begin]);
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
    const torch::Tensor value = value_given.contiguous(), gate = gate_given.contiguous();
    context->save_for_backward({value, gate});
    std::vector<int64_t> sizes = value.sizes().vec();
    sizes.back() = width_of(value, gate);
    torch::Tensor out = torch::empty(sizes, value.options());
    for_tiles(out, [&](int64_t begin, int64_t count) {
      gate_rows(all_rows(value).from(begin), gate_rows_of(value, gate).from(begin), count,
                sizes.back(), all_rows(out).from(begin));
    });
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list kept = saved_tensors(*context);
    const torch::Tensor &value = kept[0], &gate = kept[1], grad = gradients[0].contiguous();
    torch::Tensor grad_value = torch::empty_like(value), grad_gate = torch::empty_like(gate);
    const Matrix to_gate =
        gate.numel() == 0 ? Matrix{all_rows(grad_value).data + value.size(-1) / 2, value.size(-1)}
                          : all_rows(grad_gate);
    for_tiles(grad, [&](int64_t begin, int64_t count) {
      gate_rows_backward(all_rows(value).from(begin), gate_rows_of(value, gate).from(begin),
                         all_rows(grad).from(begin), count, width_of(value, gate),
                         all_rows(grad_value).from(begin), to_gate.from(begin));
    });
    return {grad_value, gate.numel() == 0 ? torch::Tensor() : grad_gate};
  }

 private:
  static int64_t width_of(const torch::Tensor& value, const torch::Tensor& gate) {
    return gate.numel() == 0 ? value.size(-1) / 2 : value.size(-1);
  }
  static ConstMatrix gate_rows_of(const torch::Tensor& value, const torch::Tensor& gate) {
    if (gate.numel() > 0) return all_rows(gate);
    return {all_rows(value).data + value.size(-1) / 2, value.size(-1)};
  }
};

}  // namespace

bool takes(const Place& place, const ElementsShape& shape) {
  return is_cpu_float(place) && shape.count > 0 && shape.alike;
}

torch::Tensor run(const GeluCall& call) { return GeluOfRows::apply(call.x, call.form); }

torch::Tensor run(const SigmoidGateCall& call) {
  return SigmoidGate::apply(
      call.value, call.gate.defined() ? call.gate : torch::empty({0}, call.value.options()));
}

}  // namespace lra::ops::cpu
