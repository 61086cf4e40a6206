#include "results/records/status.h"

#include <algorithm>

namespace lra {
namespace {

constexpr std::string_view kStatusWords[] = {"ok",       "oom",         "timeout", "crash",
                                             "diverged", "unsupported", "pending", "running"};

}  // namespace

std::span<const std::string_view> status_words() { return kStatusWords; }

std::string text(Status status) { return std::string(kStatusWords[static_cast<size_t>(status)]); }

std::optional<Status> parse_status(std::string_view word) {
  const auto* it = std::ranges::find(kStatusWords, word);
  if (it == std::end(kStatusWords)) return std::nullopt;
  return static_cast<Status>(it - std::begin(kStatusWords));
}

void to_json(json& value, Status status) { value = text(status); }

}  // namespace lra
