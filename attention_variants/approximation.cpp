#include "attention_variants/approximation.h"

#include <map>

namespace lra {
namespace {

std::map<std::string, json>& approximations() {
  static std::map<std::string, json> options;
  return options;
}

}  // namespace

json approximation_options(const std::string& name) {
  const auto it = approximations().find(name);
  return it == approximations().end() ? json::object() : it->second;
}

bool register_approximation(const std::string& name, json options) {
  return approximations().emplace(name, std::move(options)).second;
}

}  // namespace lra
