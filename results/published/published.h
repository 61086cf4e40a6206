// The numbers of the papers, from published/*.json: stored as printed, with source, units, machine
// and recipe.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "attention_variants/base/profile_scope.h"
#include "results/records/attention_record.h"

namespace lra {

/// Which attention of ours a published row is of: a name, and the options that must have these
/// values.
struct PublishedVariant {
  std::string name;
  json options = json::object();

  /// Whether `attention` is that variant. Where a record holds no options (a run still pending),
  /// those of its label count.
  bool matches(const AttentionRecord& attention) const;
};

/// Reads "nystrom[num_landmarks=32]"; throws std::runtime_error where it is malformed.
PublishedVariant parse_variant(std::string_view text);

/// Whose rules a set of published numbers follows: those of LRA's authors; LRA's, as authors of
/// other papers ran them; or none of them, each model's own.
enum class Regime { official, self_reported, later };
constexpr auto names(Regime) { return std::array{"official", "self-reported", "later"}; }

struct PublishedAccuracy {
  struct Row {
    std::string name;                         // the paper's own: "Nyströmformer"
    std::optional<PublishedVariant> variant;  // nothing: no attention of ours
    // The function that the code released with the paper gives that name to, where it is another
    // ("local_tay2020"); empty: none.
    std::string released_form = {};
    std::vector<std::optional<double>> values;  // per cent, by task; nothing: none published
    // As printed, even where the row's own numbers average otherwise.
    std::optional<double> average;

    /// Whether `attention` is the variant or its released form, as a protocol has it: a user's
    /// options (those of the label) that the row does not name make it another one.
    bool matches(const AttentionRecord& attention) const;
  };
  std::string table;    // "Table 3"
  std::string version;  // of the paper: "arXiv 2102.03902"
  Regime regime = Regime::official;
  std::string made_by;                 // the code or the people
  std::vector<std::string> slips;      // numbers printed that cannot be or differ between places
  std::vector<std::string> notes;      // what else to know of them
  std::string recipe;                  // where no protocol of ours is near: what was done
  std::vector<std::string> protocols;  // of ours that it may stand beside, the same recipe first
  std::map<std::string, std::string> differences;  // by protocol: what differs
  std::vector<std::string> tasks;
  std::map<std::string, int64_t> test_examples;  // by task
  std::vector<Row> rows;

  /// The printed accuracy in per cent, if there is one.
  std::optional<double> value(const std::string& task, const AttentionRecord& attention) const;
  /// The row of an attention, null where there is none.
  const Row* row(const AttentionRecord& attention) const;
};

enum class TimeUnit { milliseconds, steps_per_second };
constexpr auto names(TimeUnit) { return std::array{"ms", "steps/s"}; }

struct PublishedCost {
  struct Row {
    std::string name;
    PublishedVariant variant;
    std::vector<double> memory, time;  // by length
  };
  std::string where;
  std::string machine;               // "GTX 1080 Ti"
  std::string what;                  // one line: what was measured
  std::vector<ProfileScope> scopes;  // that it may stand beside
  ProfileMode mode = ProfileMode::inference;
  int64_t batch = 0, heads = 0, head_dim = 0;
  std::string memory_unit;  // "MB", "GB"
  TimeUnit time_unit = TimeUnit::milliseconds;
  std::string note;           // what to know of it; may be empty
  PublishedVariant baseline;  // what the others are compared with
  std::vector<int64_t> lengths;
  std::vector<Row> rows;
};

struct Published {
  std::string name;   // "nystromformer2021"
  std::string paper;  // authors, title, venue
  std::optional<PublishedAccuracy> accuracy;
  std::optional<PublishedCost> cost;
};

/// Reads one file strictly (a set of regime "later" stands beside no protocol, any other names one
/// or says its recipe): an unknown or missing key, a list of the wrong length or a value of the
/// wrong type throws std::runtime_error that names file and key.
Published parse_published(std::string_view text, const std::string& file);

/// All that travel inside the program, sorted by name.
const std::vector<Published>& published();

}  // namespace lra
