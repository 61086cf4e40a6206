#include "results/records/setup_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

namespace lra {
namespace {

constexpr const char* kValuesNote =
    "other values of the protocol of this name have tables of their own; values, own and settings "
    "are how protocol_sha256, own_settings_sha256 and settings_sha256 of the records begin";

// What tells processors apart.
struct CpuMark {
  std::string SetupMarks::*field;
  const char* name;
  bool of_kernels;  // a package has none of them
  const char* note;
};

constexpr const char* kKernelsNote =
    "other sets of the CPU's kernels have tables of their own; a package's rows stand only beside "
    "the rows of its own file";

constexpr CpuMark kCpuMarks[] = {{&SetupMarks::kernels, "kernels", true, kKernelsNote},
                                 {&SetupMarks::capability, "LibTorch's", true, kKernelsNote},
                                 {&SetupMarks::processor, "processor", false,
                                  "other processors of this name have tables of their own"}};

struct MarkedGroup {
  std::string values;
  std::vector<size_t> members;
  std::map<std::string, std::set<std::string>> settings;  // by cell, those that are known
};

std::string hash_start(const std::string& sha256) {
  return sha256.empty() ? "none" : sha256.substr(0, 8);
}

// What is surely of one group: the same values, or one file. Where a cell has several settings of
// its own there, the first of each cell are one group, the second another.
std::vector<MarkedGroup> sure_groups(std::span<const SetupMarks> marks) {
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> met;  // (source, cell)
  std::map<std::pair<std::string, size_t>, size_t> places;  // (source, which of its settings)
  std::vector<MarkedGroup> groups;
  for (size_t i = 0; i < marks.size(); ++i) {
    const SetupMarks& one = marks[i];
    const bool known = !one.values.empty();
    const std::string source = known ? "values " + one.values : "file " + one.file;
    size_t which = 0;
    if (const std::string& own = known ? one.own : one.settings; known || !own.empty()) {
      std::vector<std::string>& so_far = met[{source, one.cell}];
      const auto it = std::ranges::find(so_far, own);
      which = static_cast<size_t>(it - so_far.begin());
      if (it == so_far.end()) so_far.push_back(own);
    }
    const auto [place, added] = places.try_emplace({source, which}, groups.size());
    if (added) groups.push_back({.values = one.values, .members = {}, .settings = {}});
    MarkedGroup& group = groups[place->second];
    group.members.push_back(i);
    if (!one.settings.empty()) group.settings[one.cell].insert(one.settings);
  }
  return groups;
}

enum class SettingsMatch { same, unknown, other };

SettingsMatch settings_match(const MarkedGroup& group, const MarkedGroup& other) {
  SettingsMatch found = SettingsMatch::unknown;
  for (const auto& [cell, settings] : other.settings) {
    const auto it = group.settings.find(cell);
    if (it == group.settings.end()) continue;
    const auto held = [&](const std::string& one) { return it->second.contains(one); };
    if (std::ranges::none_of(settings, held)) return SettingsMatch::other;
    found = SettingsMatch::same;
  }
  return found;
}

// The group that one without values joins; null where it is one of its own.
MarkedGroup* group_for(const MarkedGroup& unknown, std::vector<MarkedGroup>& groups) {
  const auto with_values =
      std::ranges::count_if(groups, [](const MarkedGroup& group) { return !group.values.empty(); });
  MarkedGroup* fitting = nullptr;
  for (MarkedGroup& group : groups) {
    const SettingsMatch found = settings_match(group, unknown);
    if (found == SettingsMatch::same) return &group;
    const bool may_join = group.values.empty() || with_values == 1;
    if (found == SettingsMatch::unknown && may_join && fitting == nullptr) fitting = &group;
  }
  return fitting;
}

void join_into(MarkedGroup& into, const MarkedGroup& from) {
  into.members.insert(into.members.end(), from.members.begin(), from.members.end());
  for (const auto& [cell, settings] : from.settings)
    into.settings[cell].insert(settings.begin(), settings.end());
}

std::string group_text(const MarkedGroup& group, const std::vector<MarkedGroup>& all,
                       std::span<const SetupMarks> marks) {
  const auto first = [&](std::string SetupMarks::*which) {
    const auto it = std::ranges::find_if(
        group.members, [&](size_t member) { return !(marks[member].*which).empty(); });
    return it == group.members.end() ? std::string() : marks[*it].*which;
  };
  if (group.values.empty()) {
    const std::string settings = first(&SetupMarks::settings);
    return settings.empty() ? "values not known" : "settings " + hash_start(settings);
  }
  const std::string text = "values " + hash_start(group.values);
  if (std::ranges::count(all, group.values, &MarkedGroup::values) == 1) return text;
  return fmt::format("{}, own {}", text, hash_start(first(&SetupMarks::own)));
}

// By the values of the protocol.
std::vector<SetupGroup> values_groups(std::span<const SetupMarks> marks) {
  const std::vector<MarkedGroup> sure = sure_groups(marks);
  std::vector<MarkedGroup> groups;
  std::ranges::copy_if(sure, std::back_inserter(groups),
                       [](const MarkedGroup& group) { return !group.values.empty(); });
  for (const MarkedGroup& group : sure) {
    if (!group.values.empty()) continue;
    if (MarkedGroup* with = group_for(group, groups)) {
      join_into(*with, group);
    } else {
      groups.push_back(group);
    }
  }
  std::vector<SetupGroup> all;
  for (MarkedGroup& group : groups) {
    std::ranges::sort(group.members);
    SetupGroup one{.cpu = "", .members = group.members};
    if (groups.size() > 1) {
      one.values = group_text(group, groups, marks);
      one.notes.emplace_back(kValuesNote);
    }
    all.push_back(std::move(one));
  }
  return all;
}

// Whether the mark is none of such a record's.
bool is_without(const SetupMarks& one, const CpuMark& mark) {
  return mark.of_kernels && one.any_kernels;
}

// How many values of a mark are known.
size_t known_values(std::span<const SetupMarks> marks, const CpuMark& mark) {
  std::set<std::string> values;
  for (const SetupMarks& one : marks) {
    if (!is_without(one, mark) && !(one.*mark.field).empty()) values.insert(one.*mark.field);
  }
  return values.size();
}

// The values of a mark that rows of this program have in each file.
std::map<std::string, std::set<std::string>> values_by_file(const CpuMark& mark,
                                                            const SetupGroup& group,
                                                            std::span<const SetupMarks> marks) {
  std::map<std::string, std::set<std::string>> values;
  for (const size_t member : group.members) {
    if (!is_without(marks[member], mark))
      values[marks[member].file].insert(marks[member].*mark.field);
  }
  return values;
}

// The members of a group by a mark. A package was measured beside the rows of its file, if there
// are any.
std::vector<SetupGroup> groups_by(const CpuMark& mark, const SetupGroup& group,
                                  std::span<const SetupMarks> marks) {
  std::set<std::string> values;  // "" where a record does not say it
  for (const size_t member : group.members) {
    if (!is_without(marks[member], mark)) values.insert(marks[member].*mark.field);
  }
  if (values.empty()) return {group};
  const auto by_file = values_by_file(mark, group, marks);
  const auto belongs = [&](size_t member, const std::string& value) {
    if (!is_without(marks[member], mark)) return marks[member].*mark.field == value;
    const auto beside = by_file.find(marks[member].file);
    return beside == by_file.end() || beside->second.contains(value);
  };
  std::vector<SetupGroup> groups;
  for (const std::string& value : values) {
    SetupGroup one = group;
    one.cpu += fmt::format("{}{} {}", one.cpu.empty() ? "" : ", ", mark.name,
                           value.empty() ? "not known" : value);
    if (std::ranges::count(one.notes, mark.note) == 0) one.notes.emplace_back(mark.note);
    std::erase_if(one.members, [&](size_t member) { return !belongs(member, value); });
    groups.push_back(std::move(one));
  }
  return groups;
}

// A word of `software` that says what work on the CPU was done by.
std::string of_cpu(const char* word, const json& software, const std::string& device) {
  const auto it = software.find(word);
  const bool known = device == "cpu" && it != software.end() && it->is_string();
  return known ? it->get<std::string>() : "";
}

std::string difference_text(const char* field, const std::string& was, const std::string& is) {
  return fmt::format("{} {} before, {} now", field, was, is);
}

}  // namespace

std::string cpu_kernels(const json& software, const std::string& device) {
  return of_cpu("kernels", software, device);
}

std::string kernel_set(const json& software, const std::string& device) {
  if (device == "cpu") return cpu_kernels(software, device);
  const auto it = software.find("gpu_kernels");
  return it != software.end() && it->is_string() ? it->get<std::string>() : "own";
}

std::string cpu_capability(const json& software, const std::string& device) {
  return of_cpu("cpu_capability", software, device);
}

std::string cpu_model(const Machine& machine, const std::string& device) {
  return device == "cpu" ? machine.processor_model : "";
}

std::vector<SetupGroup> setup_groups(std::span<const SetupMarks> marks) {
  std::vector<SetupGroup> groups = values_groups(marks);
  for (const CpuMark& mark : kCpuMarks) {
    if (known_values(marks, mark) < 2) continue;
    std::vector<SetupGroup> finer;
    for (const SetupGroup& group : groups)
      std::ranges::move(groups_by(mark, group, marks), std::back_inserter(finer));
    groups = std::move(finer);
  }
  return groups;
}

std::string other_cpu(const SetupMarks& before, const SetupMarks& now) {
  std::string text;
  for (const CpuMark& mark : kCpuMarks) {
    const std::string &was = before.*mark.field, &is = now.*mark.field;
    if (was.empty() || is.empty() || was == is) continue;
    text += (text.empty() ? "" : "; ") + difference_text(mark.name, was, is);
  }
  return text;
}

std::string other_values(const SetupMarks& before, const SetupMarks& now) {
  const auto text = [](const char* field, const std::string& was, const std::string& is) {
    return was == is ? "" : difference_text(field, hash_start(was), hash_start(is));
  };
  if (!before.values.empty() && !now.values.empty()) {
    const std::string values = text("protocol_sha256", before.values, now.values);
    return values.empty() ? text("own_settings_sha256", before.own, now.own) : values;
  }
  if (before.settings.empty() || now.settings.empty()) return "";
  return text("settings_sha256", before.settings, now.settings);
}

}  // namespace lra
