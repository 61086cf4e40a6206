// Presets: what `lra profile` measures. JSON files like the protocols (lra/config/presets/*.json
// travel inside the program; a path to a user's file serves as well).
#pragma once

#include <string>
#include <vector>

#include "attention_variants/base/profile_scope.h"
#include "attention_variants/registry.h"
#include "lra/config/protocol.h"

namespace lra {

/// H and d of a preset that has none, but of scope model.
inline constexpr int64_t kHeads = 2, kHeadDim = 32;
/// N that is measured at most.
inline constexpr int64_t kLongestLength = 1 << 24;

struct Preset {
  std::string schema, name, title, description;
  std::string attentions = "*";  // comma list; "*" = all that are not named otherwise
  std::vector<int64_t> lengths;  // N
  int64_t batch = 1;             // B; 0 = the protocol's of the task
  int64_t heads = kHeads, head_dim = kHeadDim;  // H, d; of scope model 0 = the protocol's
  ProfileScope scope = ProfileScope::core;
  ProfileMode mode = ProfileMode::inference;
  std::string protocol = kDefaultProtocol;  // of scope model
  std::string task;                         // likewise, and of the protocol's batch; "" = the first
  json set = json::object();                // of scope model: dotted key -> value

  template <class Fields>
  void fields(Fields& f) {
    f("schema", schema, one_of({"lra.preset/1"}));
    f("name", name);
    f("title", title);
    f("description", description);
    f("attentions", attentions);
    f("lengths", lengths, integers(between(1, kLongestLength)));
    f("batch", batch, at_least(0));
    f("heads", heads, at_least(1));
    f("head_dim", head_dim, at_least(1));
    f("scope", scope);
    f("mode", mode);
    f("protocol", protocol);
    f("task", task);
    f("set", set, json_object());
  }

  /// `set` as "a.b=v" words.
  std::vector<std::string> set_words() const;
};

/// The built-in names, sorted.
std::vector<std::string> preset_names();

/// A built-in preset by name, or a file by path (a name with '/' or ending in ".json"). Throws
/// UsageError that names what is wrong: an unknown preset, key, task or value.
Preset load_preset(const std::string& name_or_path);

/// The attentions of a comma list in which "*" stands for every variant that is not there by its
/// effective options already, and at the place of the star. Throws UsageError on an unknown name,
/// key or value.
std::vector<AttentionSpec> attentions_of(const std::string& list);

}  // namespace lra
