#include "harness/profile/kept_cells.h"

#include <fmt/format.h>

#include "attention_variants/base/error.h"
#include "harness/host/runtime.h"

namespace lra::profile {
namespace {

bool differ(const std::string& one, const std::string& other) {
  return !one.empty() && !other.empty() && one != other;
}

}  // namespace

void check_same_work(const Profile& known, const Profile& now, const std::filesystem::path& file) {
  const auto refuse = [&](const std::string& what) {
    throw Error(fmt::format("{} has {} N={} measured {}; give another --out", file.string(),
                            known.attention.label, known.length, what));
  };
  if (differ(known.machine.processor_model, now.machine.processor_model))
    refuse(fmt::format("on a processor {}, which is {} here", known.machine.processor_model,
                       now.machine.processor_model));
  if (!known.package.empty()) return;
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

void check_same_package(const Profile& known, const Profile& pass,
                        const std::filesystem::path& file) {
  for (const auto& [part, version] : known.software.items()) {
    const auto it = pass.software.find(part);
    if (it == pass.software.end() || *it == version) continue;
    throw Error(fmt::format(
        "{} has passes of {} ({}) N={} measured with {} {}, which is {} now; give another --out",
        file.string(), known.attention.label, known.package, known.length, part,
        text_from_value(version), text_from_value(*it)));
  }
}

std::string kept_method_difference(const Profile& known, const json& method, const Machine& here) {
  if (differ(known.machine.huge_pages, here.huge_pages))
    return fmt::format("under huge pages {}", known.machine.huge_pages);
  if (differ(known.machine.gpu_driver, here.gpu_driver))
    return fmt::format("under GPU driver {}", known.machine.gpu_driver);
  const auto pinned = known.method.find("pinned"), flushed = known.method.find("l2_flush_bytes");
  if (flushed != known.method.end() && *flushed != method.at("l2_flush_bytes"))
    return fmt::format("with {} bytes flushed between calls", text_from_value(*flushed));
  if (pinned != known.method.end() && pinned->is_null() != method.at("pinned").is_null())
    return pinned->is_null() ? "with threads that were not pinned" : "with pinned threads";
  return "";
}

void check_same_method(const Profile& known, const json& method, const Machine& here,
                       const std::filesystem::path& file) {
  const std::string what = kept_method_difference(known, method, here);
  if (what.empty()) return;
  throw Error(
      fmt::format("{} has passes of {} N={} measured {}; give the same options, or another --out",
                  file.string(), known.attention.label, known.length, what));
}

}  // namespace lra::profile
