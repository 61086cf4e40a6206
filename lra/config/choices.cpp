#include "lra/config/choices.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "attention_variants/base/text.h"
#include "attention_variants/registry.h"
#include "lra/data/task.h"

namespace lra {
namespace {

bool is_task(const std::string& name) {
  return std::ranges::any_of(tasks(), [&](const Task* task) { return task->name == name; });
}

// The names of "a, b and c"; nothing where one of them is not known.
std::optional<std::vector<std::string>> names_of(std::string text,
                                                 bool (*known)(const std::string&)) {
  constexpr std::string_view kAnd = " and ";
  for (size_t at = text.find(kAnd); at != std::string::npos; at = text.find(kAnd))
    text.replace(at, kAnd.size(), ",");
  std::vector<std::string> names;
  for (const std::string& piece : split_at_commas(text)) {
    names.emplace_back(strip(piece));
    if (!known(names.back())) return std::nullopt;
  }
  return names;
}

}  // namespace

ChoiceSubject choice_subject(const std::string& line) {
  constexpr std::string_view kOn = " on ";
  const size_t colon = line.find(':');
  if (colon == std::string::npos) return {};
  const std::string subject = line.substr(0, colon);
  if (const size_t on = subject.find(kOn); on != std::string::npos) {
    const auto attentions = names_of(subject.substr(0, on), runs_by_name);
    const auto tasks = names_of(subject.substr(on + kOn.size()), is_task);
    if (!attentions || !tasks) return {};
    return {.tasks = *tasks, .attentions = *attentions};
  }
  if (const auto tasks = names_of(subject, is_task)) return {.tasks = *tasks, .attentions = {}};
  if (const auto attentions = names_of(subject, runs_by_name))
    return {.tasks = {}, .attentions = *attentions};
  return {};
}

}  // namespace lra
