// How the attentions of a table are told apart: by the files that they are made from, and by the
// options that differ.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "results/records/attention_record.h"

namespace lra {

/// A name of each file that attentions are made from, by its hash.
using FileNames = std::map<std::string, std::string>;

/// The shortest name that each file was given: one that was named as a.py, ./a.py and /b/a.py is
/// one.
FileNames shortest_names(std::span<const AttentionRecord* const> attentions);

/// The attention with its file named so, in its label and its options; as it is where it is made
/// from none of these.
AttentionRecord with_file_name(AttentionRecord attention, const FileNames& files);

/// The hashes of what it is made from, "" where that is the program.
std::string source_hashes(const AttentionRecord& attention);

/// "k=3", "sha256=6adf38cf": of these options those that not all of the others have alike; of
/// hashes the beginning, as of data.
std::vector<std::string> differing_options(const json& options,
                                           std::span<const json* const> others);

/// "nystrom {k=3, sha256=6adf38cf}"; the label alone where nothing differs.
std::string name_with(const std::string& label, const std::vector<std::string>& differing);

}  // namespace lra
