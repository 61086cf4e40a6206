// The configuration of one run, and what makes two runs one.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "attention_variants/registry.h"
#include "lra/config/settings.h"

namespace lra {

/// The regime of LRA's own table and of those after its pattern; of results, unless a protocol says
/// another.
inline constexpr const char* kFirstRegime = "2021";
/// Deeper models under recipes of each task's own, from S4 (2022) on.
inline constexpr const char* kLaterRegime = "later";
/// Tasks that are in no table of LRA's.
inline constexpr const char* kRecallRegime = "recall";

/// Every regime, and what it is.
inline constexpr std::pair<const char*, const char*> kRegimes[] = {
    {kFirstRegime, "LRA's own table and those after its pattern: shallow encoders in one recipe"},
    {kLaterRegime, "from S4 (2022) on: deeper models, more steps, a recipe of each task's own"},
    {kRecallRegime, "no regime of LRA's tables: tasks of its own, with labels at positions"}};

/// A value of a user's protocol that an entry of what the protocol extends goes over.
struct LeftValue {
  std::string task, attention;  // of that entry
  std::string key;              // "optimizer.lr", "attentions.s5.state", "variants.local"
  std::string by;               // the protocol whose entry it is

  bool operator==(const LeftValue&) const = default;
  /// "listops: optimizer.lr as lra-2026 has it for linformer", of one or more such.
  std::string text(const std::string& attentions) const;
  /// What a user who wants his own value does.
  std::string remedy() const;
};

/// One run's configuration: a protocol applied to a task and an attention, with overrides.
struct Config {
  std::string task;
  AttentionSpec attention;  // as named by the user
  json attention_options;   // all effective ones
  // Of an attention whose file is read from another place than it is named by: the file as named,
  // by which to_json() knows it; else empty.
  std::string named_file;
  std::string protocol;
  std::string regime = kFirstRegime;       // the protocol's
  uint64_t seed = 0;                       // initialisation, order, dropout, projections, hashes
  ops::Dtype dtype = ops::Dtype::float32;  // or bfloat16: autocast
  Settings settings;
  // The keys that --set gave another value than the protocol's, or one for all where that is
  // attentions' own (by_attention); sorted, as "training.steps".
  std::vector<std::string> overridden;
  // Of a run that starts from another's weights: what config.json says of that one, its
  // "pretrained"; else empty.
  json pretrained = json::object();
  // The keys that the protocol sets by variant in this task: two runs that differ in them alone are
  // of one recipe.
  std::vector<std::string> by_attention;
  // What the protocol sets for all and an older entry has otherwise for this attention; a line of
  // the run says so, and no file of it.
  std::vector<LeftValue> left;

  /// All effective values.
  json to_json() const;
  /// Reads what to_json() wrote; `where` names the file in messages.
  static Config from_json(const json& value, const std::string& where);
};

/// The values of Config::to_json() that make a run what it is, and what a checkpoint belongs to. Of
/// the weights that it started from, that is their SHA-256.
/// Settings that came after the first runs are left out where they hold what runs did before: those
/// still resume. Other values pass, and of an identity comes the same identity.
json config_identity(json config);

/// How the identities of two configurations differ, "" where they do not. An attention's file is
/// what its SHA-256 says, in whatever folder a file of that name lies.
std::string config_differences(json a, json b);

}  // namespace lra
