// How a run or a cell ended, or where it stands.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "attention_variants/base/fields.h"

namespace lra {

enum class Status { ok, oom, timeout, crash, diverged, unsupported, pending, running };

/// The words of all, in their order: what files, tables and messages say.
std::span<const std::string_view> status_words();

/// "ok", "oom", ...
std::string text(Status status);

/// The status of a word; nothing where it is none.
std::optional<Status> parse_status(std::string_view word);

/// JSON holds the word.
void to_json(json& value, Status status);

}  // namespace lra

template <>
struct fmt::formatter<lra::Status> : fmt::formatter<std::string> {
  template <class Context>
  auto format(lra::Status status, Context& context) const {
    return fmt::formatter<std::string>::format(lra::text(status), context);
  }
};
