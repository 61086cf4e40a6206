// The strict reader of results/published/*.json, and the files that travel inside the program.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "embedded_published.h"
#include "results/published/published.h"

namespace lra {
namespace {

// One object of a published file, with every key accounted for.
class Strict {
 public:
  Strict(const json& object, std::string where, const std::vector<std::string>& required,
         const std::vector<std::string>& optional = {})
      : object_(object), where_(std::move(where)) {
    if (!object_.is_object()) fail("should be an object");
    for (const auto& [key, value] : object_.items()) {
      if (std::find(required.begin(), required.end(), key) == required.end() &&
          std::find(optional.begin(), optional.end(), key) == optional.end()) {
        std::vector<std::string> valid = required;
        valid.insert(valid.end(), optional.begin(), optional.end());
        fail(fmt::format("unknown key '{}'; valid: {}", key, fmt::join(valid, ", ")));
      }
    }
    for (const std::string& key : required) {
      if (!object_.contains(key)) fail("key '" + key + "' is missing");
    }
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error(where_ + ": " + what);
  }
  bool has(const char* key) const { return object_.contains(key); }
  const json& operator[](const char* key) const { return object_.at(key); }

  std::string text(const char* key) const {
    if (!object_.at(key).is_string()) fail(fmt::format("'{}' should be a string", key));
    return object_.at(key).get<std::string>();
  }
  template <HasNames E>
  E named(const char* key, const std::string& word) const {
    const auto value = parse_name<E>(word);
    if (!value) fail(fmt::format("'{}' should be one of {}", key, fmt::join(all_names<E>(), ", ")));
    return *value;
  }
  template <HasNames E>
  E named(const char* key) const {
    return named<E>(key, text(key));
  }
  int64_t integer(const char* key) const { return integer_of(key, object_.at(key)); }
  int64_t integer_of(const std::string& key, const json& value) const {
    if (!value.is_number_integer() || value.get<int64_t>() < 1)
      fail(fmt::format("'{}' should be an integer of at least 1", key));
    return value.get<int64_t>();
  }
  double number_of(const std::string& key, const json& value) const {
    if (!value.is_number() || !std::isfinite(value.get<double>()) || value.get<double>() < 0) {
      fail(fmt::format("'{}' should hold numbers of at least 0", key));
    }
    return value.get<double>();
  }
  const json& array(const char* key) const {
    if (!object_.at(key).is_array()) fail(fmt::format("'{}' should be an array", key));
    return object_.at(key);
  }
  std::vector<std::string> texts(const char* key) const {
    std::vector<std::string> result;
    for (const json& value : array(key)) {
      if (!value.is_string()) fail(fmt::format("'{}' should hold strings", key));
      result.push_back(value.get<std::string>());
    }
    return result;
  }
  std::vector<double> numbers(const char* key, size_t count) const {
    std::vector<double> result;
    for (const json& value : array(key)) result.push_back(number_of(key, value));
    if (result.size() != count)
      fail(fmt::format("'{}' should hold {} numbers, not {}", key, count, result.size()));
    return result;
  }

 private:
  const json& object_;
  std::string where_;
};

// Where a set of numbers comes from, and beside what it may stand.
void read_provenance(const Strict& object, PublishedAccuracy& accuracy) {
  accuracy.table = object.text("table");
  accuracy.version = object.text("version");
  accuracy.regime = object.named<Regime>("regime");
  accuracy.made_by = object.text("made_by");
  accuracy.slips = object.texts("slips");
  if (object.has("notes")) accuracy.notes = object.texts("notes");
  if (object.has("recipe")) accuracy.recipe = object.text("recipe");
  accuracy.protocols = object.texts("protocols");
  if (accuracy.regime == Regime::later && !accuracy.protocols.empty())
    object.fail("a set of regime 'later' stands beside no protocol");
  if (accuracy.protocols.empty() == accuracy.recipe.empty())
    object.fail("either 'protocols' or 'recipe' should say what was done");
}

PublishedAccuracy::Row read_row(const json& entry, size_t tasks, const std::string& file) {
  const Strict row(entry, file + ": accuracy.rows", {"name", "values"},
                   {"variant", "released_form", "average"});
  PublishedAccuracy::Row read{.name = row.text("name"), .variant = {}, .average = {}};
  if (row.has("variant")) read.variant = parse_variant(row.text("variant"));
  if (row.has("released_form")) {
    if (!read.variant) row.fail("'released_form' needs 'variant'");
    read.released_form = row.text("released_form");
  }
  if (row.has("average")) read.average = row.number_of("average", row["average"]);
  for (const json& value : row.array("values")) {
    std::optional<double>& percent = read.values.emplace_back();
    if (value.is_null()) continue;
    percent = row.number_of("values", value);
    if (*percent > 100) row.fail(fmt::format("{} % is above 100", *percent));
  }
  if (read.values.size() != tasks)
    row.fail(fmt::format("'values' should hold {} numbers, not {}", tasks, read.values.size()));
  return read;
}

PublishedAccuracy read_accuracy(const json& value, const std::string& file) {
  const Strict object(value, file + ": accuracy",
                      {"table", "version", "regime", "made_by", "slips", "unit", "protocols",
                       "differences", "tasks", "test_examples", "rows"},
                      {"notes", "recipe"});
  if (object.text("unit") != "%") object.fail("'unit' should be %");
  PublishedAccuracy accuracy;
  read_provenance(object, accuracy);
  accuracy.tasks = object.texts("tasks");
  const Strict differences(object["differences"], file + ": accuracy.differences", {},
                           accuracy.protocols);
  for (const auto& [protocol, text] : object["differences"].items()) {
    accuracy.differences[protocol] = differences.text(protocol.c_str());
  }
  const Strict examples(object["test_examples"], file + ": accuracy.test_examples", accuracy.tasks);
  for (const std::string& task : accuracy.tasks)
    accuracy.test_examples[task] = examples.integer(task.c_str());
  for (const json& entry : object.array("rows"))
    accuracy.rows.push_back(read_row(entry, accuracy.tasks.size(), file));
  return accuracy;
}

PublishedCost read_cost(const json& value, const std::string& file) {
  const Strict object(value, file + ": cost",
                      {"where", "machine", "what", "scopes", "mode", "batch", "heads", "head_dim",
                       "memory_unit", "time_unit", "note", "baseline", "lengths", "rows"});
  PublishedCost cost{.where = object.text("where"),
                     .machine = object.text("machine"),
                     .what = object.text("what"),
                     .scopes = {},
                     .mode = object.named<ProfileMode>("mode"),
                     .batch = object.integer("batch"),
                     .heads = object.integer("heads"),
                     .head_dim = object.integer("head_dim"),
                     .memory_unit = object.text("memory_unit"),
                     .time_unit = object.named<TimeUnit>("time_unit"),
                     .note = object.text("note"),
                     .baseline = parse_variant(object.text("baseline")),
                     .lengths = {}};
  for (const std::string& scope : object.texts("scopes"))
    cost.scopes.push_back(object.named<ProfileScope>("scopes", scope));
  for (const json& length : object.array("lengths"))
    cost.lengths.push_back(object.integer_of("lengths", length));
  for (const json& entry : object.array("rows")) {
    const Strict row(entry, file + ": cost.rows", {"name", "variant", "memory", "time"});
    cost.rows.push_back({.name = row.text("name"),
                         .variant = parse_variant(row.text("variant")),
                         .memory = row.numbers("memory", cost.lengths.size()),
                         .time = row.numbers("time", cost.lengths.size())});
  }
  return cost;
}

}  // namespace

Published parse_published(std::string_view text, const std::string& file) {
  json value;
  try {
    value = json::parse(text);
  } catch (const json::exception& error) {
    throw std::runtime_error(file + ": not valid JSON: " + error.what());
  }
  const Strict object(value, file, {"schema", "name", "paper"}, {"accuracy", "cost"});
  if (object.text("schema") != "lra.published/1") object.fail("'schema' should be lra.published/1");
  Published published{
      .name = object.text("name"), .paper = object.text("paper"), .accuracy = {}, .cost = {}};
  if (object.has("accuracy")) published.accuracy = read_accuracy(object["accuracy"], file);
  if (object.has("cost")) published.cost = read_cost(object["cost"], file);
  return published;
}

const std::vector<Published>& published() {
  static const std::vector<Published> all = [] {
    std::vector<Published> result;
    for (const auto& [stem, text] : embedded_published) {
      result.push_back(parse_published(text, std::string(stem) + ".json"));
    }
    std::sort(result.begin(), result.end(),
              [](const auto& a, const auto& b) { return a.name < b.name; });
    return result;
  }();
  return all;
}

}  // namespace lra
