#include "harness/profile/kept_cells.h"

#include <fmt/format.h>

#include "attention_variants/base/error.h"
#include "harness/host/runtime.h"

namespace lra::profile {

void check_same_work(const Profile& known, const Profile& now, const std::filesystem::path& file) {
  if (!known.package.empty()) return;
  const auto refuse = [&](const std::string& what) {
    throw Error(fmt::format("{} has {} N={} measured {}; give another --out", file.string(),
                            known.attention.label, known.length, what));
  };
  if (const std::string other = host::other_software(known.software); !other.empty())
    refuse("with " + other);
  for (const auto& [option, value] : known.attention.options.items()) {
    const auto it = now.attention.options.find(option);
    if (it == now.attention.options.end() || *it == value) continue;
    refuse(option.ends_with("sha256") ? "of its file as it was before it changed"
                                      : fmt::format("with {} {}, which is {} now", option,
                                                    text_from_value(value), text_from_value(*it)));
  }
  if (!known.settings_sha256.empty() && known.settings_sha256 != now.settings_sha256)
    refuse(fmt::format("with other settings of protocol {} than it has now", known.protocol));
}

std::string other_method(const Profile& known, const json& method) {
  const auto pinned = known.method.find("pinned"), flushed = known.method.find("l2_flush_bytes");
  if (flushed != known.method.end() && *flushed != method.at("l2_flush_bytes"))
    return fmt::format("with {} bytes flushed between calls", text_from_value(*flushed));
  if (pinned != known.method.end() && pinned->is_null() != method.at("pinned").is_null())
    return pinned->is_null() ? "with threads that were not pinned" : "with pinned threads";
  return "";
}

void check_same_method(const Profile& known, const json& method,
                       const std::filesystem::path& file) {
  const std::string what = other_method(known, method);
  if (what.empty()) return;
  throw Error(
      fmt::format("{} has passes of {} N={} measured {}; give the same options, or another --out",
                  file.string(), known.attention.label, known.length, what));
}

}  // namespace lra::profile
