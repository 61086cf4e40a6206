// A module of LibTorch as Python sees it: its tensors by name, which lra._native registers as those
// of a torch.nn.Module.
#pragma once

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "attention_variants/torch.h"

namespace lra::python {

template <class Module>
struct NativeModule {
  std::shared_ptr<Module> module;

  /// (path, tensor, whether it is a parameter), each tensor once.
  std::vector<std::tuple<std::string, torch::Tensor, bool>> tensors() const {
    std::vector<std::tuple<std::string, torch::Tensor, bool>> found;
    for (const auto& item : module->named_parameters())
      found.emplace_back(item.key(), item.value(), true);
    for (const auto& item : module->named_buffers())
      found.emplace_back(item.key(), item.value(), false);
    return found;
  }

  void train(bool on) { module->train(on); }
};

}  // namespace lra::python
