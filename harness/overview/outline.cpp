#include "harness/overview/outline.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "lra/config/choices.h"
#include "results/print/table.h"
#include "results/print/terminal.h"

namespace lra {

std::string hanging(const std::string& first, const std::string& text) {
  constexpr size_t kColumns = 100;
  const size_t width = std::min(display_width(first), kColumns);
  std::string result;
  for (const std::string& line : wrapped(text, kColumns - width))
    result += (result.empty() ? first : std::string(width, ' ')) + line + "\n";
  return result;
}

void Outline::join_tasks() {
  if (tasks_.size() < 2) return;
  std::set<std::string> attentions;
  for (const auto& [place, lines] : lines_) attentions.insert(place.second);
  for (const std::string& attention : attentions) {
    const Lines first = at(tasks_[0], attention);
    for (const Line& line : first) {
      const bool everywhere = std::ranges::all_of(tasks_, [&](const std::string& task) {
        return std::ranges::count(at(task, attention), line) > 0;
      });
      if (!everywhere) continue;
      at("", attention).push_back(line);
      for (const std::string& task : tasks_) std::erase(at(task, attention), line);
    }
  }
}

void Outline::note(const std::string& kind, const std::string& text, const ProtocolPart& part) {
  const ChoiceSubject subject = choice_subject(text);
  if (!part.attention.empty() && !subject.attentions.empty() &&
      std::ranges::count(subject.attentions, part.attention) == 0)
    return;
  const std::string attention = subject.attentions.size() == 1 ? subject.attentions[0] : "";
  if (subject.tasks.empty()) notes_[{"", attention}].emplace_back(kind, text);
  for (const std::string& task : subject.tasks) {
    if (std::ranges::count(tasks_, task) > 0) notes_[{task, attention}].emplace_back(kind, text);
  }
}

std::string Outline::text(std::string (*print)(const Lines&, const std::string& attention)) const {
  std::string result;
  std::vector<std::string> headings{""};
  headings.insert(headings.end(), tasks_.begin(), tasks_.end());
  for (const std::string& task : headings) {
    std::string body;
    std::set<std::string> attentions;
    for (const auto* all : {&lines_, &notes_}) {
      for (const auto& [place, lines] : *all) {
        if (place.first == task && !lines.empty()) attentions.insert(place.second);
      }
    }
    for (const std::string& attention : attentions) {
      if (!attention.empty()) body += fmt::format("  {}\n", attention);
      const std::string indent(attention.empty() ? 2 : 4, ' ');
      std::string notes;
      for (const auto& [kind, line] : of(notes_, task, attention))
        notes += hanging(fmt::format("{}{}: ", indent, kind), line);
      const std::string values = print(of(lines_, task, attention), attention);
      body += order_ == Order::notes_first ? notes + values : values + notes;
    }
    if (!body.empty())
      result += fmt::format("\n{}\n{}", task.empty() ? "all tasks" : "task " + task, body);
  }
  return result;
}

Outline::Lines Outline::of(const Places& places, const std::string& task,
                           const std::string& attention) {
  const auto it = places.find({task, attention});
  return it == places.end() ? Lines() : it->second;
}

}  // namespace lra
