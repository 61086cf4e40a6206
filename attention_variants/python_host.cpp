#include "attention_variants/python_host.h"

namespace lra {
namespace {

PythonHost* current = nullptr;

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
  try {
    loss.backward(gradient);
  } catch (...) {
    if (current != nullptr) current->rethrow_raised();
    throw;
  }
}

}  // namespace lra
