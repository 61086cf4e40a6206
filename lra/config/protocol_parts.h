// What reading a protocol and making a configuration of it share.
#pragma once

#include <set>
#include <string>
#include <vector>

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

/// The dotted keys of all values that are no objects, however deep, behind `path`.
void collect_keys(const json& value, const std::string& path, std::set<std::string>& keys);

/// What an entry is of: a variant by its name, or an attention made from a file. "" is of none.
AttentionSpec attention_of_entry(const std::string& entry);

/// The name of a task's entry for an attention, whether there is such or not. A file may be named
/// by another path than there; throws UsageError where only one of the same name lies elsewhere.
std::string entry_key(const Protocol& protocol, const std::string& task_name,
                      const AttentionSpec& attention);

/// That entry; empty where there is none.
AttentionPart attention_part(const Protocol& protocol, const std::string& task_name,
                             const AttentionSpec& attention);

/// The values of a file that entries of its parent go over, where it has no entry itself, and those
/// left before; `own` is the file alone, `merged` both.
std::vector<LeftValue> left_values(const Protocol& own, const Protocol& parent,
                                   const Protocol& merged);

/// Throws UsageError, at `place`, on the name of a form of an attention: the entry of that is found
/// by its plain name, whichever form runs.
void check_plain_name(const std::string& name, const std::string& place);

}  // namespace lra
