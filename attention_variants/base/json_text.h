// JSON in messages: the text of a value, and where two values differ.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "attention_variants/base/fields.h"

namespace lra {

/// A value of unknown origin for a message: printable() (text.h), its first 200 bytes.
std::string printable_json(const json& value);

/// Where "a.b" stands in an object of objects.
json::json_pointer dotted_pointer(const std::string& path);

struct JsonDifference {
  std::string path;                 // keys joined by dots: "options.seed"; "" = the values as such
  std::optional<json> left, right;  // empty where that side does not have the key
};

/// Every key, however deep, whose values differ, in the order of `left`, then of `right`. Lists are
/// compared as a whole.
std::vector<JsonDifference> json_differences(const json& left, const json& right);

/// The dotted paths at which two JSON objects differ, as "a.b: 1 -> 2".
std::vector<std::string> differences(const json& a, const json& b);

/// The first of them and how many more, for a message; "" where there is none.
std::string differences_text(const json& a, const json& b);

/// A key of an object, and the option that sets it.
struct NamedKey {
  std::string key, option;
};

/// What of these keys differs, as "--seeds 0 there, 0,1 here; --dtype ..."; without keys, whatever
/// differs, by its path, the first few and how many more. "" where nothing does.
std::string there_and_here(const json& there, const json& here,
                           const std::vector<NamedKey>& keys = {});

}  // namespace lra
