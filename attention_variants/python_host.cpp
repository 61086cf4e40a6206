#include "attention_variants/python_host.h"

namespace lra {
namespace {

PythonHost* current = nullptr;

template <class Pass>
auto told_by_python(Pass pass) {
  try {
    return pass();
  } catch (...) {
    if (current != nullptr) current->rethrow_raised();
    throw;
  }
}

}  // namespace

PythonHost* python_host() { return current; }

void need_python_for(const std::string& attention) {
  if (attention == kPythonAttention && current == nullptr) throw NeedsPython();
}

void set_python_host(PythonHost* host) { current = host; }

void seed_generators(uint64_t seed) {
  torch::manual_seed(seed);
  if (current != nullptr) current->seed(seed);
}

void run_backward(const torch::Tensor& loss, const torch::Tensor& gradient) {
  told_by_python([&] { loss.backward(gradient); });
}

std::vector<torch::Tensor> run_gradients(const torch::Tensor& loss,
                                         const std::vector<torch::Tensor>& inputs,
                                         const torch::Tensor& gradient) {
  return told_by_python([&] {
    return torch::autograd::grad({loss}, inputs, {gradient}, /*retain_graph=*/std::nullopt,
                                 /*create_graph=*/false, /*allow_unused=*/true);
  });
}

}  // namespace lra
