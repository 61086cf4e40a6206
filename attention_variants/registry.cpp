// The registry of variants, and the text form in which users name them: nystrom[num_landmarks=32],
// or name:FILE for one that is made from a file (the same as name[file=FILE]), or name:FILE:CLASS
// for one that is a class in it (name[file=FILE,class=CLASS]).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "attention_variants/base/text.h"
#include "attention_variants/registry.h"

namespace lra {
namespace {

// Inside a function: registrations run during static initialisation, in any order.
std::map<std::string, AttentionEntry>& registry() {
  static std::map<std::string, AttentionEntry> entries;
  return entries;
}

std::vector<std::string>& names_taken() {
  static std::vector<std::string> names;
  return names;
}

[[noreturn]] void malformed(const std::string& text, const std::string& problem,
                            const std::string& form = "name or name[key=value,...]") {
  throw UsageError(fmt::format("attention '{}': {}; write {}", text, problem, form));
}

// The options that name:FILE:CLASS stands for.
constexpr const char* kFile = "file";
constexpr const char* kClass = "class";
constexpr const char* kSource = "source_sha256";

// Made from a file of the user's: it has no defaults to run by, and is named as name:FILE.
bool needs_file(const AttentionEntry& entry) {
  return entry.default_options.contains(kFile) && entry.default_options[kFile] == "";
}

// What is written otherwise elsewhere, and what to write here.
void check_form(const std::string& text) {
  const size_t end = text.find_first_of("[:");
  const std::string name(strip(text.substr(0, end)));
  if (registry().contains(name)) return;
  const size_t open = name.find('(');
  if (open != std::string::npos) {
    malformed(text, "options stand in square brackets",
              "name[key=value,...], within quotes in a shell");
  }
  if (name.find(',') != std::string::npos) {
    malformed(text, "one attention is wanted here, not a list",
              "name or name[key=value,...]; --attentions of suite and profile takes a list");
  }
  const std::filesystem::path path = name;
  if (end != std::string::npos && path.extension() == ".py" && text[end] == ':')
    malformed(text, "a file of Python is named with what reads it", "python:" + text);
  if (end != std::string::npos) return;
  if (path.extension() == ".cpp") {
    malformed(text, "a source file is built in",
              "export LRA_EXTRA_VARIANTS=FILE.cpp, and name what it registers");
  }
  if (path.extension() == ".py") {
    malformed(text, "a file of Python is named with the class that is meant",
              "python:" + name + ":CLASS");
  }
  const bool is_file = path.extension() == ".pt" || path.extension() == ".pth" ||
                       name.find('/') != std::string::npos;
  for (const auto& [known, entry] : registry()) {
    if (is_file && needs_file(entry) && !entry.default_options.contains(kClass))
      malformed(text, "a file is named with what reads it", known + ":" + name);
  }
}

// "linear, local, ...": those that say so of themselves.
std::string names_of(bool AttentionInfo::*able) {
  std::string names;
  for (const auto& [name, entry] : registry()) {
    if (entry.info.*able && !needs_file(entry)) names += (names.empty() ? "" : ", ") + name;
  }
  return names;
}

// Has the entry's options hold its source's hash, and refuse that of another source.
void add_source(AttentionEntry& entry, const std::string& source_sha256) {
  const auto own = [name = entry.info.name, source_sha256](json given) {
    if (!given.is_object()) return given;
    const json hash = given.value(kSource, json(source_sha256));
    given.erase(kSource);
    if (hash != source_sha256) {
      throw UsageError(fmt::format(
          "attention {}: the file of LRA_EXTRA_VARIANTS that it is built from is another one than "
          "meant: its SHA-256 is {}, not {}",
          name, source_sha256, text_from_value(hash)));
    }
    return given;
  };
  entry.source_sha256 = source_sha256;
  entry.effective_options = [own, source_sha256,
                             inner = entry.effective_options](const json& given) {
    json options = inner(own(given));
    options[kSource] = source_sha256;
    return options;
  };
  entry.make = [own, inner = entry.make](const AttentionContext& context, const json& given) {
    return inner(context, own(given));
  };
}

void check_can_be_causal(const AttentionInfo& info) {
  if (info.can_be_causal) return;
  throw UsageError(fmt::format(
      "attention {} has no causal form here: what it gives a position reads later ones; choose one "
      "of {}, or model.causal=false",
      info.name, names_of(&AttentionInfo::can_be_causal)));
}

// The first of these values that is among the options, as "key=value"; "" where there is none.
std::string first_in_effect(const json& values, const json& options) {
  for (const auto& [option, value] : values.items()) {
    if (options.contains(option) && options.at(option) == value)
      return option + "=" + text_from_value(value);
  }
  return "";
}

void check_can_rotate(const AttentionInfo& info, int64_t head_dim) {
  if (!info.can_rotate) {
    throw UsageError(fmt::format(
        "attention {} takes no rotary positions: {}; choose one of {}, or other model.positions",
        info.name, info.why_unrotated, names_of(&AttentionInfo::can_rotate)));
  }
  if (head_dim % 2 != 0) {
    throw UsageError(fmt::format(
        "rotary positions turn pairs of columns: model.head_dim should be even, not {}", head_dim));
  }
}

}  // namespace

bool register_attention(AttentionEntry entry, const std::string& source_sha256) {
  const std::string name = entry.info.name;
  if (!source_sha256.empty()) add_source(entry, source_sha256);
  const bool is_new = registry().emplace(name, std::move(entry)).second;
  if (!is_new) names_taken().push_back(name);
  return is_new;
}

void check_registrations() {
  if (!names_taken().empty()) {
    throw Error(
        fmt::format("attention '{}' is registered twice: give that of LRA_EXTRA_VARIANTS "
                    "another name",
                    fmt::join(names_taken(), "', '")));
  }
  for (const auto& [name, entry] : registry()) {
    constexpr const char* kLetters =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
    if (name.empty() || name.find_first_not_of(kLetters) != std::string::npos) {
      throw Error(
          fmt::format("attention '{}' of LRA_EXTRA_VARIANTS cannot be named on a command "
                      "line: its name should be of letters, digits, _, - and .",
                      printable(name, 100)));
    }
  }
}

json options_in_effect(const std::string& name, json reported) {
  const std::string& hash = attention_entry(name).source_sha256;
  if (!hash.empty() && reported.is_object()) reported[kSource] = hash;
  return reported;
}

std::vector<const AttentionEntry*> attention_entries() {
  std::vector<const AttentionEntry*> entries;
  for (const auto& [name, entry] : registry()) {
    if (!needs_file(entry) && entry.info.released_form_of.empty()) entries.push_back(&entry);
  }
  return entries;
}

std::string batch_coupling(const std::string& name, const json& options) {
  const AttentionEntry& entry = attention_entry(name);
  return entry.coupling ? entry.coupling(options)
                        : first_in_effect(entry.info.couples_batch, options);
}

std::string attention_key(const std::string& name, json options) {
  if (const auto file = options.find(kFile); file != options.end() && file->is_string()) {
    std::error_code none;
    *file = std::filesystem::weakly_canonical(file->get<std::string>(), none).string();
  }
  return name + " " + options.dump();
}

std::string moving_in_causal_form(const std::string& name, const json& options) {
  return first_in_effect(attention_entry(name).info.moves_in_causal_form, options);
}

void check_causal_options(const AttentionSpec& given, bool causal) {
  const std::string unread =
      first_in_effect(attention_entry(given.name).info.unread_in_causal_form, given.options);
  if (!causal || unread.empty()) return;
  throw UsageError(fmt::format(
      "attention {}: {} has no effect in its causal form (model.causal), as no position reads a "
      "later one; leave it out",
      given.name, unread));
}

std::string drawing_in_passes(const std::string& name, const json& options) {
  return first_in_effect(attention_entry(name).info.draws_in_passes, options);
}

void check_options_read(const AttentionInfo& info, const json& given, const json& effective,
                        const json& defaults) {
  for (const auto& [option, other, value] : info.read_where) {
    if (!given.contains(option) || effective.at(other) == value) continue;
    // A run's record holds every option.
    if (effective.at(option) == defaults.at(option)) continue;
    throw UsageError(fmt::format(
        "attention {}: {} has an effect only where {} is {}, not {}; leave it out, or set both",
        info.name, option, other, text_from_value(value), text_from_value(effective.at(other))));
  }
}

std::vector<const AttentionEntry*> released_forms() {
  std::vector<const AttentionEntry*> entries;
  for (const auto& [name, entry] : registry()) {
    if (!entry.info.released_form_of.empty()) entries.push_back(&entry);
  }
  return entries;
}

const AttentionEntry& attention_entry(const std::string& name) {
  const auto it = registry().find(name);
  if (it != registry().end()) return it->second;
  std::vector<std::string> names;
  for (const auto& [known, entry] : registry()) names.push_back(known);
  const UsageError unknown = unknown_name("attention", name, names);
  if (!nearest_name(name, names).empty()) throw unknown;
  throw UsageError(
      fmt::format("{}; one of your own runs in the program that LRA_EXTRA_VARIANTS "
                  "built it into",
                  unknown.what()));
}

bool runs_by_name(const std::string& name) {
  const auto it = registry().find(name);
  return it != registry().end() && !needs_file(it->second);
}

std::shared_ptr<Attention> make_attention(const AttentionSpec& spec,
                                          const AttentionContext& context) {
  const AttentionEntry& entry = attention_entry(spec.name);
  if (context.causal) check_can_be_causal(entry.info);
  if (context.rotary_base > 0) check_can_rotate(entry.info, context.head_dim);
  return entry.make(context, spec.options);
}

namespace {

// Whether text that is no JSON was meant as a list, an object or a number, as [False] and .5.
bool is_almost_json(const std::string& text) {
  if (text.empty() || !json::parse(text, nullptr, /*allow_exceptions=*/false).is_discarded())
    return false;
  if (text.front() == '[' || text.front() == '{') return true;
  const bool begins = std::string_view("+-.0123456789").find(text.front()) != std::string::npos;
  char* end = nullptr;
  std::strtod(text.c_str(), &end);
  return begins && end == text.c_str() + text.size();
}

}  // namespace

json option_from_text(const std::string& key, const std::string& text) {
  if (is_almost_json(text)) {
    throw UsageError(fmt::format(
        "{0}={1} is no JSON; write numbers as 0.5, lists as [false,1], and a word within "
        "quotes, {0}={2}",
        key, text, json(text).dump()));
  }
  return value_from_text(text);
}

std::string AttentionSpec::text() const {
  std::map<std::string, std::string> sorted;
  for (const auto& [key, value] : options.items()) {
    // Strings stand bare, unless they would read back as something else (a number, say).
    const bool bare = value.is_string() && !is_almost_json(value.get<std::string>()) &&
                      value_from_text(value.get<std::string>()) == value;
    sorted[key] = bare ? value.get<std::string>() : value.dump();
  }
  if (sorted.empty()) return name;
  std::string start = name;
  if (options.size() == 1 && options.contains(kFile) && options[kFile].is_string())
    return name + ":" + options[kFile].get<std::string>();
  if (options.contains(kFile) && options.contains(kClass)) {
    for (const char* key : {kFile, kClass}) {
      start += ":" + sorted[key];
      sorted.erase(key);
    }
    if (sorted.empty()) return start;
  }
  std::string inside;
  for (const auto& [key, value] : sorted) inside += (inside.empty() ? "" : ",") + key + "=" + value;
  return start + "[" + inside + "]";
}

namespace {

// The options between the brackets of "name[key=value,...]", of which `text` from `open` on is the
// bracketed part.
void parse_options(const std::string& text, size_t open, AttentionSpec& spec) {
  if (text.back() != ']') malformed(text, "the closing ']' is missing");
  const std::string inside = text.substr(open + 1, text.size() - open - 2);
  if (strip(inside).empty()) malformed(text, "the brackets are empty");
  for (const std::string& piece : split_at_commas(inside)) {
    const auto equals = piece.find('=');
    if (equals == std::string::npos)
      malformed(text, fmt::format("'{}' is no key=value", strip(piece)));
    const std::string key(strip(piece.substr(0, equals))), value(strip(piece.substr(equals + 1)));
    if (key.empty() || value.empty())
      malformed(text, fmt::format("'{}' is no key=value", strip(piece)));
    if (spec.options.contains(key)) malformed(text, fmt::format("key '{}' is given twice", key));
    spec.options[key] = option_from_text(key, value);
  }
}

// What stands behind the colon of "name:FILE" or "name:FILE:CLASS[key=value,...]".
void parse_file(const std::string& text, size_t colon, AttentionSpec& spec) {
  const auto entry = registry().find(spec.name);
  const bool has_class =
      entry != registry().end() && entry->second.default_options.contains(kClass);
  const std::string name = spec.name.empty() ? "name" : spec.name,
                    form = name + (has_class ? ":FILE.py:CLASS, or " + name +
                                                   ":FILE.py:CLASS[key=value,...]"
                                             : ":FILE");
  const auto open = has_class ? text.find('[', colon) : std::string::npos;
  const std::string named(
      strip(text.substr(colon + 1, open == std::string::npos ? open : open - colon - 1)));
  if (spec.name.empty() || named.empty()) malformed(text, "the name or the file is missing", form);
  // They would part the names of a list.
  if (named.find_first_of(",[]") != std::string::npos)
    malformed(text, "a file's path may hold no comma and no bracket", form);
  spec.options[kFile] = named;
  if (!has_class) return;
  const auto last = named.rfind(':');
  if (last == std::string::npos || last + 1 == named.size() || last == 0)
    malformed(text, "the file or the class is missing", form);
  spec.options[kFile] = named.substr(0, last);
  spec.options[kClass] = named.substr(last + 1);
  if (open != std::string::npos) parse_options(text, open, spec);
}

}  // namespace

AttentionSpec parse_attention(const std::string& given) {
  const std::string text(strip(given));
  check_form(text);
  const auto open = text.find('['), colon = text.find(':');
  AttentionSpec spec;
  if (colon < open) {
    spec.name = strip(text.substr(0, colon));
    parse_file(text, colon, spec);
    return spec;
  }
  spec.name = strip(text.substr(0, open));
  if (spec.name.empty()) malformed(text, "the name is missing");
  if (open == std::string::npos) {
    if (text.find(']') != std::string::npos) malformed(text, "']' without '['");
    return spec;
  }
  parse_options(text, open, spec);
  return spec;
}

std::vector<AttentionSpec> parse_attentions(const std::string& text) {
  std::vector<AttentionSpec> specs;
  for (const std::string& piece : split_at_commas(text)) {
    if (strip(piece).empty()) {
      throw UsageError(fmt::format(
          "attentions '{}': a name is missing between commas; write a,b[key=value],c", text));
    }
    specs.push_back(parse_attention(piece));
  }
  return specs;
}

}  // namespace lra
