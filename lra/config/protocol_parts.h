// What reading a protocol and making a configuration of it share.
#pragma once

#include <string>

#include "attention_variants/base/json_text.h"
#include "lra/config/protocol.h"

namespace lra {

inline constexpr const char* kAttentions =
    "attentions";  // the key of a task's entries for variants

// A task's entry for one variant.
struct AttentionPart {
  json settings = json::object(), options = json::object();
  std::string variant;  // that is meant; empty: as the protocol says for all tasks

  template <class Fields>
  void fields(Fields& f) {
    f("settings", settings);
    f("options", options);
    f("variant", variant);
  }
};

/// Puts `above` over `below`: objects key by key; anything else replaces.
void merge(json& below, const json& above);

/// Throws UsageError that lists the tasks of the protocol.
void check_task_known(const Protocol& protocol, const std::string& task_name);

}  // namespace lra
