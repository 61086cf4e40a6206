// Which records of one protocol's name were measured under the same values of it.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace lra {

/// What a record says of the protocol that it was measured under, beyond its name.
struct SetupMarks {
  std::string values;    // protocol_sha256; "" = not known
  std::string own;       // own_settings_sha256; "" = the protocol has none for the attention
  std::string settings;  // settings_sha256, of this cell alone; "" = not known
  std::string cell;      // what the record is of, as attention and length
  std::string file;      // a file's records without `values` are of one protocol
};

struct SetupGroup {
  std::string values;              // "values 1a2b3c4d"; "" where there is one group
  std::vector<std::string> notes;  // on what tells it apart, for below a table
  std::vector<size_t> members;     // places in what was given, in their order
};

/// Groups of the same values. What does not say its values is of the group that holds one of its
/// cells under the same `settings`, else of the only one there is, unless that holds one of its
/// cells under other `settings`; and where there are several, of a group that knows none.
std::vector<SetupGroup> setup_groups(std::span<const SetupMarks> marks);

/// Of two measurements of the same cell: how the values of their protocols differ,
/// "protocol_sha256 1a2b3c4d before, 5e6f7a8b now"; "" where that is not known.
std::string other_values(const SetupMarks& before, const SetupMarks& now);

}  // namespace lra
