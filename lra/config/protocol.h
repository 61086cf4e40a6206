// Protocols: named, frozen recipes, and the configurations that they yield.
//
// A protocol is a JSON file (lra/config/protocols/*.json travel inside the program; a path to a
// user's file serves as well):
//   {"schema": "lra.protocol/1", "name", "title", "description", "source", "regime": "2021",
//    "extends": "other",
//    "follows": ["what is as its source has it"], "choices": ["what differs or was chosen, and
//    why"], "inherit_choices": true, "settings": {...}, "tasks": {"listops": {...}}, "attentions":
//    {"nystrom": {...options}}, "attention_settings": {"linear": {...settings}}, "variants":
//    {"local": "local_tay2020"}}
// `settings` holds any field of Settings; a task's entry goes over it, and a variant's of
// `attention_settings` over that. Where a recipe has an entry for a task and a variant, it stands
// in the task's:
//    "image": {"attentions": {"sinkhorn": {"settings": {...}, "options": {...}, "variant": "..."}}}
// and goes over all. An attention made from a file has such an entry under the name that it goes by
// without options, "python:my.py:Softplus", with `settings` alone. `variants` says which function
// the protocol means by a name, where its source gives a variant's name to another one:
// AttentionInfo::released_form_of. `options`, there and in `attentions`, are those of the variant
// that is meant. `extends` starts from another protocol, its `follows` and `choices` too, unless
// `inherit_choices` is false.
// Every key is checked. `settings.pretraining` holds those of a run that comes first, where they
// differ: pretraining_config(). See docs/protocols.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "attention_variants/base/json_text.h"
#include "attention_variants/registry.h"
#include "lra/config/config.h"
#include "lra/config/settings.h"

namespace lra {

/// What commands take where no --protocol is given.
inline constexpr const char* kDefaultProtocol = "lra-strict";

struct Protocol {
  std::string where;  // "protocol file p.json", for messages; "" = not loaded
  std::string name, title, description, source;
  std::string regime = kFirstRegime;
  std::vector<std::string> follows;  // what is as its source has it
  std::vector<std::string> choices;  // what differs from it or was chosen, and why
  json settings = json::object();    // merged over what it extends
  // Task name -> settings over those, and under "attentions" variant name -> {"settings",
  // "options"}: what goes over them and over `attentions` for that task and variant.
  json tasks = json::object();
  json attentions = json::object();          // variant name -> options
  json attention_settings = json::object();  // variant name -> settings over those of any task
  json variants = json::object();            // variant name -> the variant that is meant by it
  std::vector<LeftValue> left;               // what is set and not read, by attention
};

/// The built-in names, sorted.
std::vector<std::string> protocol_names();

/// Whether a built-in protocol has that name.
bool is_built_in(const std::string& name);

/// A built-in protocol by name, or a file by path (a name with '/' or ending in ".json"). Throws
/// UsageError that names what is wrong: an unknown protocol, key, task, attention or value, or a
/// file that has the name of a built-in one and says something else.
Protocol load_protocol(const std::string& name_or_path);

/// A file that load_protocol() reads to the same: every setting of every task, or of one, with
/// nothing left to what it extends.
json protocol_json(const Protocol& protocol, const std::string& task = "");

/// The settings of a protocol for one task, of one variant where its name is given, or the
/// entry_name() of an attention made from a file.
Settings task_settings(const Protocol& protocol, const std::string& task,
                       const std::string& attention = "");

/// The entries of a protocol for single variants of one task, as they are written: variant name ->
/// {"settings", "options"}.
json attention_settings(const Protocol& protocol, const std::string& task);

/// What the protocol means by an attention in a task: `attention`, or the released form of its
/// name.
AttentionSpec meant_attention(const Protocol& protocol, const std::string& task,
                              const AttentionSpec& attention);

/// The name by which a protocol's entries know a variant: that of a released form is the name it
/// goes by there.
std::string plain_name(const std::string& attention);

/// The name by which a task's entries know an attention: the plain_name() of a variant; of one made
/// from a file, the text that names it without options, "python:my.py:Softplus".
std::string entry_name(const AttentionSpec& attention);

/// Whether the name of an entry is of an attention made from a file, "python:my.py:Softplus".
bool names_file(const std::string& entry);

/// The settings that the protocol gives this attention itself in a task, sorted, "optimizer.lr".
std::vector<std::string> entry_settings(const Protocol& protocol, const std::string& task,
                                        const AttentionSpec& attention);

/// The protocol with `sets`, as make_config() takes them, in the entry of a task for a variant, or
/// for an attention made from a file by its entry_name().
Protocol with_settings(Protocol protocol, const std::string& task, const std::string& attention,
                       const std::vector<std::string>& sets);

/// Whether an "a.b=v" word sets this key, or a group with it.
bool word_sets(const std::string& text, const std::string& key);

/// Reads an "a.b=v" word by itself. Throws UsageError, which begins with `option`, where there is
/// no such key, or it does not take that value.
void check_setting(const std::string& text, const std::string& option);

/// Of what the protocol means by `attention`. `sets` are "a.b=v" words; of a group, as "a={...}",
/// the keys that are there. Where a `kept_file` is given, an attention made from a file is read
/// from that one (Config::named_file). Throws UsageError on any unknown name, key or value.
Config make_config(const Protocol& protocol, const std::string& task,
                   const AttentionSpec& attention, const std::vector<std::string>& sets,
                   uint64_t seed, const std::string& dtype, const std::string& kept_file = "");

/// The run that comes before one with `pretraining`: its settings with those over them, of
/// objective masked where they do not say. Throws UsageError on any unknown key or value, and where
/// either objective is not one of its stage.
Config pretraining_config(const Config& config);

}  // namespace lra
