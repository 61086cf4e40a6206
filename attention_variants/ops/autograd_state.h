// What an operator was told in its forward pass, kept for its backward pass.
#pragma once

#include <algorithm>
#include <utility>

#include "attention_variants/base/error.h"
#include "attention_variants/torch.h"

namespace lra::ops {
namespace detail {
template <class T>
struct SavedState : torch::CustomClassHolder {
  explicit SavedState(T given) : value(std::move(given)) {}
  const T value;
};
}  // namespace detail

template <class Settings>
void save_settings(torch::autograd::AutogradContext& context, Settings settings) {
  context.saved_data["settings"] = c10::IValue::make_capsule(
      c10::make_intrusive<detail::SavedState<Settings>>(std::move(settings)));
}

/// Whether autograd will want a backward pass of an operator of these.
inline bool is_differentiated(at::TensorList given) {
  return torch::GradMode::is_enabled() &&
         std::ranges::any_of(given, [](const torch::Tensor& t) { return t.requires_grad(); });
}

/// For the backward pass of an operator that is differentiable once: throws Error where that pass
/// is to be differentiated itself (create_graph), which would silently take its gradients for
/// constants.
inline void check_first_order() {
  if (!at::GradMode::is_enabled()) return;
  throw Error(
      "this operator is differentiable once, not twice (create_graph). Twice are, in float64 "
      "(double() in Python) or, of a run, by --set kernels=reference: "
      "standard[implementation=materialized], performer, linear, cosformer, skyformer, fnet, s5, "
      "lru");
}

/// What save_for_backward() kept, for such a pass.
inline torch::autograd::variable_list saved_tensors(
    const torch::autograd::AutogradContext& context) {
  check_first_order();
  return context.get_saved_variables();
}

/// Those of save_settings(), of the same type; they live as long as the context.
template <class Settings>
const Settings& saved_settings(const torch::autograd::AutogradContext& context) {
  return c10::static_intrusive_pointer_cast<detail::SavedState<Settings>>(
             context.saved_data.at("settings").toCapsule())
      ->value;
}

}  // namespace lra::ops
