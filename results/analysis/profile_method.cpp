#include "results/analysis/profile_method.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <set>

namespace lra {
namespace {

// What a record says of how it was measured, by name.
std::map<std::string, std::string> method_of(const Profile& p) {
  std::map<std::string, std::string> said;
  if (!p.machine.gpu_driver.empty()) said["driver"] = p.machine.gpu_driver;
  if (!p.machine.huge_pages.empty()) said["huge pages"] = p.machine.huge_pages;
  if (const auto pinned = p.method.find("pinned"); pinned != p.method.end())
    said["threads"] = pinned->is_null() ? "not pinned" : "pinned";
  const auto flushed = p.method.find("l2_flush_bytes");
  if (flushed != p.method.end() && flushed->is_number_integer())
    said["flushed between calls"] = fmt::format("{} bytes", flushed->get<int64_t>());
  const auto torch = p.software.find("torch");
  if (torch != p.software.end() && torch->is_string()) said["torch"] = torch->get<std::string>();
  return said;
}

std::string changes_text(const std::map<std::string, std::string>& before,
                         const std::map<std::string, std::string>& now) {
  std::vector<std::string> changes;
  for (const auto& [name, value] : now) {
    const auto was = before.find(name);
    if (was != before.end() && was->second != value)
      changes.push_back(fmt::format("{} {} before, {} now", name, was->second, value));
  }
  return fmt::format("{}", fmt::join(changes, ", "));
}

std::map<std::string, std::string> options_of(const Profile& p) {
  std::map<std::string, std::string> options;
  for (const auto& [name, value] : p.attention.options.items())
    options[name] = text_from_value(value);
  return options;
}

}  // namespace

std::string other_method(const Profile& before, const Profile& now) {
  return changes_text(method_of(before), method_of(now));
}

std::string mixed_methods(std::span<const Profile* const> cells) {
  std::map<std::string, std::set<std::string>> values;
  for (const Profile* p : cells) {
    if (!p->package.empty() || p->status != Status::ok) continue;
    for (const auto& [name, value] : method_of(*p)) values[name].insert(value);
    const auto commit = p->software.find("commit");
    const bool known = commit != p->software.end() && commit->is_string();
    values["this program's commits"].insert(known ? commit->get<std::string>() : "not known");
  }
  std::vector<std::string> mixed;
  for (const auto& [name, of_name] : values) {
    if (of_name.size() > 1)
      mixed.push_back(fmt::format("{} {}", name, fmt::join(of_name, " and ")));
  }
  return fmt::format("{}", fmt::join(mixed, ", "));
}

std::string other_options(const Profile& before, const Profile& now) {
  return changes_text(options_of(before), options_of(now));
}

}  // namespace lra
