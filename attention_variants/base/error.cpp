#include "attention_variants/base/error.h"

#include <algorithm>
#include <filesystem>
#include <new>
#include <numeric>
#include <typeinfo>

#include "attention_variants/base/file_errors.h"
#include "attention_variants/base/text.h"

namespace lra {
namespace {

// Levenshtein distance with unit costs.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t substitute = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substitute, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string nearest_name(std::string_view name, const std::vector<std::string>& valid) {
  std::string best;
  size_t best_distance = std::max<size_t>(2, name.size() / 3) + 1;
  for (const std::string& candidate : valid) {
    const size_t distance = edit_distance(name, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

UsageError unknown_name(std::string_view what, std::string_view name,
                        const std::vector<std::string>& valid, std::string_view where) {
  std::string message = "unknown " + std::string(what) + " '" + std::string(name) + "'";
  if (!where.empty()) message += " in " + std::string(where);
  const std::string nearest = nearest_name(name, valid);
  if (!nearest.empty()) message += "; did you mean '" + nearest + "'?";
  message += nearest.empty() ? "; valid:" : " Valid:";
  if (valid.empty()) message += " (none)";
  for (size_t i = 0; i < valid.size(); ++i) message += (i == 0 ? " " : ", ") + valid[i];
  return UsageError(message);
}

std::string first_line(const std::exception& error) {
  // The library's own, which says no more than its name.
  if (typeid(error) == typeid(std::bad_alloc))
    return "memory ran out; a smaller batch, a shorter length or fewer jobs at a time take less";
  const auto* of_file = dynamic_cast<const std::filesystem::filesystem_error*>(&error);
  const std::string text = of_file == nullptr ? error.what() : file_error_text(*of_file);
  return printable(text.substr(0, text.find('\n')));
}

}  // namespace lra
