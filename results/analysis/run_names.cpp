#include "results/analysis/run_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "results/records/file_names.h"

namespace lra {
namespace {

constexpr size_t kMostName = 80;  // letters before what makes a name unique

using Parts = std::vector<std::string>;

bool is_seed(const std::string& folder) {
  constexpr std::string_view kSeed = "seed";
  return folder.starts_with(kSeed) && folder.size() > kSeed.size() &&
         folder.find_first_not_of("0123456789", kSeed.size()) == std::string::npos;
}

// The folders that a run lies in; a record of another name than a run's counts as one.
Parts parts_of(const Result& r) {
  const auto path = std::filesystem::path(r.path).lexically_normal();
  Parts parts;
  for (const auto& part : path.parent_path()) {
    if (part != "/" && part != ".") parts.push_back(part.string());
  }
  if (!r.path.empty() && path.filename() != kResultFile) parts.push_back(path.stem().string());
  return parts;
}

// How many folders all of them begin with; none is wholly among those.
size_t common_parts(const std::vector<Parts>& all) {
  const Parts* first = nullptr;
  size_t common = 0;
  for (const Parts& parts : all) {
    if (parts.empty()) continue;
    if (first == nullptr) {
      first = &parts;
      common = parts.size() - 1;
    }
    const size_t most = std::min(common, parts.size() - 1);
    const auto differ =
        std::mismatch(first->begin(), first->begin() + static_cast<long>(most), parts.begin());
    common = static_cast<size_t>(differ.first - first->begin());
  }
  return common;
}

std::string joined_name(const Parts& parts, size_t from) {
  // A suite's cell lies in TASK/ATTENTION/seedN.
  if (is_seed(parts.back()))
    from = std::min(from, parts.size() - std::min<size_t>(3, parts.size()));
  std::string text;
  for (size_t i = from; i < parts.size(); ++i) {
    if (parts[i] != "runs" || i + 1 == parts.size()) text += (text.empty() ? "" : "-") + parts[i];
  }
  return text;
}

// Small letters, digits and single dashes.
std::string file_name(const std::string& text) {
  std::string name;
  for (const char c : text) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    const bool capital = c >= 'A' && c <= 'Z';
    if (letter || capital) {
      name += capital ? static_cast<char>(c - 'A' + 'a') : c;
    } else if (!name.empty() && name.back() != '-') {
      name += '-';
    }
    if (name.size() >= kMostName) break;
  }
  while (!name.empty() && name.back() == '-') name.pop_back();
  return name;
}

}  // namespace

std::vector<std::string> page_names(std::span<const Result> results) {
  std::vector<Parts> folders;
  for (const Result& r : results) folders.push_back(parts_of(r));
  const size_t common = common_parts(folders);
  std::vector<std::string> names;
  std::set<std::string> taken;
  for (size_t i = 0; i < results.size(); ++i) {
    const Result& r = results[i];
    std::string name = folders[i].empty() ? "" : file_name(joined_name(folders[i], common));
    if (name.empty()) {
      name = file_name(fmt::format("{}-{}", r.task, r.attention.label));
      name += fmt::format("{}seed{}", name.empty() ? "" : "-", r.seed);
    }
    std::string unique = name;
    for (int again = 2; !taken.insert(unique).second; ++again)
      unique = fmt::format("{}-{}", name, again);
    names.push_back(unique);
  }
  return names;
}

std::string given_name(const Result& result) {
  const Parts parts = parts_of(result);
  return parts.empty() || is_seed(parts.back()) ? "" : parts.back();
}

}  // namespace lra
